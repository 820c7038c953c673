"""Where rows come from. What a source has given can be read again, byte for byte, until it is trimmed (M1).

files        parquet, JSON, CSV or text files that arrive in a folder      preserved by reference
generator    rows made up by SQL expressions, at a rate                    preserved by reference
table        any batch DataFrame                                           stored once
stream       any spark.readStream DataFrame                                preserved by value
open_loop    a generator or table whose rows do not wait                   what is dropped is written down

A source of your own is any object with the methods of ``Source``. It is given ``Offset`` numbers, and a folder of its own in a ``Store``.
``UnorderedSource``, ``GrowingSource``, ``WaitingSource`` and ``PendingSource`` are further methods that a source may have.
"""

from perseid.sources.files import files
from perseid.sources.generator import generator
from perseid.sources.open_loop import open_loop
from perseid.sources.source import GrowingSource, PendingSource, Source, UnorderedSource, WaitingSource
from perseid.sources.stream import stream
from perseid.sources.table import table
from perseid.storage.store import Store
from perseid.vocabulary import Offset

__all__ = [
    "GrowingSource",
    "Offset",
    "PendingSource",
    "Source",
    "Store",
    "UnorderedSource",
    "WaitingSource",
    "files",
    "generator",
    "open_loop",
    "stream",
    "table",
]
