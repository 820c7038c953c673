"""Windows of event time (L3): time is cut into panes, of which all windows are made up, and each pane is worked out once.

A window is out when the watermark passes its end. Its panes stay until the last window with them is out and no row may come for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perseid.ready.batch import Batch
from perseid.ready.columns import Numbers, dense
from perseid.ready.contents import Clock, Found, Label, Plan, Rows, Windows
from perseid.ready.groups import Groups, merged, results
from perseid.ready.keys import renumbered
from perseid.ready.windows import TimeWindow


class Panes(Windows):
    """Groups by pane. A group's code is the key's number."""

    def __init__(self, about: tuple[str, ...]) -> None:
        super().__init__(about)
        self.panes: dict[int, Groups] = {}  # by number: the time of its begin in lengths of a pane
        self.closed_us: int | None = None  # windows that end there or before are out
        self.size_us = self.every_us = self.pane_us = 0

    @classmethod
    def of(cls, about: tuple[str, ...], window: TimeWindow) -> Panes:
        made = cls(about)
        made.size_us, made.every_us = window.size.ms * 1000, window.every.ms * 1000
        made.pane_us = window.pane_ms * 1000
        return made

    def epoch(self, plan: Plan, rows: Rows | None, clock: Clock) -> Iterator[Found]:
        touched = {} if rows is None else self._add(plan, rows)
        was, now = self.closed_us, clock.closed_us
        ends = {end for pane in touched for end in self._ends(pane)}
        if now is not None and (was is None or now > was):
            due = {e for pane in self.panes for e in self._ends(pane) if e <= now and (was is None or e > was)}
            self.closed_us, ends = now, ends | due
        for end in sorted(ends):
            panes = self._panes(end)
            if was is not None and end <= was:
                yield self._result(plan, "corrected", end, panes, touched)
            elif now is not None and end <= now:
                yield self._result(plan, "final", end, panes, None)
            elif clock.early:
                yield self._result(plan, "early", end, panes, touched)
        if clock.late_us is not None:
            for pane in [pane for pane in self.panes if self._ends(pane)[-1] <= clock.late_us]:
                del self.panes[pane]

    def _add(self, plan: Plan, rows: Rows) -> dict[int, Numbers]:
        """Into their panes; the keys by number in each of these."""
        of_row = rows.times_us // self.pane_us
        first = int(of_row.min())
        keys = len(rows.numbers)
        if first == int(of_row.max()):
            panes, codes, groups = np.array([first]), rows.codes, np.arange(keys)
        else:
            panes, of_row = dense(of_row - first, int(of_row.max()) - first + 1)
            panes = panes + first
            groups, codes = dense(of_row * keys + rows.codes, len(panes) * keys)
        batch = Batch(rows.table, codes, len(groups), rows.times_us)
        new = Groups.of(plan.functions, batch, groups)
        touched = {}
        bounds = np.searchsorted(groups, np.arange(len(panes) + 1) * keys).tolist()
        for at, pane in enumerate(panes.tolist()):
            first_code = at * keys
            mine = new if len(panes) == 1 else new.picked(np.arange(bounds[at], bounds[at + 1]))
            mine = mine.changed(lambda codes, first_code=first_code: rows.numbers[codes - first_code])
            touched[pane] = mine.codes
            if pane in self.panes:
                self.panes[pane].add(plan.functions, mine)
            else:
                self.panes[pane] = mine
        return touched

    def _ends(self, pane: int) -> range:
        """The ends of the windows that a pane is in, ascending."""
        start = pane * self.pane_us
        last = start // self.every_us * self.every_us
        count = (self.size_us - self.pane_us - (start - last)) // self.every_us
        return range(last - count * self.every_us + self.size_us, last + self.size_us + 1, self.every_us)

    def _panes(self, end: int) -> list[int]:
        first, last = (end - self.size_us) // self.pane_us, end // self.pane_us
        if last - first > len(self.panes):
            return sorted(pane for pane in self.panes if first <= pane < last)
        return [pane for pane in range(first, last) if pane in self.panes]

    def _result(
        self, plan: Plan, label: Label, end: int, panes: Sequence[int], touched: dict[int, Numbers] | None
    ) -> Found:
        """A window: all of its groups, or those that were touched."""
        groups = [self.panes[pane] for pane in panes]
        if touched is not None:
            codes = np.unique(np.concatenate([touched[pane] for pane in panes if pane in touched]))
            groups = [part.picked(np.isin(part.codes, codes)) for part in groups]
        whole = merged(plan.functions, groups)
        values = results(plan.functions, whole, plan.kinds)
        ends = np.full(len(whole), end, np.int64)
        return Found(label, whole.codes, values, ends - self.size_us, ends)

    def next_end(self) -> tuple[int, int] | None:
        closed = self.closed_us
        found = [(e, pane) for pane in self.panes if (e := self._next(pane, closed)) is not None]
        if not found:
            return None
        end, pane = min(found)
        return end, int(self.panes[pane].codes[0])

    def _next(self, pane: int, closed: int | None) -> int | None:
        return next((end for end in self._ends(pane) if closed is None or end > closed), None)

    def used(self) -> Numbers:
        """The numbers of the keys in any pane."""
        seen = np.zeros(len(self.keys), bool)
        for groups in self.panes.values():
            seen[groups.codes] = True
        return np.flatnonzero(seen)

    def _only(self, numbers: Numbers) -> Panes:
        made: Panes = self._like(self.keys.only(numbers))
        table = renumbered(numbers, len(self.keys))
        changed = {pane: groups.changed(lambda codes: table[codes]) for pane, groups in self.panes.items()}
        made.panes = {pane: groups for pane, groups in changed.items() if len(groups)}
        made._settings(self)
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        self._settings(parts[0])
        self.closed_us = max((part.closed_us for part in parts if part.closed_us is not None), default=None)
        found: dict[int, list[Groups]] = {}
        for part, by in zip(parts, first, strict=False):
            for pane, groups in part.panes.items():
                found.setdefault(pane, []).append(groups.changed(lambda codes, by=by: codes + by))
        self.panes = {pane: Groups.one(some) for pane, some in found.items()}

    def _settings(self, other: Panes) -> None:
        self.size_us, self.every_us, self.pane_us = other.size_us, other.every_us, other.pane_us
        self.closed_us = other.closed_us

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(groups.nbytes for groups in self.panes.values())
