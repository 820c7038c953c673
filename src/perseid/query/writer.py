"""``writeStream`` of a processed stream: where it goes and how it is started, by the methods of Spark's ``DataStreamWriter``.

What the methods were given is kept as it came, so a writer can be started again. Mistakes show in ``start``.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row, SparkSession

from perseid import sinks
from perseid.application import App
from perseid.duration import Duration, every
from perseid.errors import SettingsError
from perseid.processor.operator import HIDDEN
from perseid.query.micro_batches import InitialState, MicroBatches
from perseid.query.query import ProcessorQuery
from perseid.sinks.sink import Sink
from perseid.spark.jobs import task_slots
from perseid.transfer.spark_checkpoint import begin_from_spark
from perseid.vocabulary import SLOTS

if TYPE_CHECKING:
    from perseid.query.processed import ProcessedStream

_CHECKPOINT = "checkpointlocation"
_FROM = "perseid.from"
_DEFAULT_FOLDER = "spark.sql.streaming.checkpointLocation"
_OURS = {"perseid.shards": int, "perseid.hosts": int, "perseid.spares": int, "perseid.keep": int}
_FORMATS = ("parquet", "json", "memory", "console", "noop")
_UNITS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
}


@dataclass(frozen=True, eq=False)
class ProcessedStreamWriter:
    """Made by ``ProcessedStream.writeStream``. Every method gives a writer that knows more."""

    stream: ProcessedStream
    name: str | None = None
    kind: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    function: Callable[[DataFrame, int], None] | None = None
    every: Duration | None = None
    available_now: bool = False

    def outputMode(self, outputMode: str) -> ProcessedStreamWriter:
        """Taken as it comes: what a processor returns is what is written."""
        if not isinstance(outputMode, str) or outputMode.lower() not in ("append", "update", "complete"):
            raise SettingsError(f"writeStream.outputMode({outputMode!r}): expected append, update or complete")
        return self

    def queryName(self, queryName: str) -> ProcessedStreamWriter:
        """The query's name."""
        if not isinstance(queryName, str) or not queryName.strip():
            raise SettingsError(f"writeStream.queryName({queryName!r}): expected a name")
        return replace(self, name=queryName)

    def format(self, source: str) -> ProcessedStreamWriter:
        """parquet, json, memory, console or noop."""
        if source not in _FORMATS:
            raise SettingsError(
                f"writeStream.format({source!r}): Perseid writes {', '.join(_FORMATS)} exactly once;"
                " for anything else use foreachBatch"
            )
        return replace(self, kind=source)

    def option(self, key: str, value: object) -> ProcessedStreamWriter:
        """``checkpointLocation``, ``path``, ``numRows`` of the console, and Perseid's own, such as ``perseid.shards``.

        ``perseid.from`` is the checkpoint of a Spark query: on a new root, this one begins with its state and where it ended.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, settings={**self.settings, key.lower(): text})

    def options(self, **options: object) -> ProcessedStreamWriter:
        """Several options."""
        made = self
        for key, value in options.items():
            made = made.option(key, value)
        return made

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> ProcessedStreamWriter:
        """``processingTime="10 seconds"`` or ``availableNow=True``."""
        given = [name for name, value in (("once", once), ("continuous", continuous), ("realTime", realTime)) if value]
        if given:
            raise SettingsError(f"writeStream.trigger({given[0]}=…): Perseid has processingTime= and availableNow=True")
        if (processingTime is None) == (availableNow is None):
            raise SettingsError("writeStream.trigger: expected either processingTime= or availableNow=True")
        if processingTime is None:
            return replace(self, available_now=bool(availableNow))
        return replace(self, every=_duration(processingTime))

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> ProcessedStreamWriter:
        """Call ``func(batch_df, batch_id)`` in the driver for every epoch; the first has the number 0."""
        if not callable(func):
            raise SettingsError(f"writeStream.foreachBatch({func!r}): expected a function of a DataFrame and a number")
        return replace(self, function=func)

    def foreach(self, f: Callable[[Row], None]) -> ProcessedStreamWriter:
        """Not there: use ``foreachBatch``."""
        raise SettingsError(
            "writeStream.foreach: use foreachBatch(lambda df, id: df.foreach(f)), which runs in the workers as well"
        )

    def partitionBy(self, *cols: str) -> ProcessedStreamWriter:
        """Not there: files are written by epoch."""
        raise SettingsError(
            "writeStream.partitionBy: Perseid's files are by epoch; use foreachBatch and df.write.partitionBy"
        )

    def toTable(self, tableName: str, **given: Any) -> ProcessorQuery:
        """Not there: use ``foreachBatch``."""
        raise SettingsError(f"writeStream.toTable({tableName!r}): use foreachBatch and df.write.saveAsTable")

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> ProcessorQuery:
        """Start it and return at once."""
        made = self.options(**options)
        if format is not None:
            made = made.format(format)
        if outputMode is not None:
            made = made.outputMode(outputMode)
        if queryName is not None:
            made = made.queryName(queryName)
        if path is not None:
            made = made.option("path", path)
        if partitionBy is not None:
            made = made.partitionBy()
        return made._start()

    def _start(self) -> ProcessorQuery:
        stream, spark = self.stream, self.stream.spark
        ours = {name.removeprefix("perseid."): self._number(name) for name in self.settings if name in _OURS}
        unknown = [n for n in self.settings if n.startswith("perseid.") and n not in (*_OURS, _FROM)]
        if unknown:
            raise SettingsError(f"writeStream.option({unknown[0]!r}): Perseid has {', '.join((*_OURS, _FROM))}")
        folder, own = self._folder(spark)
        rows = MicroBatches(stream.rows.df, self.available_now)
        app = App(re.sub(r"[^A-Za-z0-9_-]", "_", self.name or "transform-with-state")[:100])
        out = self._graph(app, rows, ours.get("shards") or _shards(spark))
        for number, (name, step) in enumerate(stream.steps, 1):
            out = out.transform(f"{name}-{number}", step)
        out.sink("out", self._sink(spark))
        try:
            if _FROM in self.settings:
                begin_from_spark(spark, self.settings[_FROM], folder, app.graph)
            running = app.start(
                spark,
                root=folder,
                max_rows_per_epoch=None,
                trigger=self.every,
                available_now=self.available_now,
                hosts=ours.get("hosts"),
                spares=ours.get("spares"),
                keep=ours.get("keep", 3),
            )
        except BaseException:
            if own:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        identity = uuid.uuid5(uuid.NAMESPACE_URL, running.root)
        return ProcessorQuery(running, rows, stream.operator, self.name, identity, folder if own else None)

    def _graph(self, app: App, rows: MicroBatches, shards: int) -> Any:
        stream = self.stream
        output, watermark = stream.output.toDDL(), stream.rows.watermark()
        source = app.source("rows", rows)
        if stream.initial is None:
            return source.stateful(
                "processor", stream.operator, key=stream.rows.key, output=output, shards=shards, event_time=watermark
            )
        initial = app.source("initial", InitialState(stream.initial.df, rows))
        key = stream.initial.key
        if watermark is not None and (time := watermark.column) in stream.initial.df.columns:
            hidden = HIDDEN + time  # only the rows of the stream move the watermark
            initial = initial.transform("initial-columns", lambda df: df.withColumnRenamed(time, hidden))
            key = tuple(hidden if name == time else name for name in key)
        return app.stateful(
            "processor", stream.operator, {"rows": source, "initial": initial},
            key={"rows": stream.rows.key, "initial": key},
            output=output, shards=shards, event_time=watermark,
        )  # fmt: skip

    def _number(self, name: str) -> int:
        try:
            return int(self.settings[name])
        except ValueError:
            raise SettingsError(
                f"writeStream.option({name!r}): expected a number, got {self.settings[name]!r}"
            ) from None

    def _folder(self, spark: SparkSession) -> tuple[str, bool]:
        """The checkpoint root, and whether it goes when the query stops."""
        given = self.settings.get(_CHECKPOINT)
        if given is not None:
            return given, False
        default = spark.conf.get(_DEFAULT_FOLDER, None)
        if default is not None:
            return f"{default.rstrip('/')}/{self.name or uuid.uuid4()}", False
        return tempfile.mkdtemp(prefix="perseid-query-"), True

    def _sink(self, spark: SparkSession) -> Sink:
        if self.function is not None:
            return sinks.foreach(_every_batch(self.function))
        path = self.settings.get("path")
        match self.kind:
            case "parquet" | "json":
                if path is None:
                    raise SettingsError(f"writeStream.format({self.kind!r}): expected a folder: .start('out/')")
                return sinks.parquet(path) if self.kind == "parquet" else sinks.json(path)
            case "memory":
                if self.name is None:
                    raise SettingsError(
                        "writeStream.format('memory'): expected queryName(…), which is the table's name"
                    )
                return sinks.foreach(_table_in_memory(spark, self.name, self.stream))
            case "console":
                return sinks.console(int(self.settings.get("numrows", "20")))
            case "noop":
                return sinks.noop()
            case _:
                raise SettingsError(f"writeStream: expected foreachBatch(…) or format(…), one of {', '.join(_FORMATS)}")


def _shards(spark: SparkSession) -> int:
    """Half of the task slots: the others are for Spark's own work on the rows."""
    return max(1, min(SLOTS, (task_slots(spark) or 2) // 2))


def _every_batch(function: Callable[[DataFrame, int], None]) -> Callable[[int, DataFrame], None]:
    """A function of Spark's as one of Perseid's: it may look at the DataFrame as often as it likes."""

    def call(epoch: int, df: DataFrame) -> None:
        kept = df.persist()
        try:
            function(kept, epoch - 1)
        finally:
            kept.unpersist()

    return call


def _table_in_memory(spark: SparkSession, name: str, stream: ProcessedStream) -> Callable[[int, DataFrame], None]:
    """A temporary view of all rows so far."""
    rows: dict[int, Any] = {}
    spark.createDataFrame([], stream.schema).createOrReplaceTempView(name)

    def call(epoch: int, df: DataFrame) -> None:
        rows[epoch] = df.toArrow()
        all_rows = [row for number in sorted(rows) for row in rows[number].to_pylist()]
        spark.createDataFrame(all_rows, stream.schema).createOrReplaceTempView(name)

    return call


def _duration(text: str) -> Duration:
    """``"10 seconds"`` as a duration."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", str(text), re.IGNORECASE)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise SettingsError(f"writeStream.trigger(processingTime={text!r}): expected a time such as '10 seconds'")
    return every(milliseconds=max(1, int(found[1]) * unit))
