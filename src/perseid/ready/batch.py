"""The rows of an epoch with the group each belongs to: what aggregate functions work on. Every group has rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.ready.columns import Numbers, Segments, Values, to_values


class Batch:
    """Rows, the number of each row's group (from 0, below ``groups``), and its place in time or in the order of rows."""

    def __init__(self, rows: pa.Table, codes: Numbers, groups: int, place: Numbers) -> None:
        self.rows, self.codes, self.groups, self.place = rows, codes, groups, place
        self._values: dict[str, Values] = {}
        self._counts: dict[str | None, Numbers] = {}

    @cached_property
    def segments(self) -> Segments:
        """The rows brought together by group; within a group they keep their order."""
        return Segments(self.codes, self.groups)

    def column(self, name: str) -> Any:
        """One column as one array."""
        column = self.rows.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.num_chunks == 1:
            return column.chunk(0)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

    def values(self, name: str) -> Values:
        """One column as NumPy's."""
        if name not in self._values:
            self._values[name] = to_values(self.column(name))
        return self._values[name]

    def values_there(self, name: str) -> NDArray[np.bool_] | None:
        """Which rows have a value in the column; None if all have one."""
        column = self.rows.column(name)
        return column.is_valid().to_numpy() if column.null_count else None

    def counts(self, name: str | None) -> Numbers:
        """How many rows of each group have a value in the column; how many rows it has, without one."""
        if name not in self._counts:
            there = None if name is None else self.values_there(name)
            codes = self.codes if there is None else self.codes[there]
            self._counts[name] = np.bincount(codes, minlength=self.groups)
        return self._counts[name]
