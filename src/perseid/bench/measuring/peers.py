"""Spark's side: its own JVM aggregate, ``transformWithState`` and the identity job, each with the settings that suit it best.

Streams read the same files as Perseid, a fixed number to a batch. Their results go to one parquet folder per batch that is overwritten
when a batch is repeated: exactly once, like Perseid's, and written with the same options.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from perseid.bench.measuring.applications import OUTPUT
from perseid.bench.measuring.processors import CountFrames, CountRows, Processor
from perseid.bench.measuring.sizes import PROCESSOR_SCHEMA, ROWS_PER_EPOCH, SCHEMA, SHARDS
from perseid.bench.measuring.timings import Commit, from_progress

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",  # Spark ignores it for stateful streams; the identity job is faster without
    "spark.sql.shuffle.partitions": str(SHARDS),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "5000",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{ROCKSDB}.changelogCheckpointing.enabled": "true",
    f"{ROCKSDB}.trackTotalNumberOfRows": "false",  # counting rows costs a look-up for every write
}


@cache
def spark() -> SparkSession:
    """This process's session."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{max(SHARDS, os.cpu_count() or SHARDS)}]").appName(
        "perseid-bench-peers"
    )
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def begin() -> None:
    """Start Spark."""
    spark().range(1).count()


def native(folder: Path, work: Path) -> list[Commit]:
    """The aggregate of the JVM."""
    return _stream(folder, work, 2, lambda rows: rows.groupBy("key").count())


def transform_with_state(folder: Path, work: Path, files: int, *, sink: str = "parquet") -> list[Commit]:
    """``transformWithState``, its processor in Python."""
    return _stream(
        folder,
        work,
        files,
        lambda rows: rows.groupBy("key").transformWithState(CountRows(), OUTPUT, "Update", "None"),
        sink,
    )


def transform_with_state_in_pandas(folder: Path, work: Path, files: int) -> list[Commit]:
    """``transformWithStateInPandas``."""
    return _stream(
        folder,
        work,
        files,
        lambda rows: rows.groupBy("key").transformWithStateInPandas(CountFrames(), OUTPUT, "Update", "None"),
    )


def processor(
    folder: Path, work: Path, files: int, batches: int, kind: type[Processor], *, pandas: bool
) -> list[Commit]:
    """Any processor, by either method, on rows of ``sizes.PROCESSOR_SCHEMA``, until so many batches are done."""

    def processed(rows: DataFrame) -> DataFrame:
        keyed = rows.groupBy("key")
        method = keyed.transformWithStateInPandas if pandas else keyed.transformWithState
        return method(kind(), OUTPUT, "Update", kind.time_mode)

    return _stream(folder, work, files, processed, schema=PROCESSOR_SCHEMA, batches=batches)


def identity(folder: Path, batches: int) -> list[Commit]:
    """Batch jobs that bring the rows of each key together, send them through Python, and throw them away."""
    files = sorted(str(path) for path in folder.iterdir())
    commits = []
    for batch in range(batches):
        began = time.time()
        rows = spark().read.schema(SCHEMA).parquet(*files[2 * batch : 2 * batch + 2])
        rows.repartition(SHARDS, "key").mapInArrow(_same, SCHEMA).write.format("noop").mode("overwrite").save()
        ended = time.time()
        commits.append(Commit(ended * 1000, (ended - began) * 1000, ROWS_PER_EPOCH))
    return commits


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _stream(
    folder: Path,
    work: Path,
    files: int,
    counted: Callable[[DataFrame], DataFrame],
    sink: str = "parquet",
    schema: str = SCHEMA,
    batches: int | None = None,
) -> list[Commit]:
    """All that is there; or so many batches, since with processing time Spark goes on without rows and never ends."""
    rows = spark().readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))
    writer = counted(rows).writeStream.outputMode("update")
    writer = writer.trigger(availableNow=True) if batches is None else writer.trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    writer = writer.foreachBatch(_Batches(work / "out")) if sink == "parquet" else writer.format("noop")
    query = writer.start()
    if batches is None:
        query.awaitTermination()
    else:
        while len(from_progress(query.recentProgress)) < batches:
            assert query.isActive, "the query ended before its batches were done"
            time.sleep(0.05)
        query.stop()
    return from_progress(query.recentProgress)


class _Batches:
    """Writes every batch to a folder of its own."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __call__(self, batch: DataFrame, number: int) -> None:
        writer = (
            batch.write.mode("overwrite")
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .option("mapreduce.fileoutputcommitter.algorithm.version", "2")
            .option("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
            .option("fs.file.impl.disable.cache", "true")
        )
        writer.parquet(str(self._out / f"batch={number}"))
