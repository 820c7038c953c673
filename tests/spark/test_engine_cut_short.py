"""A task that Spark gives up is not taken for one that has read all its rows: a half-received epoch changes nothing (design 3)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from perseid.spark.exchange import _whole
from perseid.spark.jobs import cancel, tagged

pytestmark = pytest.mark.spark

BATCH_ROWS, BATCHES = 20_000, 100


def slowly(times: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Gives every batch so many times, with pauses. A function of a function, so that Spark's workers need not import this module."""

    def repeat(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(times):
                time.sleep(0.05)
                yield batch

    return repeat


def told(path: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Writes down every batch that comes, and how they ended."""

    def listen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def say(word: str) -> None:
            with Path(path).open("a") as file:
                file.write(f"{os.getpid()} {word}\n")

        count = 0
        try:
            for _ in _whole(batches):
                count += 1
                say("batch")
        except BaseException as error:
            say(type(error).__name__)
            raise
        say("end")
        yield pa.RecordBatch.from_pydict({"count": pa.array([count], pa.int64())})

    return listen


def words_of(path: Path) -> list[str]:
    return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []


def test_rows_that_end_well_are_whole(spark: SparkSession, tmp_path: Path) -> None:
    spoken = tmp_path / "spoken"
    rows = spark.range(0, BATCH_ROWS, 1, 1).mapInArrow(told(str(spoken)), "count long").collect()
    assert rows[0]["count"] >= 1
    assert words_of(spoken)[-1] == "end"


def test_the_rows_of_a_cancelled_task_have_no_end(spark: SparkSession, tmp_path: Path) -> None:
    spoken = tmp_path / "spoken"

    def run() -> None:
        with tagged(spark, "cut"), pytest.raises(Exception, match=r"(?i)cancel"):
            source = spark.range(0, BATCH_ROWS, 1, 1).mapInArrow(slowly(BATCHES), "id long")
            source.mapInArrow(told(str(spoken)), "count long").collect()

    job = threading.Thread(target=run)
    job.start()
    while "batch" not in words_of(spoken):
        assert job.is_alive(), "the job ended before it was cancelled"
        time.sleep(0.02)
    cancel(spark, "cut")
    job.join(60)
    worker = int(spoken.read_text().split()[0])
    until = time.monotonic() + 60
    while Path(f"/proc/{worker}").exists() and words_of(spoken)[-1] == "batch" and time.monotonic() < until:
        time.sleep(0.05)
    assert "end" not in words_of(spoken)
    assert len(words_of(spoken)) < BATCHES
