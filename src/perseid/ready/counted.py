"""Windows of a number of rows of a key.

A key's rows are numbered as they come and cut into panes of as many rows as all windows can be made up of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.ready.batch import Batch
from perseid.ready.columns import Numbers, Segments
from perseid.ready.contents import Clock, Found, Plan, Rows, Windows
from perseid.ready.functions import Fold
from perseid.ready.groups import Groups, Kept, results
from perseid.ready.kept_rows import ranges
from perseid.ready.keys import renumbered
from perseid.ready.windows import CountWindow

_SHIFT = 32
_PANE = (1 << _SHIFT) - 1


class Counted(Windows):
    """Groups by key and pane: a code is the key's number and behind it, in 32 bits, the pane's."""

    def __init__(self, about: tuple[str, ...]) -> None:
        super().__init__(about)
        self.size = self.slide = self.pane = 1
        self.seen = np.empty(0, np.int64)  # rows of each key so far
        self.groups: Groups | None = None

    @classmethod
    def of(cls, about: tuple[str, ...], window: CountWindow) -> Counted:
        made = cls(about)
        made.size, made.slide, made.pane = window.size, window.slide, window.pane
        return made

    def epoch(self, plan: Plan, rows: Rows | None, clock: Clock) -> Iterator[Found]:
        if rows is None:
            return
        if len(self.seen) < len(self.keys):
            self.seen = np.append(self.seen, np.zeros(len(self.keys) - len(self.seen), np.int64))
        before = self.seen[rows.numbers]
        self._add(plan, rows, before)
        after = self.seen[rows.numbers]
        done = after // self.slide - before // self.slide
        if done.any():
            key = np.repeat(rows.numbers, done)
            nth = np.arange(len(key)) - np.repeat(np.cumsum(done) - done, done)
            end = (np.repeat(before // self.slide, done) + 1 + nth) * self.slide
            yield self._windows(plan, key, end)
            self._drop()

    def _add(self, plan: Plan, rows: Rows, before: Numbers) -> None:
        if self.groups is None:
            self.groups = Groups(plan.functions)
        by_key = Segments(rows.codes, len(rows.numbers))
        counts = np.diff(np.append(by_key.starts, len(rows.codes)))
        place = np.repeat(before - by_key.starts, counts) + np.arange(len(rows.codes))
        code = (np.repeat(rows.numbers, counts) << _SHIFT) | (place // self.pane)
        begins = np.append([True], code[1:] != code[:-1])
        places, codes = np.empty_like(place), np.empty_like(place)
        places[by_key.order], codes[by_key.order] = place, np.cumsum(begins) - 1
        batch = Batch(rows.table, codes, int(begins.sum()), places)
        self.groups.add(plan.functions, Groups.of(plan.functions, batch, code[begins]))
        self.seen[rows.numbers] += counts

    def _windows(self, plan: Plan, key: Numbers, end: Numbers) -> Found:
        """The windows of these keys that end with these numbers of rows."""
        assert self.groups is not None
        begin = np.maximum(0, end - self.size)
        low, high = (key << _SHIFT) | (begin // self.pane), (key << _SHIFT) | (end // self.pane)
        window, place = _ranges(self.groups.codes, low, high)
        segments = Segments(window, len(key))
        made = Groups(plan.functions)
        made.codes = np.arange(len(key))
        for at, function in enumerate(plan.functions):
            if isinstance(function, Fold):
                made.columns[at] = function.merged([column[place] for column in self.groups.columns[at]], segments)
            else:
                kind = plan.kinds[at]
                assert kind is not None, "it has a column"
                codes, values = self.groups.kept[at].all(kind)
                order = np.argsort(codes, kind="stable")
                window_of, rows = _ranges(codes[order], low, high)
                made.kept[at] = Kept([window_of], [values.take(pa.array(order[rows]))], len(rows), len(rows))
        return Found("final", key, results(plan.functions, made, plan.kinds))

    def _drop(self) -> None:
        """Panes that are in no window to come."""
        assert self.groups is not None
        first = np.maximum(0, (self.seen // self.slide + 1) * self.slide - self.size) // self.pane
        codes = self.groups.codes
        if ((codes & _PANE) < first[codes >> _SHIFT]).any():
            self.groups = self.groups.changed(lambda c: np.where((c & _PANE) < first[c >> _SHIFT], -1, c))

    def _only(self, numbers: Numbers) -> Counted:
        made: Counted = self._like(self.keys.only(numbers))
        table = renumbered(numbers, len(self.keys))
        made.size, made.slide, made.pane = self.size, self.slide, self.pane
        made.seen = self.seen[numbers]
        if self.groups is not None:
            made.groups = self.groups.changed(
                lambda c: np.where(table[c >> _SHIFT] < 0, -1, _at(table[c >> _SHIFT], c))
            )
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        self.size, self.slide, self.pane = parts[0].size, parts[0].slide, parts[0].pane
        self.seen = np.concatenate([part.seen for part in parts])
        moved = [
            part.groups.changed(lambda codes, by=by: codes + (by << _SHIFT))
            for part, by in zip(parts, first, strict=False)
            if part.groups is not None
        ]
        self.groups = Groups.one(moved) if moved else None

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.seen.nbytes + (0 if self.groups is None else self.groups.nbytes)


def _at(number: Numbers, code: Numbers) -> Numbers:
    return (number << _SHIFT) | (code & _PANE)


def _ranges(codes: Numbers, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """For each range of codes the places in it among ascending ``codes``, and which range each of them is of."""
    return ranges(np.searchsorted(codes, low), np.searchsorted(codes, high))
