"""Event time: when a row's event happened, from one of its columns, and how long to wait for stragglers.

The watermark is the newest event time seen before the epoch, less the delay; the engine computes it, so that all shards
of an operator agree. A row before the watermark of its epoch is late: dropped and counted. At the end of the input the
watermark goes to the end of time, so that every window closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from perseid.duration import Duration
from perseid.errors import GraphError, OperatorMistake

if TYPE_CHECKING:
    from perseid.operators.context import Context

END_OF_TIME_MS = 253_402_300_799_999
"""The watermark when the input has ended: the last millisecond of the year 9999."""

_MOST = 2**63 - 1
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event-time column of an operator's inputs, and how late a row may be."""

    column: str
    delay: Duration
    idle_after: Duration | None = None  # an input without rows for so long does not hold the watermark back

    def on_time(self, inputs: Mapping[str, pa.Table], context: Context) -> dict[str, pa.Table]:
        """The inputs without late rows. Counts those in the context and notes the newest event time of each input.

        Inputs without the column pass as they are. A row whose event time is null is never late.
        """
        if not any(self.column in rows.column_names for rows in inputs.values()):
            columns = {name: rows.column_names for name, rows in inputs.items()}
            raise OperatorMistake(
                f"operator '{context.shard.operator}': expected the event-time column '{self.column}', got {columns}"
            )
        return {name: self._on_time(name, rows, context) for name, rows in inputs.items()}

    def _on_time(self, name: str, rows: pa.Table, context: Context) -> pa.Table:
        if not rows.num_rows or self.column not in rows.column_names:
            return rows
        times, per_second = event_times(rows, self.column, context.shard.operator)
        ends = pc.min_max(times)
        newest = ends["max"].as_py()
        if newest is None:
            return rows
        context.max_event_time_ms[name] = newest * 1_000 // per_second
        if context.watermark_ms is None or context.last_epoch:
            return rows  # in the last epoch rows come only from operators above, whose windows close in it, too
        limit = -(-context.watermark_ms * per_second // 1_000)  # rounded up: in whole units, at or after the watermark
        limit = min(limit, _MOST)
        if ends["min"].as_py() >= limit:
            return rows
        kept = rows.filter(pc.fill_null(pc.greater_equal(times, limit), True))
        context.late_rows += rows.num_rows - kept.num_rows
        return kept


def event_times(rows: pa.Table, column: str, operator: str) -> tuple[pa.ChunkedArray, int]:
    """The event times of rows as whole numbers, and how many of their units make a second."""
    times = rows.column(column)
    if pa.types.is_timestamp(times.type):
        return times.cast(pa.int64()), _PER_SECOND[times.type.unit]
    if pa.types.is_int64(times.type):
        return times, 1_000
    raise OperatorMistake(
        f"operator '{operator}': event-time column '{column}' has type {times.type};"
        " expected a timestamp, or a long of milliseconds"
    )


def event_time(column: str, *, delay: Duration, idle_after: Duration | None = None) -> EventTime:
    """Use ``column`` (a timestamp, or a long of milliseconds) as event time and wait ``delay`` for stragglers.

    The watermark of several inputs is the smallest of theirs; before each has had rows there is none. An input without rows for
    ``idle_after`` is left out until it has some again. Without ``idle_after`` a silent input holds the watermark back for good.

        rows.stateful("sessions", Sessions(), key="user", output="…", event_time=event_time("ts", delay=every(seconds=10)))
    """
    if not isinstance(column, str) or not column:
        raise GraphError(f"event_time({column!r}): expected the name of a column")
    if not isinstance(delay, Duration):
        raise GraphError(f"event_time({column!r}, delay={delay!r}): expected a duration such as every(seconds=10)")
    if idle_after is not None and not isinstance(idle_after, Duration):
        raise GraphError(
            f"event_time({column!r}, idle_after={idle_after!r}): expected a duration such as every(seconds=30)"
        )
    return EventTime(column, delay, idle_after)
