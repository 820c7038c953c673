"""What aggregate functions keep of many groups: codes in ascending order, and columns beside them.

A code says which group it is: the number of a key, of a session, or of a key and a pane. Functions that need the values of a whole window
have those beside it, as pairs of code and value, in the order they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.ready.batch import Batch
from perseid.ready.columns import Array, Numbers, Segments, places_of
from perseid.ready.functions import Fold, Function, Keep

Functions = Sequence[Function]
_OBJECT_BYTES = 64


@dataclass(eq=False)
class Kept:
    """Values with the codes of their groups, in pieces that are put together now and then."""

    codes: list[Numbers] = field(default_factory=list)
    values: list[pa.Array] = field(default_factory=list)
    rows: int = 0
    whole: int = 0  # how many there were when they were put together last

    def add(self, codes: Numbers, values: pa.Array, function: Keep) -> None:
        if len(codes):
            self.codes.append(codes)
            self.values.append(values)
            self.rows += len(codes)
            if len(self.codes) > 1 and self.rows > 2 * self.whole + 1024:
                self._put(*function.fewer(*self.all(values.type)))

    def all(self, kind: pa.DataType) -> tuple[Numbers, pa.Array]:
        """All of them, in the order they came."""
        if not self.codes:
            return np.empty(0, np.int64), pa.array([], kind)
        if len(self.codes) > 1:
            self._put(np.concatenate(self.codes), pa.concat_arrays(self.values))
        return self.codes[0], self.values[0]

    def _put(self, codes: Numbers, values: pa.Array) -> None:
        self.codes, self.values, self.rows, self.whole = [codes], [values], len(codes), len(codes)

    def changed(self, codes_now: Any) -> Kept:
        """With other codes: ``codes_now`` is a function of codes; those below 0 go."""
        made = Kept()
        for codes, values in zip(self.codes, self.values, strict=True):
            now = codes_now(codes)
            stay = now >= 0
            if not stay.all():
                now, values = now[stay], values.filter(pa.array(stay))
            if len(now):
                made.codes.append(now)
                made.values.append(values)
                made.rows += len(now)
        return made


class Groups:
    """Groups by ascending code."""

    def __init__(self, functions: Functions) -> None:
        self.codes: Numbers = np.empty(0, np.int64)
        self.columns: list[list[Array]] = [[] for _ in functions]  # of folds; typed by the first rows
        self.kept: list[Kept] = [Kept() for _ in functions]  # of the others

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """In memory, about."""
        size = self.codes.nbytes
        for column in (c for columns in self.columns for c in columns):
            size += column.nbytes + (_OBJECT_BYTES * len(column) if column.dtype.hasobject else 0)
        kept = sum(c.nbytes + v.nbytes for k in self.kept for c, v in zip(k.codes, k.values, strict=True))
        return int(size + kept)

    @classmethod
    def of(cls, functions: Functions, batch: Batch, codes: Numbers) -> Groups:
        """What the functions keep of the rows of an epoch, whose groups have these codes, ascending."""
        made = cls(functions)
        made.codes = codes
        for at, function in enumerate(functions):
            if isinstance(function, Fold):
                made.columns[at] = function.initial(batch)
            elif isinstance(function, Keep):
                groups, values = function.values(batch)
                made.kept[at].add(codes[groups], values, function)
        return made

    def add(self, functions: Functions, new: Groups) -> None:
        """Join other groups to these: those of the same code become one, of which these came before."""
        places = np.searchsorted(self.codes, new.codes)
        known = np.zeros(len(new.codes), bool)
        inside = places < len(self.codes)
        known[inside] = self.codes[places[inside]] == new.codes[inside]
        if not known.all():
            self._insert(places, ~known, new)
            places = np.searchsorted(self.codes, new.codes)
        if known.any():
            for at, function in enumerate(functions):
                if isinstance(function, Fold):
                    mine, its = [c[places[known]] for c in self.columns[at]], [c[known] for c in new.columns[at]]
                    for column, joined in zip(self.columns[at], function.joined(mine, its), strict=True):
                        column[places[known]] = joined
        for at, function in enumerate(functions):
            if isinstance(function, Keep):
                for codes, values in zip(new.kept[at].codes, new.kept[at].values, strict=True):
                    self.kept[at].add(codes, values, function)

    def _insert(self, places: Numbers, come: Any, new: Groups) -> None:
        if not len(self.codes):
            self.codes, self.columns = new.codes.copy(), [[c.copy() for c in columns] for columns in new.columns]
            return
        at = places[come]
        self.codes = np.insert(self.codes, at, new.codes[come])
        self.columns = [
            [np.insert(mine, at, its[come]) for mine, its in zip(columns, others, strict=True)]
            for columns, others in zip(self.columns, new.columns, strict=True)
        ]

    def picked(self, which: Array) -> Groups:
        """Some of the groups, by place or mask; with the values kept of them."""
        made = object.__new__(Groups)
        made.codes = self.codes[which]
        made.columns = [[column[which] for column in columns] for columns in self.columns]
        made.kept = [k.changed(lambda codes: np.where(places_of(codes, made.codes) < 0, -1, codes)) for k in self.kept]
        return made

    def changed(self, codes_now: Any) -> Groups:
        """With other codes, whose order is the same: ``codes_now`` is a function of codes; those below 0 go."""
        now = codes_now(self.codes)
        stay = now >= 0
        made = object.__new__(Groups)
        made.codes = now[stay]
        made.columns = [[column[stay] for column in columns] for columns in self.columns]
        made.kept = [kept.changed(codes_now) for kept in self.kept]
        return made

    @classmethod
    def one(cls, parts: Sequence[Groups]) -> Groups:
        """Groups of different codes together."""
        made = object.__new__(Groups)
        codes = np.concatenate([part.codes for part in parts])
        order = np.argsort(codes, kind="stable")
        made.codes = codes[order]
        some = [part for part in parts if len(part)] or parts[:1]
        made.columns = [
            [np.concatenate(columns)[order] for columns in zip(*of_function, strict=True)]
            for of_function in zip(*(part.columns for part in some), strict=True)
        ]
        made.kept = [_together(kept) for kept in zip(*(part.kept for part in parts), strict=True)]
        return made


def merged(functions: Functions, parts: Sequence[Groups]) -> Groups:
    """Groups of several panes, in the order of time: those of the same code become one."""
    if len(parts) == 1:
        return parts[0]
    joined = object.__new__(Groups)
    joined.codes = np.concatenate([part.codes for part in parts])
    some = [part for part in parts if len(part)] or parts[:1]
    joined.columns = [
        [np.concatenate(columns) for columns in zip(*of_function, strict=True)]
        for of_function in zip(*(part.columns for part in some), strict=True)
    ]
    joined.kept = [_together(kept) for kept in zip(*(part.kept for part in parts), strict=True)]
    return _by_code(functions, joined)


def recoded(functions: Functions, groups: Groups, codes: Numbers) -> Groups:
    """Groups with other codes, one for each; those of the same code become one."""
    other = object.__new__(Groups)
    other.codes, other.columns = codes, groups.columns
    other.kept = [kept.changed(lambda old: codes[places_of(old, groups.codes)]) for kept in groups.kept]
    return _by_code(functions, other)


def _by_code(functions: Functions, groups: Groups) -> Groups:
    segments = Segments(groups.codes)
    made = object.__new__(Groups)
    made.codes, made.kept = segments.codes, groups.kept
    made.columns = [
        function.merged(columns, segments) if isinstance(function, Fold) and len(segments.codes) else columns
        for function, columns in zip(functions, groups.columns, strict=True)
    ]
    return made


def _together(kept: Sequence[Kept]) -> Kept:
    return Kept([c for k in kept for c in k.codes], [v for k in kept for v in k.values], sum(k.rows for k in kept))


def results(functions: Functions, groups: Groups, kinds: Sequence[pa.DataType | None]) -> list[pa.Array]:
    """The values of the functions, one column each, a row for each group."""
    found = []
    for at, (function, kind) in enumerate(zip(functions, kinds, strict=True)):
        if isinstance(function, Fold):
            found.append(function.result(groups.columns[at], kind))
        elif isinstance(function, Keep):
            assert kind is not None, "it has a column"
            codes, values = groups.kept[at].all(kind)
            places = places_of(codes, groups.codes)
            mine = places >= 0
            if not mine.all():
                places, values = places[mine], values.filter(pa.array(mine))
            found.append(function.results(places, values, len(groups)))
    return found
