"""How often each key came, in windows of event time, told when a window closes (S7).

A window is over when the watermark has passed its end: all shards see the same watermark, so all tell the same windows in the
same epoch. With ``top`` a shard tells only its most frequent keys. A key is in one shard alone, so the most frequent of
all are among those.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from perseid.duration import Duration, every
from perseid.operators.operator import Operator
from perseid.state.fields import state

OUTPUT = "window timestamp, key string, n long"
_SCHEMA = pa.schema([("window", pa.timestamp("us", "UTC")), ("key", pa.string()), ("n", pa.int64())])


class WindowedCount(Operator):
    """Rows have the columns ``key`` (string) and ``at`` (timestamp)."""

    ordered = False
    counts: dict[str, dict[int, int]] = state(default_factory=dict)  # key → start of window (ms) → rows
    closed_ms: int = state(default=0, split=lambda value, part: value, merge=max)  # windows before it were told

    def __init__(self, window: Duration = every(seconds=30), top: int | None = None) -> None:
        self.window_ms = window.ms
        self.top = top

    def process(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows:
            self._count(rows)
        watermark_ms = self.context.watermark_ms
        if watermark_ms is None or watermark_ms - watermark_ms % self.window_ms <= self.closed_ms:
            return _SCHEMA.empty_table()
        self.closed_ms = watermark_ms - watermark_ms % self.window_ms
        return self._tell(self.closed_ms)

    def _count(self, rows: pa.Table) -> None:
        at_ms = rows["at"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        window = pc.multiply(pc.divide(at_ms, self.window_ms), self.window_ms)
        seen = (
            pa.table({"key": rows["key"], "window": window}).group_by(["key", "window"]).aggregate([([], "count_all")])
        )
        for key, start, n in zip(*(seen[name].to_pylist() for name in ("key", "window", "count_all")), strict=True):
            windows = self.counts.setdefault(key, {})
            windows[start] = windows.get(start, 0) + n

    def _tell(self, before_ms: int) -> pa.Table:
        told: dict[int, list[tuple[int, str]]] = {}
        for key in list(self.counts):
            windows = self.counts[key]
            for start in [start for start in windows if start < before_ms]:
                told.setdefault(start, []).append((-windows.pop(start), key))
            if not windows:
                del self.counts[key]
        lines = [(start, key, -n) for start in sorted(told) for n, key in sorted(told[start])[: self.top]]
        starts, keys, counts = zip(*lines, strict=True) if lines else ((), (), ())
        window = pa.array(starts, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        return pa.Table.from_arrays([window, pa.array(keys, pa.string()), pa.array(counts, pa.int64())], schema=_SCHEMA)
