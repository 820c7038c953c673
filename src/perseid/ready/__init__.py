"""Operators that are ready: what people write every day, as methods of ``Stream`` and as classes (L3)."""

from perseid.ready.aggregate import Aggregate
from perseid.ready.deduplicate import Deduplicate

__all__ = ["Aggregate", "Deduplicate"]
