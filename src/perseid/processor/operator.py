"""A `StatefulProcessor` as an operator: Spark's order of calls, in a host, on state that stays in Python.

In every epoch of a shard, as in every micro-batch of a Spark partition: a fresh copy of the processor, ``init``, the rows key
by key, the expired timers, ``close``; then state whose time to live is over goes. Late rows are those at or before the watermark
of the epoch before, as in Spark.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, ClassVar, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from perseid.errors import GraphError, OperatorFailed
from perseid.operators.event_time import event_times
from perseid.operators.grouping import Groups
from perseid.operators.operator import Operator
from perseid.processor.handle import TTL_TIMER, Forms, Handle, Record, TimeMode
from perseid.processor.rows import as_frames, as_rows, frames_to_table, rows_to_table
from perseid.processor.stored import StoredForm
from perseid.processor.variables import without_expired
from perseid.state.fields import state
from perseid.state.timers import Timer, Timers


def spark_processor(
    processor: StatefulProcessor, *, time_mode: TimeMode = "None", pandas: bool = False
) -> SparkProcessor:
    """Run a class written for Spark's ``transformWithState`` as an operator of a Perseid application.

        counts = clicks.stateful("count", perseid.spark_processor(MyProcessor()), key="id", output="id string, n long")

    ``time_mode`` is what you would give to ``transformWithState``: ``"None"``, ``"ProcessingTime"`` or ``"EventTime"``; with
    event time, give ``stateful()`` an ``event_time``. ``pandas=True`` is for classes written for
    ``transformWithStateInPandas``.
    """
    if not isinstance(processor, StatefulProcessor):
        raise GraphError(
            f"spark_processor({processor!r:.80}): expected an object of a subclass of"
            " pyspark.sql.streaming.StatefulProcessor"
        )
    modes = {mode.lower(): mode for mode in get_args(TimeMode)}
    if not isinstance(time_mode, str) or time_mode.lower() not in modes:
        raise GraphError(f"spark_processor(time_mode={time_mode!r}): expected one of {', '.join(get_args(TimeMode))}")
    return SparkProcessor(processor, cast(TimeMode, modes[time_mode.lower()]), pandas)


class SparkProcessor(Operator):
    """Made by `spark_processor`."""

    records: dict[Hashable, Record] = state(default_factory=dict)
    watermark_before_ms: int | None = state(
        default=None,
        split=lambda watermark, part: watermark,
        merge=lambda parts: max((part for part in parts if part is not None), default=None),
    )

    _whole_epoch: ClassVar[bool] = True

    def __init__(self, processor: StatefulProcessor, time_mode: TimeMode, pandas: bool) -> None:
        self._processor: bytes = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
        self._class = type(processor)
        self._mode: TimeMode = time_mode
        self._pandas = pandas
        self._schemas: dict[str, StructType] = {}
        self._time_zone = "UTC"
        self._forms: Forms | None = None

    def prepare(self, spark: SparkSession) -> None:
        """In the driver, before the start: call ``init`` once, as Spark does, and parse the schemas that are text."""
        self._time_zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
        asked = _AskedForms()
        processor: StatefulProcessor = cloudpickle.loads(self._processor)
        processor.init(Handle({}, Timers(), 0, self._mode, asked))
        processor.close()
        self._schemas = {text: cast(StructType, StructType.fromDDL(text)) for text in asked.texts}

    def process(self, rows: pa.Table) -> pa.Table | None:
        """One epoch: init, rows key by key, timers, close."""
        context = self.context
        if self._forms is None:
            self._forms = Forms(self._schemas)
        processor: StatefulProcessor = cloudpickle.loads(self._processor)
        handle = Handle(self.records, context.timers, context.time_ms, self._mode, self._forms)
        processor.init(handle)
        handle.phase = "INITIALIZED"
        rows = self._on_time(rows)
        values = self._timer_values()
        one = len(context.key_columns("rows")) == 1
        results: list[Any] = []
        if rows.num_rows:
            groups = Groups(rows, context.key_columns("rows"), context.shard.operator)
            cut = as_frames(groups.rows, self._time_zone) if self._pandas else as_rows(groups.rows)
            for key, start, count in groups.spans():
                handle.turn_to(key)
                given = (key,) if one else key
                results.extend(processor.handleInputRows(given, cut(start, count), values) or ())
                handle.leave()
        handle.phase = "DATA_PROCESSED"
        due = context.timers.due(context.time_ms, context.watermark_ms)
        expired = [timer for timer in due if timer.name != TTL_TIMER and repr(timer) not in context.skipped]
        handle.expired(expired)
        for timer in expired:
            handle.turn_to(timer.key)
            given = (timer.key,) if one else timer.key
            results.extend(processor.handleExpiredTimer(given, values, ExpiredTimerInfo(timer.at_ms)) or ())
            handle.fired(timer)
            handle.leave()
        handle.phase = "TIMER_PROCESSED"
        processor.close()
        for timer in due:
            if timer.name == TTL_TIMER:
                self._expire(timer.key)
        return self._table(results)

    def _expire(self, key: Hashable) -> None:
        """Remove what of a key has expired, and come again for the rest."""
        context, next_ms = self.context, None
        record = self.records.get(key, {})
        for name, kept in list(record.items()):
            left, expires_ms = without_expired(kept, context.time_ms)
            if left is None:
                del record[name]
            else:
                record[name] = left
            if expires_ms is not None:
                next_ms = expires_ms if next_ms is None else min(next_ms, expires_ms)
        if not record:
            self.records.pop(key, None)
        if next_ms is not None:
            context.timers.at_processing_time(key, next_ms, name=TTL_TIMER)

    def _on_time(self, rows: pa.Table) -> pa.Table:
        """Without the rows at or before the watermark of the epoch before; notes the newest event time."""
        context = self.context
        if context.event_time is None or self._mode != "EventTime":
            return rows
        before, self.watermark_before_ms = self.watermark_before_ms, context.watermark_ms
        if not rows.num_rows:
            return rows
        times, per_second = event_times(rows, context.event_time.column, context.shard.operator)
        newest = pc.max(times).as_py()
        if newest is None:
            return rows
        context.max_event_time_ms["rows"] = newest * 1_000 // per_second
        if before is None:
            return rows
        kept = rows.filter(pc.fill_null(pc.greater(times, before * per_second // 1_000), True))
        context.late_rows += rows.num_rows - kept.num_rows
        return kept

    def _timer_values(self) -> TimerValues:
        context = self.context
        if self._mode == "None":
            return TimerValues(-1, -1)
        watermark = -1 if context.event_time is None else context.watermark_ms or 0
        return TimerValues(context.time_ms, watermark)

    def _table(self, results: Iterable[Any]) -> pa.Table:
        schema = self.context.output
        if schema is None:
            raise OperatorFailed(
                f"operator '{self.context.shard.operator}': {self._class.__name__} runs in an application only"
            )
        if self._pandas:
            return frames_to_table(results, schema, self._time_zone)
        return rows_to_table(results, schema)

    def on_timer(self, timers: Sequence[Timer]) -> None:
        raise AssertionError("process does the timers itself")


class _AskedForms(Forms):
    """For the driver's own ``init``: remembers which schemas were given as text."""

    def __init__(self) -> None:
        super().__init__({})
        self.texts: set[str] = set()

    def __getitem__(self, schema: StructType | str) -> StoredForm:
        if isinstance(schema, str):
            self.texts.add(schema)
            return StoredForm(StructType())
        return super().__getitem__(schema)
