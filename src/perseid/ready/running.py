"""Values that run on: of all rows of a key since the start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perseid.ready.batch import Batch
from perseid.ready.columns import Numbers
from perseid.ready.contents import Clock, Found, Plan, Rows, Windows
from perseid.ready.groups import Groups, results
from perseid.ready.keys import renumbered


class Running(Windows):
    """One group for each key. Its code is the key's number."""

    def __init__(self, about: tuple[str, ...]) -> None:
        super().__init__(about)
        self.groups: Groups | None = None
        self.rows = 0  # that have come, which puts them in an order

    def epoch(self, plan: Plan, rows: Rows | None, clock: Clock) -> Iterator[Found]:
        if rows is None:
            return
        place = np.arange(self.rows, self.rows + rows.table.num_rows)
        self.rows += rows.table.num_rows
        if self.groups is None:
            self.groups = Groups(plan.functions)
        batch = Batch(rows.table, rows.codes, len(rows.numbers), place)
        self.groups.add(plan.functions, Groups.of(plan.functions, batch, rows.numbers))
        now = self.groups.picked(np.searchsorted(self.groups.codes, rows.numbers))
        yield Found("final", rows.numbers, results(plan.functions, now, plan.kinds))

    def _only(self, numbers: Numbers) -> Running:
        made: Running = self._like(self.keys.only(numbers))
        table = renumbered(numbers, len(self.keys))
        made.rows = self.rows
        made.groups = None if self.groups is None else self.groups.changed(lambda codes: table[codes])
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        self.rows = max(part.rows for part in parts)
        shifted = [_shifted(part.groups, by) for part, by in zip(parts, first, strict=False) if part.groups is not None]
        self.groups = Groups.one(shifted) if shifted else None

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self.groups is None else self.groups.nbytes)


def _shifted(groups: Groups, by: int) -> Groups:
    return groups.changed(lambda codes: codes + by)
