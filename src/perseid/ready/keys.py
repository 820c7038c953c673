"""The keys of a shard and their numbers: whole columns of keys become columns of small integers, on which all else works.

Invariant: a key's number depends on which keys each epoch has, not on the order of its rows; so results come out in the same order when
an epoch is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perseid.errors import OperatorFailed, OperatorMistake
from perseid.operators.grouping import key_array, key_codes, python_keys
from perseid.ready.columns import Numbers

_KEY_BYTES = 100
"""Of one key in memory, beside its columns."""


class Keys:
    """Key ↔ number, from 0."""

    def __init__(self) -> None:
        self.columns: list[pa.Array] = []  # the keys in the order of their numbers, one array for each key column
        self._numbers: dict[Hashable, int] | None = {}  # None: made anew when it is needed

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def nbytes(self) -> int:
        """In memory."""
        return int(sum(column.nbytes for column in self.columns)) + _KEY_BYTES * len(self)

    def number(self, rows: pa.Table, names: Sequence[str], operator: str) -> tuple[Numbers, Numbers]:
        """Number the keys of some rows, new ones, too: the numbers that occur, ascending; and for each row which of them it has."""
        missing = [name for name in names if name not in rows.column_names]
        if missing:
            raise OperatorMistake(
                f"operator '{operator}': key {tuple(names)} is not among the columns {rows.column_names}"
            )
        arrays = [key_array(rows.column(name), name, operator) for name in names]
        codes, distinct = _distinct(arrays)
        keys, index = _hashable(distinct), self._index()
        found = self._found(keys)
        new = np.flatnonzero(found < 0)
        if len(new):
            places = self._add(distinct, new, keys, index)
            found[places] = np.arange(len(index) - len(new), len(index))
        order = np.argsort(found, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return found[order], rank[codes]

    def known(self, rows: pa.Table, names: Sequence[str], operator: str) -> tuple[Numbers, Numbers]:
        """The numbers of the keys of some rows, -1 of those that have none; and for each row which of them it has."""
        arrays = [key_array(rows.column(name), name, operator) for name in names]
        codes, distinct = _distinct(arrays)
        return self._found(_hashable(distinct)), codes

    def _found(self, keys: list[Hashable]) -> Numbers:
        return np.fromiter(map(self._index().get, keys, repeat(-1)), np.int64, len(keys))

    def _add(self, distinct: list[pa.Array], new: Numbers, keys: list[Hashable], index: dict[Hashable, int]) -> Numbers:
        """Give numbers to new keys, in the order of their values; their places among ``keys`` in that order."""
        come = pa.table([array.take(pa.array(new)) for array in distinct], names=[str(n) for n in range(len(distinct))])
        order = pc.sort_indices(come, [(name, "ascending") for name in come.column_names])
        come, new = come.take(order), new[order.to_numpy()]
        count = len(index)
        index.update((keys[place], count + at) for at, place in enumerate(new.tolist()))
        added = [column.combine_chunks() for column in come.columns]
        if self.columns:
            try:
                added = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(self.columns, added, strict=True)]
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                types = [str(column.type) for column in self.columns]
                raise OperatorMistake(f"the key columns were of the types {types} before: {error}") from error
        self.columns = added
        return new

    def keys(self, numbers: Numbers) -> list[Hashable]:
        """The keys of some numbers, as Python values: a scalar, or a tuple with several key columns."""
        return _hashable([column.take(pa.array(numbers)) for column in self.columns])

    def taken(self, numbers: Numbers) -> list[pa.Array]:
        """The key columns of some numbers."""
        return [column.take(pa.array(numbers)) for column in self.columns]

    def of_part(self, holds_many: Callable[[Sequence[Hashable]], Sequence[bool]]) -> Numbers:
        """The numbers of the keys that belong to a part."""
        if not len(self):
            return np.empty(0, np.int64)
        return np.flatnonzero(np.array(holds_many(_hashable(self.columns)), bool)).astype(np.int64)

    def only(self, numbers: Numbers) -> Keys:
        """These keys alone, numbered anew in the same order."""
        made = Keys()
        if len(numbers):
            made.columns, made._numbers = self.taken(numbers), None
        return made

    @classmethod
    def joined(cls, parts: Sequence[Keys]) -> Keys:
        """The keys of several shards, the numbers of each behind those of the one before."""
        some = [part for part in parts if len(part)]
        made = cls()
        if some:
            made.columns = [
                pa.concat_arrays([column.cast(some[0].columns[at].type) for column in columns])
                for at, columns in enumerate(zip(*(part.columns for part in some), strict=True))
            ]
            made._numbers = None
            if len(made._index()) != len(made):
                raise OperatorFailed("a key is in two of the shards that are merged")
        return made

    def _index(self) -> dict[Hashable, int]:
        if self._numbers is None:
            self._numbers = {key: number for number, key in enumerate(_hashable(self.columns))}
        return self._numbers

    def __getstate__(self) -> Any:
        return self.columns

    def __setstate__(self, columns: Any) -> None:
        self.columns, self._numbers = columns, None if columns else {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and _hashable(self.columns) == _hashable(other.columns)

    __hash__ = None  # type: ignore[assignment]


def renumbered(numbers: Numbers, count: int) -> Numbers:
    """Old number → new number where only ``numbers`` of ``count`` stay; -1 for the others."""
    table = np.full(count, -1, np.int64)
    table[numbers] = np.arange(len(numbers))
    return table


def member(numbers: Numbers, count: int) -> NDArray[np.bool_]:
    """Which of ``count`` numbers are among these."""
    found = np.zeros(count, bool)
    found[numbers] = True
    return found


def _distinct(arrays: list[Any]) -> tuple[Numbers, list[Any]]:
    """For each row which key it has, and the key columns of the keys."""
    codes, values = key_codes(arrays)
    if len(arrays) == 1:
        return codes, [values]
    firsts = np.empty(len(values), np.int64)
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, [array.take(pa.array(firsts)) for array in arrays]


def _hashable(columns: Sequence[pa.Array]) -> list[Hashable]:
    if len(columns) == 1:
        return python_keys(columns[0])
    return list(zip(*(python_keys(column) for column in columns), strict=True))
