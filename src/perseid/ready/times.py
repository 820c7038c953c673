"""When each row happened, in microseconds: by its event time, or else by the time of its epoch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from perseid.operators.context import Context
from perseid.operators.event_time import event_times
from perseid.ready.columns import Numbers

_PER_UNIT = {1: 1_000_000, 1_000: 1_000, 1_000_000: 1}


def times_us(rows: pa.Table, context: Context, column: str | None) -> tuple[pa.Table, Numbers]:
    """The rows that have a time, and their times. Rows without an event time go, and are counted with late rows."""
    if column is None or not rows.num_rows:
        return rows, np.full(rows.num_rows, context.time_ms * 1_000)
    times, per_second = event_times(rows, column, context.shard.operator)
    if times.null_count:
        rows = rows.filter(times.is_valid())
        context.late_rows += len(times) - rows.num_rows
        times = times.drop_null()
    found: Numbers = times.to_numpy()
    return rows, found // 1_000 if per_second == 1_000_000_000 else found * _PER_UNIT[per_second]


def to_event_time(times: Numbers, kind: pa.DataType) -> pa.Array:
    """Microseconds as the type of an event-time column: a timestamp, or a long of milliseconds."""
    if pa.types.is_timestamp(kind):
        return pa.array(times, pa.timestamp("us", kind.tz)).cast(kind, safe=False)
    return pa.array(times // 1_000)
