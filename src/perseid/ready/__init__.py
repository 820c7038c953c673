"""Operators that are ready: what people write every day, as methods of ``Stream`` and as classes (L3)."""

from perseid.ready.aggregate import Aggregate
from perseid.ready.as_of import AsOf
from perseid.ready.deduplicate import Deduplicate
from perseid.ready.each_row import EachRow
from perseid.ready.join import Join
from perseid.ready.lookup import Lookup
from perseid.ready.sort import Sort
from perseid.ready.top_k import TopK

__all__ = ["Aggregate", "AsOf", "Deduplicate", "EachRow", "Join", "Lookup", "Sort", "TopK"]
