"""Rows of one stream that wait for rows of another: by key, with the time of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.errors import OperatorMistake
from perseid.operators.context import Context
from perseid.ready.columns import Numbers, Segments
from perseid.ready.contents import Contents
from perseid.ready.keys import renumbered

Mask = NDArray[np.bool_]


class KeptRows:
    """Rows in the order they came: the number of each row's key, its time, a flag, and its columns."""

    def __init__(self, numbers: Numbers, times_us: Numbers, flags: Mask, table: pa.Table) -> None:
        self.numbers, self.times_us, self.flags, self.table = numbers, times_us, flags, table

    @classmethod
    def none(cls, schema: pa.Schema) -> KeptRows:
        """No rows of these columns."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool), schema.empty_table())

    def __len__(self) -> int:
        return len(self.numbers)

    def only(self, which: Mask) -> KeptRows:
        """Some of them."""
        if which.all():
            return self
        return KeptRows(
            self.numbers[which], self.times_us[which], self.flags[which], self.table.filter(pa.array(which))
        )

    def latest(self) -> KeptRows:
        """Of each key the row that came last."""
        stay = np.zeros(len(self), bool)
        stay[len(self) - 1 - Segments(self.numbers[::-1]).firsts()] = True
        return self.only(stay)

    def renumbered(self, table: Numbers) -> KeptRows:
        """With other numbers of keys, ``table[old]``; rows whose new number is below 0 go."""
        numbers = table[self.numbers] if len(self) else self.numbers
        return KeptRows(numbers, self.times_us, self.flags, self.table).only(numbers >= 0)

    @classmethod
    def together(cls, parts: Sequence[KeptRows]) -> KeptRows:
        """All of several, one after the other."""
        table = pa.concat_tables([part.table for part in parts])
        return cls(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.times_us for part in parts]),
            np.concatenate([part.flags for part in parts]),
            table.combine_chunks() if table.num_columns and table.column(0).num_chunks > 16 else table,
        )

    @property
    def nbytes(self) -> int:
        """In memory."""
        arrays = (self.numbers, self.times_us, self.flags)
        return int(sum(array.nbytes for array in arrays) + self.table.nbytes)


class Waiting(Contents):
    """Rows of one or both streams that others may still need."""

    def __init__(self, about: tuple[str, ...]) -> None:
        super().__init__(about)
        self.of: dict[str, KeptRows] = {}

    def take(self, name: str, rows: pa.Table, times: Numbers, context: Context) -> None:
        """Put rows of a stream behind those that are there."""
        schema, operator = self.of[name].table.schema, context.shard.operator
        if rows.schema != schema:
            raise OperatorMistake(
                f"operator '{operator}': the {name} stream had the columns {_told(schema)} before, now it has {_told(rows.schema)}"
            )
        if rows.num_rows:
            numbers, codes = self.keys.number(rows, context.key_columns(name), operator)
            come = KeptRows(numbers[codes], times, np.zeros(rows.num_rows, bool), rows)
            self.of[name] = KeptRows.together([self.of[name], come])

    def used(self) -> Numbers:
        """The numbers of the keys of which rows wait."""
        return np.unique(np.concatenate([rows.numbers for rows in self.of.values()]))

    def _only(self, numbers: Numbers) -> Waiting:
        made: Waiting = self._like(self.keys.only(numbers))
        table = renumbered(numbers, len(self.keys))
        made.of = {name: rows.renumbered(table) for name, rows in self.of.items()}
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        for name in parts[0].of:
            shifted = [KeptRows(r.numbers + by, r.times_us, r.flags, r.table)
                       for r, by in zip((part.of[name] for part in parts), first, strict=False)]  # fmt: skip
            self.of[name] = KeptRows.together(shifted)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(rows.nbytes for rows in self.of.values())


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def ranges(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """All places from each ``low`` to its ``high``, which is not one of them; and which range each is of."""
    counts = high - low
    of = np.repeat(np.arange(len(low)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)


class ByKeyAndTime:
    """Finds rows by key and time."""

    def __init__(self, numbers: Numbers, times: Numbers) -> None:
        self._times = np.unique(times)
        codes = self._codes(numbers, np.searchsorted(self._times, times))
        self.order = np.argsort(codes, kind="stable")
        self._ordered = codes[self.order]

    def before(self, numbers: Numbers, times: Numbers) -> Numbers:
        """The place, in ``order``, of the first row of the key at or after the time; rows of smaller keys are before it."""
        return np.searchsorted(self._ordered, self._codes(numbers, np.searchsorted(self._times, times)))

    def after(self, numbers: Numbers, times: Numbers) -> Numbers:
        """The place, in ``order``, behind the last row of the key at or before the time."""
        places = np.searchsorted(self._times, times, side="right")
        return np.searchsorted(self._ordered, self._codes(numbers, places))

    def _codes(self, numbers: Numbers, places: Numbers) -> Numbers:
        return numbers * np.int64(len(self._times) + 1) + places
