"""Records found by an integer key, many at a time: an open-addressing hash table in one NumPy array (S1, S7).

The table is the state itself: a structured array whose field ``key`` is the packed key, or ``EMPTY``. Looking up a whole
epoch is a few passes over arrays: where a key hashes to, is it there, and the few that are not, one place further.

Invariant: at most half of the places are taken, and every key is reached from its hash without crossing an empty place.
The same keys put in in the same order give the same array, so a replay rebuilds it bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

EMPTY: Final = 0  # so keys are 1 or more; fresh memory is zeros, and is touched only where it is used
_SMALLEST: Final = 1 << 10
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: the high bits of the product are well mixed

Records = npt.NDArray[Any]
Places = npt.NDArray[np.intp]
Keys = npt.NDArray[np.int64]


class Fill:
    """How many records the table of an operator holds; counted anew only for a table it has not seen. Scratch, not state."""

    def __init__(self) -> None:
        self._table: Records | None = None
        self._count = 0

    def of(self, table: Records) -> int:
        """At most so many records."""
        if self._table is not table:
            self._table, self._count = table, int(np.count_nonzero(table["key"]))
        return self._count

    def put(self, table: Records, keys: Keys) -> tuple[Records, Places]:
        """As the function ``put``, with the count kept here."""
        self._table, self._count, places = put(table, self.of(table), keys)
        return self._table, places


def new_table(dtype: np.dtype[Any], places: int = _SMALLEST) -> Records:
    """An empty table. ``dtype`` has a field ``key`` of 8 bytes and whole words in all; ``places`` is a power of two."""
    assert dtype.itemsize % 8 == 0
    return np.zeros(places, dtype)


def gather(table: Records, places: Places) -> Records:
    """A copy of the records at these places. NumPy moves plain bytes ten times faster than records with fields."""
    words = table.view(np.int64).reshape(-1, table.dtype.itemsize // 8)
    return words.take(places, axis=0).view(table.dtype).reshape(-1)


def scatter(table: Records, places: Places, records: Records) -> None:
    """Put these records at these places, which differ."""
    as_bytes = np.dtype((np.void, table.dtype.itemsize))
    np.put(table.view(as_bytes), places, records.view(as_bytes))


def taken(table: Records) -> Records:
    """A copy of the records that are there."""
    return gather(table, np.flatnonzero(table["key"] != EMPTY))


def find(table: Records, keys: Keys) -> Places:
    """Where the records of these keys are; -1 for a key that is not there."""
    places = _home(table, keys)
    present = table["key"][places]
    result: Places = np.where(present == keys, places, -1)
    open_rows = np.flatnonzero((present != keys) & (present != EMPTY))
    while len(open_rows):
        places[open_rows] = (places[open_rows] + 1) & (len(table) - 1)
        present = table["key"][places[open_rows]]
        hit = present == keys[open_rows]
        result[open_rows[hit]] = places[open_rows[hit]]
        open_rows = open_rows[~hit & (present != EMPTY)]
    return result


def put(table: Records, count: int, keys: Keys) -> tuple[Records, int, Places]:
    """Where the records of these keys are, making zeroed ones for keys that are new; equal keys share one.

    Returns the table (another one, if it had to grow), how many records it has now at most, and the places. The number is
    counted anew only before the table grows: ``count`` in, ``count`` out.
    """
    table, count = _grown(table, count, len(keys))
    stored = table["key"]
    places = _home(table, keys)
    present = stored[places]
    open_rows = np.flatnonzero(present != keys)
    while len(open_rows):
        at, wanted = places[open_rows], keys[open_rows]
        free = stored[at] == EMPTY
        stored[at[free]] = wanted[free]  # where two want one place, the last gets it
        done = stored[at] == wanted
        count += int(np.count_nonzero(free & done))  # equal keys count twice
        open_rows = open_rows[~done]
        places[open_rows] = (places[open_rows] + 1) & (len(table) - 1)
        open_rows = open_rows[stored[places[open_rows]] != keys[open_rows]]
    return table, count, places


def kept(table: Records, keep: Callable[[Records], npt.NDArray[np.bool_]], places: int = _SMALLEST) -> Records:
    """A table of only those records for which ``keep`` says so, with at least so many places."""
    records = taken(table)
    return table_of(gather(records, np.flatnonzero(keep(records))), table.dtype, places)


def table_of(records: Records, dtype: np.dtype[Any], places: int = _SMALLEST) -> Records:
    """A table of these records, whose keys differ."""
    table, _, at = put(new_table(dtype, places), 0, np.ascontiguousarray(records["key"]))
    scatter(table, at, records)
    return table


def merged(tables: Iterable[Records]) -> Records:
    """One table of the records of several, which share no key."""
    all_of_them = list(tables)
    return table_of(np.concatenate([taken(table) for table in all_of_them]), all_of_them[0].dtype)


def _home(table: Records, keys: Keys) -> Places:
    shift = np.uint64(64 - (len(table).bit_length() - 1))
    home: Places = ((keys.view(np.uint64) * _MULTIPLIER) >> shift).astype(np.intp)
    return home


def _grown(table: Records, count: int, more: int) -> tuple[Records, int]:
    """Room for ``more`` further records at most half full."""
    if (count + more) * 2 <= len(table):
        return table, count
    records = taken(table)
    places = len(table)
    while (len(records) + more) * 2 > places:
        places *= 2
    if places > len(table):
        larger = new_table(table.dtype, places)
        larger, _, at = put(larger, 0, np.ascontiguousarray(records["key"]))
        scatter(larger, at, records)
        table = larger
    return table, len(records)
