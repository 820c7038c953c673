"""Windows of rows that follow each other in less than a gap of event time.

A session has a number of its own. Rows that come between two sessions of a key make one of them: it keeps the smaller number, and what
the other had becomes its. Which session a row belongs to so does not depend on the order in which rows come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perseid.operators.grouping import stable_order
from perseid.ready.batch import Batch
from perseid.ready.columns import Array, Numbers
from perseid.ready.contents import Clock, Found, Label, Plan, Rows, Windows
from perseid.ready.groups import Functions, Groups, recoded, results
from perseid.ready.keys import member, renumbered
from perseid.ready.windows import SessionWindow

_MOST = 2**62


class Sessions(Windows):
    """Sessions as columns: key, first and last time, number; and the groups by the number."""

    def __init__(self, about: tuple[str, ...]) -> None:
        super().__init__(about)
        self.gap_us = 0
        self.table = np.empty((4, 0), np.int64)
        self.groups: Groups | None = None
        self.count = 0  # of numbers given

    @classmethod
    def of(cls, about: tuple[str, ...], window: SessionWindow) -> Sessions:
        made = cls(about)
        made.gap_us = window.gap.ms * 1000
        return made

    def epoch(self, plan: Plan, rows: Rows | None, clock: Clock) -> Iterator[Found]:
        touched = np.empty(0, np.int64)
        if self.groups is None:
            self.groups = Groups(plan.functions)
        if rows is not None:
            touched = self._add(plan.functions, rows)
        due = np.zeros(self.table.shape[1], bool)
        if clock.closed_us is not None:
            due = self.table[2] <= clock.closed_us - self.gap_us
        if clock.early:
            yield from self._results(plan, "early", np.isin(self.table[3], touched) & ~due)
        yield from self._results(plan, "final", due)
        if due.any():
            gone = self.table[3][due]
            self.groups = self.groups.picked(~np.isin(self.groups.codes, gone))
            self.table = self.table[:, ~due]

    def _results(self, plan: Plan, label: Label, which: Array) -> Iterator[Found]:
        if which.any():
            assert self.groups is not None
            some = self.table[:, which]
            some = some[:, np.argsort(some[3])]
            groups = self.groups.picked(np.searchsorted(self.groups.codes, some[3]))
            order = np.lexsort((some[0], some[2]))  # by time, then by key
            values = [column.take(order) for column in results(plan.functions, groups, plan.kinds)]
            key, first, last, _ = some[:, order]
            yield Found(label, key, values, first, last + self.gap_us)

    def _add(self, functions: Functions, rows: Rows) -> Numbers:
        """Rows into sessions; the numbers of those they are in now."""
        by_time = np.argsort(rows.times_us, kind="stable")
        order = by_time[stable_order(rows.codes[by_time], len(rows.numbers))]
        codes, times = rows.codes[order], rows.times_us[order]
        begins = _begins(codes, times, times, self.gap_us)
        starts = np.flatnonzero(begins)
        pieces = np.empty(len(order), np.int64)
        pieces[order] = np.cumsum(begins) - 1
        ends = np.append(starts[1:], len(order)) - 1
        new = Groups.of(functions, Batch(rows.table, pieces, len(starts), rows.times_us), np.arange(len(starts)))
        key, first, last = rows.numbers[codes[starts]], times[starts], times[ends]
        of_touched = member(rows.numbers, len(self.keys))[self.table[0]]
        numbers = self._clusters(functions, new, np.stack([key, first, last, np.full(len(key), _MOST)]), of_touched)
        return numbers

    def _clusters(self, functions: Functions, new: Groups, pieces: Numbers, of_touched: Array) -> Numbers:
        """Sessions that were there and pieces of new rows, as far as they are less than a gap apart, become one session each."""
        assert self.groups is not None
        both = np.concatenate([self.table[:, of_touched], pieces], axis=1)
        order = np.lexsort((both[1], both[0]))
        key, first, last, number = both[:, order]
        begins = _begins(key, first, _latest(key, last), self.gap_us)
        starts = np.flatnonzero(begins)
        found = np.minimum.reduceat(number, starts)
        fresh = found == _MOST
        found[fresh] = self.count + np.arange(int(fresh.sum()))
        self.count += int(fresh.sum())
        now = found[np.cumsum(begins) - 1]  # of each session and piece, its number now
        was_there = number != _MOST
        moved = was_there & (now != number)
        if moved.any():
            self._absorb(functions, number[moved], now[moved])
        of_piece = np.empty(pieces.shape[1], np.int64)
        of_piece[order[~was_there] - int(of_touched.sum())] = now[~was_there]
        self.groups.add(functions, recoded(functions, new, of_piece))
        sessions = np.stack([key[starts], first[starts], np.maximum.reduceat(last, starts), found])
        self.table = np.concatenate([self.table[:, ~of_touched], sessions], axis=1)
        return found[np.logical_or.reduceat(~was_there, starts)]

    def _absorb(self, functions: Functions, numbers: Numbers, into: Numbers) -> None:
        """What sessions had becomes that of others."""
        assert self.groups is not None
        order = np.argsort(numbers)
        numbers, into = numbers[order], into[order]
        gone = np.isin(self.groups.codes, numbers)
        others = self.groups.picked(gone)
        self.groups = self.groups.picked(~gone)
        self.groups.add(functions, recoded(functions, others, into))

    def next_end(self) -> tuple[int, int] | None:
        if not self.table.shape[1]:
            return None
        at = int(self.table[2].argmin())
        return int(self.table[2, at]) + self.gap_us, int(self.table[0, at])

    def used(self) -> Numbers:
        """The numbers of the keys that have a session."""
        return np.unique(self.table[0])

    def _only(self, numbers: Numbers) -> Sessions:
        made: Sessions = self._like(self.keys.only(numbers))
        table = renumbered(numbers, len(self.keys))
        made.gap_us, made.count = self.gap_us, self.count
        key = table[self.table[0]] if self.table.shape[1] else self.table[0]
        made.table = np.concatenate([key[None], self.table[1:]])[:, key >= 0]
        if self.groups is not None:
            made.groups = self.groups.picked(np.isin(self.groups.codes, made.table[3]))
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        self.gap_us = parts[0].gap_us
        tables, groups = [], []
        for part, by in zip(parts, first, strict=False):
            numbers = self.count
            tables.append(part.table + np.array([[by], [0], [0], [numbers]]))
            if part.groups is not None:
                groups.append(part.groups.changed(lambda codes, numbers=numbers: codes + numbers))
            self.count += part.count
        self.table = np.concatenate(tables, axis=1)
        self.groups = Groups.one(groups) if groups else None

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.table.nbytes + (0 if self.groups is None else self.groups.nbytes)


def _begins(key: Numbers, first: Numbers, latest: Numbers, gap_us: int) -> Array:
    """Where another session begins: at another key, or a gap after the latest time before."""
    begins = np.ones(len(key), bool)
    begins[1:] = (key[1:] != key[:-1]) | (first[1:] - latest[:-1] >= gap_us)
    return begins


def _latest(key: Numbers, last: Numbers) -> Numbers:
    """Of each row the latest time of those of its key up to it. Rows of a key are next to each other."""
    rank = np.cumsum(np.append([0], key[1:] != key[:-1]))
    low = int(last.min())
    span = int(last.max()) - low + 1
    lifted: Any = rank.astype(object) if span * (int(rank[-1]) + 1) >= _MOST else rank
    return np.asarray(np.maximum.accumulate(last - low + lifted * span) - lifted * span + low, dtype=np.int64)
