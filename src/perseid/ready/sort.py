"""Rows in the order of their event time (L3): ``stream.sort``.

A row waits until the watermark has passed its time, so that none that happened before it can come any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.ready.contents import cut, join
from perseid.ready.kept_rows import KeptRows, Waiting
from perseid.ready.partners import check_event_time
from perseid.ready.times import times_us
from perseid.ready.wake import wake_at
from perseid.state.fields import state

ROWS = "rows"


class Sort(Operator):
    """Rows by event time. ``Stream.sort`` makes it."""

    contents: Waiting | None = state(default=None, split=cut, merge=join)

    def _mistakes(self, event_time: EventTime | None) -> Iterator[str]:
        if event_time is None:
            yield 'it sorts by event time: write event_time=perseid.event_time("at", delay=every(seconds=10))'

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        check_event_time(inputs, event_time)
        (schema,) = inputs.values()
        return schema

    def process(self, rows: pa.Table) -> pa.Table | None:
        """Take rows in; those whose time is over come out, in order."""
        context = self.context
        if not rows.num_columns:
            return None
        if self.contents is None:
            self.contents = Waiting(())
            self.contents.of = {ROWS: KeptRows.none(rows.schema)}
        assert context.event_time is not None, "see _mistakes"
        waiting = self.contents
        rows, times = times_us(rows, context, context.event_time.column)
        waiting.take(ROWS, rows, times, context)
        if context.watermark_ms is None:
            wake_at(waiting, waiting.of[ROWS], context)
            return None
        kept = waiting.of[ROWS]
        due = kept.times_us < context.watermark_ms * 1_000
        if context.last_epoch:
            due[:] = True
        found = kept.only(due)
        waiting.of[ROWS] = kept.only(~due)
        self.contents = waiting.without_unused(waiting.used)
        wake_at(self.contents, self.contents.of[ROWS], context)
        return found.table.take(pa.array(np.argsort(found.times_us, kind="stable")))

    def on_timer(self, timers: Any) -> None:
        """Nothing: the timer was there so that an epoch would be run."""
