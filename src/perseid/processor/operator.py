"""A `StatefulProcessor` as an operator: Spark's order of calls, in a host, on state that stays in Python.

In every epoch of a shard, as in every micro-batch of a Spark partition: a fresh copy of the processor, ``init``, the initial state and
the rows key by key in the order of the keys, the expired timers, ``close``; then state whose time to live is over goes. Late rows are
those at or before the watermark of the epoch before, as in Spark. An initial state is a second input, ``initial``, whose rows are in one
epoch only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from perseid.errors import GraphChanged, GraphError, OperatorFailed
from perseid.operators.event_time import EventTime, event_times
from perseid.operators.grouping import Groups
from perseid.operators.operator import Operator
from perseid.processor.evolution import Declared, adapt
from perseid.processor.frames import Frames, as_frames, frames_to_table
from perseid.processor.handle import TTL_TIMER, Forms, Handle, Record, TimeMode
from perseid.processor.rows import Cut, as_rows, rows_to_table
from perseid.processor.stored import StoredForm
from perseid.processor.variables import Variable, without_expired
from perseid.state.fields import state
from perseid.state.timers import Timer, Timers

HIDDEN = "initial state: "
"""Before the name of the event-time column in an initial state, whose times are not those of the stream."""


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
    variables: dict[str, Declared] = state(
        default_factory=dict,
        split=lambda variables, part: variables,
        merge=lambda parts: next((variables for variables in parts if variables), {}),
    )
    watermark_before_ms: int | None = state(
        default=None,
        split=lambda watermark, part: watermark,
        merge=lambda parts: max((part for part in parts if part is not None), default=None),
    )

    _whole_epoch: ClassVar[bool] = True

    def __init__(self, processor: StatefulProcessor, time_mode: TimeMode, pandas: bool) -> None:
        self._processor: bytes = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
        self._class = type(processor)
        self.mode: TimeMode = time_mode
        self.declared: dict[
            str, int
        ] = {}  # how many variables ``init`` makes and deletes, by Spark's names for these numbers
        self._pandas = pandas
        self._schemas: dict[str, StructType] = {}
        self._frames = Frames()
        self._wakes = True
        self._forms: Forms | None = None

    def _mistakes(self, event_time: EventTime | None) -> Iterable[str]:
        if self.mode == "EventTime" and event_time is None:
            yield (
                f"{self._class.__name__} has time_mode='EventTime' and would never see a watermark:"
                " give stateful() event_time=perseid.event_time(column, delay=…)"
            )

    def prepare(self, spark: SparkSession) -> None:
        """In the driver, before the start: call ``init`` once, as Spark does, and parse the schemas that are text."""
        self._frames = Frames.of(spark)
        self._wakes = spark.conf.get("spark.sql.streaming.noDataMicroBatches.enabled") != "false"
        asked = _AskedForms()
        self.declared = self._initialised(asked, {}).declared()
        self._schemas = {text: cast(StructType, StructType.fromDDL(text)) for text in asked.texts}

    def _variables(self) -> dict[str, str]:
        handle = self._initialised(_AskedForms(), {})
        return {name: _as_declared(variable) for name, variable in handle.variables.items()}

    def _check_state(self) -> None:
        try:
            self._adapt(self._initialised(Forms(self._schemas), self.records))
        except PySparkRuntimeError as error:
            raise GraphChanged(str(error)) from error

    def _initialised(self, forms: Forms, records: dict[Hashable, Record]) -> Handle:
        """A handle with the variables that ``init`` declares."""
        processor: StatefulProcessor = cloudpickle.loads(self._processor)
        handle = Handle(records, Timers(), 0, self.mode, forms)
        processor.init(handle)
        processor.close()
        return handle

    def process(self, rows: pa.Table, initial: pa.Table | None = None) -> pa.Table | None:
        """One epoch: init, initial state and rows key by key, timers, close."""
        context = self.context
        context.timers.silent = not self._wakes
        if self._forms is None:
            self._forms = Forms(self._schemas)
        processor: StatefulProcessor = cloudpickle.loads(self._processor)
        handle = Handle(self.records, context.timers, context.time_ms, self.mode, self._forms)
        processor.init(handle)
        handle.phase = "INITIALIZED"
        self._adapt(handle)
        return self._table(self._results(processor, handle, self._on_time(rows), initial))

    def _results(
        self, processor: StatefulProcessor, handle: Handle, rows: pa.Table, initial: pa.Table | None
    ) -> Iterator[Any]:
        """What the processor returns, as it returns it: nothing of it is kept longer than it takes to convert it."""
        context, values = self.context, self._timer_values()
        yield from self._handled_rows(processor, handle, values, rows, initial)
        handle.phase = "DATA_PROCESSED"
        due = context.timers.due(context.time_ms, _from_zero(context.watermark_ms))
        expired = [timer for timer in due if timer.name != TTL_TIMER]
        if context.skipped:
            expired = [timer for timer in expired if repr(timer) not in context.skipped]
        handle.expired(expired)
        for timer in expired:
            handle.turn_to(timer.key)
            given = timer.key if isinstance(timer.key, tuple) else (timer.key,)
            yield from processor.handleExpiredTimer(given, values, ExpiredTimerInfo(timer.at_ms)) or ()
            handle.fired(timer)
            handle.leave()
        handle.phase = "TIMER_PROCESSED"
        processor.close()
        for timer in due:
            if timer.name == TTL_TIMER:
                self._expire(timer.key)

    def _adapt(self, handle: Handle) -> None:
        """What is in the state as the processor declares it, which may be another version of the one that stored it."""
        now = {name: Declared.of(variable) for name, variable in handle.variables.items()}
        if now != self.variables:
            kept = {name: then for name, then in self.variables.items() if name not in handle.deleted}
            self.variables = adapt(self.records, kept, now)

    def _handled_rows(
        self,
        processor: StatefulProcessor,
        handle: Handle,
        values: TimerValues,
        rows: pa.Table,
        initial: pa.Table | None,
    ) -> Iterator[Any]:
        """Key by key, in the order of the keys: what the key has in the initial state, then its rows."""
        cut, spans = self._by_key_of(rows, "rows")
        if initial is not None and initial.num_rows:
            cut_initial, initial_spans = self._by_key_of(initial, "initial")
        else:
            cut_initial, initial_spans = cut, {}
        for key in _in_order(dict.fromkeys([*initial_spans, *spans])):
            handle.turn_to(key)
            given = key if isinstance(key, tuple) else (key,)
            if key in initial_spans:
                for state_rows in cut_initial(*initial_spans[key]):
                    processor.handleInitialState(given, state_rows, values)
            if key in spans:
                yield from processor.handleInputRows(given, cut(*spans[key]), values) or ()
            handle.leave()

    def _by_key_of(self, table: pa.Table, name: str) -> tuple[Cut, dict[Hashable, tuple[int, int]]]:
        """What cuts the rows of a key out of an input, and where each key's are."""
        if not table.num_rows:
            return _nothing, {}
        context = self.context
        groups = Groups(table, context.key_columns(name), context.shard.operator)
        groups.rows = groups.rows.rename_columns([name.removeprefix(HIDDEN) for name in groups.rows.column_names])
        cut = as_frames(groups.rows, self._frames) if self._pandas else as_rows(groups.rows)
        return cut, {key: (start, count) for key, start, count in groups.spans()}

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
        if context.event_time is None:
            return rows
        before, self.watermark_before_ms = _from_zero(self.watermark_before_ms), context.watermark_ms
        if not rows.num_rows:
            return rows
        times, per_second = event_times(rows, context.event_time.column, context.shard.operator)
        newest = pc.max(times).as_py()
        if newest is None:
            return rows
        context.max_event_time_ms["rows"] = newest * 1_000 // per_second
        if self.mode != "EventTime":
            return rows
        kept = rows.filter(pc.fill_null(pc.greater(times, before * per_second // 1_000), True))
        context.late_rows += rows.num_rows - kept.num_rows
        return kept

    def _timer_values(self) -> TimerValues:
        context = self.context
        if self.mode == "None":
            return TimerValues(-1, -1)
        watermark = -1 if context.event_time is None else _from_zero(context.watermark_ms)
        return TimerValues(context.time_ms, watermark)

    def _table(self, results: Iterable[Any]) -> pa.Table:
        schema = self.context.output
        if schema is None:
            raise OperatorFailed(
                f"operator '{self.context.shard.operator}': {self._class.__name__} runs in an application only"
            )
        if self._pandas:
            return frames_to_table(results, schema, self._frames)
        return rows_to_table(results, schema)

    def on_timer(self, timers: Sequence[Timer]) -> None:
        raise AssertionError("process does the timers itself")


def _as_declared(variable: Variable) -> str:
    columns = f"{variable.key_columns} → {variable.form.json}" if variable.key_columns else variable.form.json
    return f"{variable.kind}State({columns})" + (" with a time to live" if variable.expires else "")


def _from_zero(watermark_ms: int | None) -> int:
    """Spark's watermark begins with 1970 and never goes below."""
    return max(0, watermark_ms or 0)


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """Ascending, null first, as Spark sorts the rows of a partition."""
    try:
        return sorted(keys)
    except TypeError:  # nulls among them
        return sorted(keys, key=_nulls_first)


def _nulls_first(key: Any) -> Any:
    return tuple([(part is not None, part) for part in (key if isinstance(key, tuple) else (key,))])


def _nothing(start: int, count: int) -> Iterator[Any]:
    return iter(())


class _AskedForms(Forms):
    """For the driver's own ``init``, which stores nothing: schemas as text, and which of them were given so."""

    def __init__(self) -> None:
        super().__init__({})
        self.texts: set[str] = set()

    def __getitem__(self, schema: StructType | str) -> StoredForm:
        form = StoredForm(StructType())
        form.json = schema if isinstance(schema, str) else schema.simpleString()
        if isinstance(schema, str):
            self.texts.add(schema)
        return form
