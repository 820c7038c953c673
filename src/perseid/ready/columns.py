"""Columns of rows as NumPy arrays on which whole groups are worked out, and back.

Integers, dates and times are 64-bit integers, floats doubles; texts, decimals and all else are Python objects, of which there is one
for each group, not for each row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perseid.operators.grouping import stable_order
from perseid.operators.values import values_of

Array = NDArray[Any]
Numbers = NDArray[np.int64]

_HALF = (pa.types.is_date32, pa.types.is_time32)
_WHOLE = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date64, pa.types.is_time64, pa.types.is_timestamp,
          pa.types.is_duration)  # fmt: skip


class Values(NamedTuple):
    """A column: its values, and which of them are there (None: all)."""

    values: Array
    there: NDArray[np.bool_] | None


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """What its values are kept as."""
    if any(test(kind) for test in (*_HALF, *_WHOLE)):
        return np.dtype(np.int64)
    return np.dtype(np.float64) if pa.types.is_floating(kind) else np.dtype(object)


def to_values(column: pa.Array | pa.ChunkedArray) -> Values:
    """An Arrow column as NumPy's. Where a value is missing there is 0 or None."""
    kind = column.type
    there = None if not column.null_count else pc.is_valid(column).to_numpy(zero_copy_only=False)
    if dtype_of(kind).hasobject:
        values = np.empty(len(column), object)
        values[:] = values_of(column)
        return Values(values, there)
    if any(test(kind) for test in _HALF):
        column = column.cast(pa.int32())
    column = column.cast(pa.float64() if pa.types.is_floating(kind) else pa.int64())
    return Values((column.fill_null(0) if there is not None else column).to_numpy(zero_copy_only=False), there)


def to_arrow(values: Array, there: NDArray[np.bool_] | None, kind: pa.DataType) -> pa.Array:
    """NumPy's values as an Arrow column of the type."""
    mask = None if there is None else ~there
    if values.dtype == object:
        if mask is not None:
            values = values.copy()
            values[mask] = None
        return pa.array(values.tolist(), kind)
    if pa.types.is_boolean(kind):
        return pa.array(values != 0, mask=mask)
    column = pa.array(values, mask=mask)
    return (column.cast(pa.int32()) if any(test(kind) for test in _HALF) else column).cast(kind)


class Segments:
    """Equal codes brought together: a stable order of them, where each code begins, and the codes, ascending."""

    __slots__ = ("codes", "order", "starts")

    def __init__(self, codes: Numbers, bound: int | None = None) -> None:
        self.order = np.argsort(codes, kind="stable") if bound is None else stable_order(codes, bound)
        ordered = codes[self.order]
        first = np.empty(len(ordered), bool)
        first[:1] = True
        np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
        self.starts: NDArray[np.intp] = np.flatnonzero(first)
        self.codes: Numbers = ordered[self.starts]

    def firsts(self) -> NDArray[np.intp]:
        """The place of the first of each code."""
        return self.order[self.starts]


def dense(codes: Numbers, bound: int) -> tuple[Numbers, Numbers]:
    """The distinct codes, ascending, and for each row which of them it has. ``codes`` are at least 0 and below ``bound``."""
    if bound > 4 * len(codes) + 1024:
        distinct, inverse = np.unique(codes, return_inverse=True)
        return distinct.astype(np.int64), inverse.astype(np.int64)
    seen = np.zeros(bound, bool)
    seen[codes] = True
    distinct = np.flatnonzero(seen).astype(np.int64)
    if len(distinct) == bound:
        return distinct, codes
    return distinct, (np.cumsum(seen) - 1)[codes]


def places_of(codes: Numbers, ascending: Numbers) -> Numbers:
    """The place of each code among the others; -1 for those that are not there. Codes are at least 0."""
    if not len(ascending) or not len(codes):
        return np.full(len(codes), -1, np.int64)
    last = int(ascending[-1])
    if last <= 4 * (len(codes) + len(ascending)) + 1024:  # a table instead of a search: ten times as fast
        table = np.full(last + 2, -1, np.int64)
        table[ascending] = np.arange(len(ascending))
        return table[np.minimum(codes, last + 1)]
    places = np.minimum(np.searchsorted(ascending, codes), len(ascending) - 1)
    return np.where(ascending[places] == codes, places, -1)
