"""Operators that are ready: what people write every day, as methods of ``Stream`` and as classes (L3)."""

from perseid.ready.aggregate import Aggregate
from perseid.ready.deduplicate import Deduplicate
from perseid.ready.top_k import TopK

__all__ = ["Aggregate", "Deduplicate", "TopK"]
