"""Operators that are ready: what people write every day, as methods of ``Stream`` and as classes (L3)."""

from perseid.ready.aggregate import Aggregate

__all__ = ["Aggregate"]
