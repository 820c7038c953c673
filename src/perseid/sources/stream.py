"""Any streaming DataFrame as a source: Kafka, sockets, rate, Python data sources, whatever ``spark.readStream`` reads.

A Structured Streaming query of its own stores every micro-batch by value under the root, then logs it (M1). Spark
promises to run a batch that was not acknowledged again under the same number, and a batch that is stored already is
not stored twice, so every row Spark's source gives is taken exactly once.

    <folder>/checkpoint/        Spark's own offsets and commits
    <folder>/batches/<id>/      the rows of a batch; a folder that is there is there once, and whole if ``_stored`` is in it
    <folder>/log/               which batches there are, with their files and rows: offset n is the n-th that has rows
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from dataclasses import dataclass, field

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from perseid.errors import ApplicationFailed, SettingsError
from perseid.sinks.part_files import write_parts
from perseid.sources.ordered_scan import FileSlice, ordered_scan, unordered_scan
from perseid.sources.record_log import Record, RecordLog
from perseid.sources.stored_files import stored_files
from perseid.storage.store import Store
from perseid.vocabulary import Offset

_STORED = "_stored"  # arrives last


def stream(df: DataFrame, *, available_now: bool = False, ahead: int = 100) -> StreamSource:
    """A source of all rows of a streaming DataFrame.

    ``df`` may be anything that a query can write in append mode without a watermark of its own. ``available_now``
    takes what is there at the start and is finished then. At most ``ahead`` batches wait to be processed; Spark's
    source waits meanwhile. How many rows one batch has is set where the stream is read (``maxOffsetsPerTrigger``,
    ``maxFilesPerTrigger``, …): an epoch takes whole batches.

    >>> ticks = stream(spark.readStream.format("rate").option("rowsPerSecond", 100).load())
    """
    if not isinstance(df, DataFrame):
        raise SettingsError(f"sources.stream: expected a streaming DataFrame, got {type(df).__name__}")
    if not df.isStreaming:
        raise SettingsError(
            "sources.stream: expected a streaming DataFrame (spark.readStream…), got a batch one; "
            "use perseid.sources.table"
        )
    if ahead < 1:
        raise SettingsError(f"sources.stream: expected at least 1 batch ahead, got {ahead!r}")
    return StreamSource(df, available_now, ahead)


@dataclass(eq=False)
class StreamSource:
    """Made by `stream`. An offset is a number of batches."""

    df: DataFrame
    available_now: bool = False
    ahead: int = 100
    kind: str = field(default="stream", init=False)
    grows: bool = field(default=True, init=False)  # Spark's source has more the next time
    _spark: SparkSession = field(init=False, repr=False)
    _store: Store = field(init=False, repr=False)
    _folder: str = field(init=False, repr=False)
    _log: RecordLog = field(init=False, repr=False)
    _rows_before: list[int] = field(default_factory=lambda: [0], init=False, repr=False)
    _query: StreamingQuery | None = field(default=None, init=False, repr=False)
    _taken: int = field(default=0, init=False, repr=False)
    _trimmed: int = field(default=0, init=False, repr=False)
    _last_bytes: int = field(default=0, init=False, repr=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False, repr=False)
    _closing: bool = field(default=False, init=False, repr=False)

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark, self._store, self._folder = spark, store, folder
        self._log = RecordLog.open(store, f"{folder}/log")
        self._rows_before = [0]
        for record in self._log.records:
            self._remember(record)
        self._closing, self._trimmed = False, 0
        self._taken = len(self._log)  # what waits from the last run does not hold up the first batch of this one
        writer = (
            self.df.writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", store.uri(f"{folder}/checkpoint"))
            .outputMode("append")
        )
        try:
            self._query = (writer.trigger(availableNow=True) if self.available_now else writer).start()
        except PySparkException as error:
            said = str(error).partition("\n")[0]
            raise SettingsError(f"sources.stream: Spark cannot run this streaming DataFrame: {said}") from error

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        query = self._query
        active = query is not None and query.isActive
        with self._changed:
            self._taken = max(self._taken, start)
            self._changed.notify_all()
            stored = len(self._log)
            if start < stored:
                if max_rows is None:
                    return Offset(stored)
                end = bisect_right(self._rows_before, self._rows_before[start] + max_rows, lo=start) - 1
                return Offset(max(start + 1, end))
        if query is not None and not active:
            self._raise_failure(query)
        return start

    def read(self, start: Offset, end: Offset) -> DataFrame:
        return ordered_scan(self._spark, self._slices(start, end), self._load, self.df.schema, parquet=True)

    def read_unordered(self, start: Offset, end: Offset) -> DataFrame:
        return unordered_scan(self._spark, self._slices(start, end), self._load, self.df.schema)

    def rows(self, start: Offset, end: Offset) -> int | None:
        return self._rows_before[end] - self._rows_before[start]

    def waiting(self, start: Offset) -> int:
        return self._rows_before[-1] - self._rows_before[start]

    def finished(self, start: Offset) -> bool:
        query = self._query
        if query is None or query.isActive or not self.available_now:
            return False
        return query.exception() is None and start >= len(self._log)

    def pending(self) -> bool:
        query = self._query
        return query is not None and query.isActive and not str(query.status["message"]).startswith("Waiting")

    def trim(self, start: Offset) -> None:
        for record in self._log.records[self._trimmed : start]:
            self._store.delete(self._batch(record["batch"]))
        self._trimmed = max(self._trimmed, start)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._query is not None:
            with contextlib.suppress(PySparkException):
                self._query.stop()
            self._query = None

    def _keep(self, df: DataFrame, batch: int) -> None:
        """Runs in the query's thread: store one micro-batch, log it."""
        self._store.check()  # Spark takes the batch for stored when this returns
        with self._changed:
            self._changed.wait_for(lambda: self._closing or len(self._log) - self._taken < self.ahead)
            if self._closing:
                raise InterruptedError(f"batch {batch} was not stored: the source is closing")
            if self._log and self._log.records[-1]["batch"] >= batch:
                return
        target = self._batch(batch)
        if not self._store.exists(f"{target}/{_STORED}"):
            staged = self._store.staging()
            parts = write_parts(df, self._store, staged, "parquet", expected_bytes=self._last_bytes)
            self._last_bytes = sum(part.bytes for part in parts)
            if not parts:
                self._store.delete(staged)
                return
            self._store.write(f"{staged}/{_STORED}", [b""])
            self._store.sync(staged)
            self._store.publish(staged, target, last=_STORED, replace=True)
        files = stored_files(self._spark, self._store, target)
        if not files:
            self._store.delete(target)
            return
        record = {"batch": batch, "files": files}
        with self._changed:
            self._log.append([record])
            self._remember(record)

    def _remember(self, record: Record) -> None:
        self._rows_before.append(self._rows_before[-1] + sum(int(file["rows"]) for file in record["files"]))

    def _batch(self, batch: int) -> str:
        return f"{self._folder}/batches/{batch}"

    def _slices(self, start: Offset, end: Offset) -> list[FileSlice]:
        return [
            FileSlice(self._store.uri(f"{self._batch(record['batch'])}/{file['name']}"), file["bytes"])
            for record in self._log.records[start:end]
            for file in record["files"]
        ]

    def _load(self, paths: list[str]) -> DataFrame:
        return self._spark.read.schema(self.df.schema).parquet(*paths)

    def _raise_failure(self, query: StreamingQuery) -> None:
        failure: StreamingQueryException | None = query.exception()
        if failure is not None:
            said = next((line for line in str(failure).splitlines() if line.strip()), "")
            raise ApplicationFailed(
                f"sources.stream: the streaming query stopped: {said}; mend its cause, then start again: it goes on "
                f"after its last stored batch"
            ) from failure
        if not self.available_now:
            raise ApplicationFailed(
                "sources.stream: the streaming query was stopped from outside; start the application again: it goes on "
                "after its last stored batch"
            )
