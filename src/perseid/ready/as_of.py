"""Each row with the newest row of another stream that had happened by then (L3): ``stream.as_of``.

A row waits until the watermark has passed its time, since a row of the other stream that happened before it may still come. So the result
does not depend on which stream is ahead, nor on how rows are divided into epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.duration import Duration
from perseid.errors import GraphError
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.ready.columns import Numbers
from perseid.ready.contents import cut, join
from perseid.ready.kept_rows import ByKeyAndTime, KeptRows, Waiting
from perseid.ready.partners import LEFT, RIGHT, check_event_time, check_suffix, joined_schema, with_partners
from perseid.ready.times import times_us
from perseid.ready.wake import wake_at
from perseid.state.fields import state


class AsOf(Operator):
    """Rows with the newest of another stream at their time. ``Stream.as_of`` makes it."""

    contents: Waiting | None = state(default=None, split=cut, merge=join)

    def __init__(self, *, within: Duration | None = None, suffix: str = "_right") -> None:
        """Raises ``GraphError`` for what cannot work."""
        if within is not None and (not isinstance(within, Duration) or within.ms < 1):
            raise GraphError(f"as_of(within={within!r}): expected a duration such as every(minutes=1), or None")
        check_suffix("as_of", suffix)
        self.within, self.suffix = within, suffix

    def _mistakes(self, event_time: EventTime | None) -> Iterator[str]:
        if event_time is None:
            yield 'it goes by event time: write event_time=perseid.event_time("at", delay=every(seconds=10))'

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        check_event_time(inputs, event_time)
        return joined_schema(inputs, key, self.suffix)

    def process(self, left: pa.Table, right: pa.Table) -> pa.Table | None:
        """Take rows in; those whose time is over come out."""
        if not left.num_columns or not right.num_columns:
            return None
        context = self.context
        if self.contents is None:
            self.contents = Waiting(())
            self.contents.of = {LEFT: KeptRows.none(left.schema), RIGHT: KeptRows.none(right.schema)}
        waiting = self.contents
        assert context.event_time is not None, "see _mistakes"
        for name, rows in ((LEFT, left), (RIGHT, right)):
            rows, times = times_us(rows, context, context.event_time.column)
            waiting.take(name, rows, times, context)
        found = self._due(waiting)
        self.contents = waiting.without_unused(waiting.used)
        wake_at(self.contents, self.contents.of[LEFT], context)
        return found

    def on_timer(self, timers: Any) -> None:
        """Nothing: the timer was there so that an epoch would be run."""

    def _due(self, waiting: Waiting) -> pa.Table | None:
        watermark = self.context.watermark_ms
        if watermark is None:
            return None
        left, right = waiting.of[LEFT], waiting.of[RIGHT]
        due = left.times_us < watermark * 1_000
        if self.context.last_epoch:
            due[:] = True
        rows = left.only(due)
        places = np.full(len(rows), -1, np.int64)
        if len(rows) and len(right):
            index = ByKeyAndTime(right.numbers, right.times_us)
            at = index.after(rows.numbers, rows.times_us) - 1
            newest = index.order[np.maximum(at, 0)]
            fits = (at >= 0) & (right.numbers[newest] == rows.numbers)
            if self.within is not None:
                fits &= rows.times_us - right.times_us[newest] <= self.within.ms * 1_000
            places[fits] = newest[fits]
        key = {name: self.context.key_columns(name) for name in (LEFT, RIGHT)}
        found = with_partners(rows.table, right.table, places, key, self.suffix)
        waiting.of[LEFT] = left.only(~due)
        waiting.of[RIGHT] = right.only(self._stay(right, watermark * 1_000))
        return found

    def _stay(self, right: KeptRows, watermark_us: int) -> Any:
        """Rows that a row to come may need: those after the watermark, and before it the newest of each key."""
        stay = right.times_us >= watermark_us
        before = np.flatnonzero(~stay)
        if self.within is not None:
            before = before[right.times_us[before] >= watermark_us - self.within.ms * 1_000]
        if len(before):
            stay[before[_newest(right.numbers[before], right.times_us[before])]] = True
        return stay


def _newest(numbers: Numbers, times: Numbers) -> Numbers:
    """The place of the newest row of each key; of equal times the one that came last."""
    order = np.lexsort((times, numbers))
    ordered = numbers[order]
    return order[np.flatnonzero(np.append(ordered[1:] != ordered[:-1], [True]))]
