"""Rows whose key was not there before, or not for some time (L3): ``stream.deduplicate``.

A row is a repeat if it lies less than ``within`` behind the last row of its key that was let through, or before it. That does not depend on
how rows are divided into epochs, since a key is forgotten only when no row that is in time can be a repeat of it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.duration import Duration
from perseid.errors import GraphError
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.ready.columns import Numbers, Segments
from perseid.ready.contents import Contents, cut, join
from perseid.ready.times import times_us
from perseid.state.fields import state

_FOR_GOOD = np.iinfo(np.int64).max
_ROUNDS = 16
"""Rows of one key that are let through in one epoch, found for all keys at once; the rest is found row by row."""


class Seen(Contents):
    """By key: until when a row is a repeat."""

    def __init__(self, about: tuple[str, ...]) -> None:
        super().__init__(about)
        self.until_us: Numbers = np.empty(0, np.int64)

    def _only(self, numbers: Numbers) -> Seen:
        made: Seen = self._like(self.keys.only(numbers))
        made.until_us = self.until_us[numbers]
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        self.until_us = np.concatenate([part.until_us for part in parts])

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.until_us.nbytes


class Deduplicate(Operator):
    """The first row of each key, and the first after ``within``. ``Stream.deduplicate`` makes it."""

    contents: Seen | None = state(default=None, split=cut, merge=join)

    def __init__(self, within: Duration | None = None) -> None:
        """Raises ``GraphError`` for what cannot work."""
        if within is not None and (not isinstance(within, Duration) or within.ms < 1):
            raise GraphError(
                f"deduplicate(within={within!r}): expected a duration such as every(hours=1), or None to remember keys for good"
            )
        self.within = within

    def _mistakes(self, event_time: EventTime | None) -> Iterator[str]:
        if event_time is not None and self.within is None:
            yield "event_time= has no use without within=: keys are remembered for good"

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        (schema,) = inputs.values()
        return schema

    def process(self, rows: pa.Table) -> pa.Table | None:
        """Let through what is no repeat."""
        context = self.context
        if self.contents is None:
            self.contents = Seen(())
        seen, event_time = self.contents, context.event_time
        rows, times = times_us(rows, context, event_time.column if event_time is not None else None)
        passed = self._passed(seen, rows, times) if rows.num_rows else None
        now_ms = context.time_ms if event_time is None else context.watermark_ms
        if now_ms is not None:
            self.contents = seen.without_unused(lambda: np.flatnonzero(seen.until_us > now_ms * 1_000))
        return passed

    def _passed(self, seen: Seen, rows: pa.Table, times: Numbers) -> pa.Table:
        context = self.context
        numbers, codes = seen.keys.number(rows, context.key_columns("rows"), context.shard.operator)
        new = len(seen.keys) - len(seen.until_us)
        seen.until_us = np.append(seen.until_us, np.full(new, np.iinfo(np.int64).min))
        until = seen.until_us[numbers]
        passed, left = [], np.flatnonzero(times >= until[codes])
        for _ in range(_ROUNDS):
            firsts = left[Segments(codes[left]).firsts()] if len(left) else left
            passed.append(firsts)
            until[codes[firsts]] = self._until(times[firsts])
            left = left[times[left] >= until[codes[left]]]  # what is before the first is before its end, too
            if not len(left):
                break
        for row in left.tolist():
            if times[row] >= until[codes[row]]:
                passed.append(np.array([row]))
                until[codes[row]] = self._until(times[row : row + 1])[0]
        seen.until_us[numbers] = until
        return rows.take(pa.array(np.sort(np.concatenate(passed))))

    def _until(self, times: Numbers) -> Numbers:
        return np.full(len(times), _FOR_GOOD) if self.within is None else times + self.within.ms * 1_000
