"""Operators fed by hand: epochs of generated tables through one shard, with the watermark Spark's side would give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from perseid.operators.context import Context
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.state.operator_state import fresh, run_epoch, state_bytes
from perseid.vocabulary import Epoch


class Fed:
    """One shard of an operator, its results, and the size of its state after every epoch."""

    def __init__(self, operator: Operator, event_time: EventTime | None = None) -> None:
        self.shard: Any = fresh(operator)
        self.event_time = event_time
        self.sizes: list[int] = []
        self.results: list[pa.Table] = []
        self._newest_ms: int | None = None

    def feed(self, rows: pa.Table) -> pa.Table | None:
        delay_ms = self.event_time.delay.ms if self.event_time is not None else 0
        watermark_ms = None if self._newest_ms is None else self._newest_ms - delay_ms
        context = Context(Epoch(len(self.sizes) + 1), time_ms=0, watermark_ms=watermark_ms, event_time=self.event_time)
        result = run_epoch(self.shard, {"rows": rows}, context)
        if context.max_event_time_ms:
            self._newest_ms = max(context.max_event_time_ms.values())
        self.sizes.append(state_bytes(self.shard))
        if result is not None:
            self.results.append(result)
        return result

    def feed_all(self, epochs: Iterable[pa.Table]) -> pa.Table:
        for rows in epochs:
            self.feed(rows)
        return self.all()

    def all(self) -> pa.Table:
        return pa.concat_tables(self.results)
