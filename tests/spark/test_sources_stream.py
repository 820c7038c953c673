"""Any streaming DataFrame as a source: stored batch by batch, taken exactly once across restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from perseid.errors import ApplicationFailed, SettingsError
from perseid.sources import stream
from perseid.sources.stream import StreamSource
from perseid.storage.store import Store
from perseid.vocabulary import Offset

pytestmark = pytest.mark.spark

FOLDER = "sources/stream"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def running() -> Iterator[list[StreamSource]]:
    sources: list[StreamSource] = []
    yield sources
    for source in sources:
        source.close()


def put(inbox: Path, name: str, first: int, rows: int) -> None:
    hidden = inbox / f".{name}"
    hidden.write_text("".join(f"{n}\n" for n in range(first, first + rows)))
    hidden.rename(inbox / name)


def lines(spark: SparkSession, inbox: Path) -> DataFrame:
    return (
        spark.readStream.option("maxFilesPerTrigger", 1).text(str(inbox)).select(F.col("value").cast("long").alias("n"))
    )


def opened(source: StreamSource, spark: SparkSession, store: Store, running: list[StreamSource]) -> StreamSource:
    running.append(source)
    source.open(spark, FOLDER, store)
    return source


def wait_for(source: StreamSource, start: int, wanted: int) -> int:
    """Ask until so many batches are there."""
    deadline = time.monotonic() + 60
    while (end := source.end(Offset(start), None, 0)) < wanted:
        assert time.monotonic() < deadline, f"only {end} batches after a minute"
        time.sleep(0.05)
    return end


def numbers(source: StreamSource, start: int, end: int) -> list[int]:
    return [row[0] for row in source.read(Offset(start), Offset(end)).collect()]


def test_batches_are_stored_and_read_in_order_as_often_as_wanted(spark, store, inbox, running):
    source = opened(stream(lines(spark, inbox)), spark, store, running)
    assert source.end(Offset(0), None, 0) == 0
    assert source.read(Offset(0), Offset(0)).columns == ["n"]
    put(inbox, "a", 0, 100)
    wait_for(source, 0, 1)
    put(inbox, "b", 100, 7)
    wait_for(source, 1, 2)
    put(inbox, "c", 107, 200)
    assert wait_for(source, 2, 3) == 3
    assert numbers(source, 0, 3) == list(range(307))
    assert numbers(source, 0, 3) == list(range(307))
    assert numbers(source, 1, 2) == list(range(100, 107))
    assert source.rows(Offset(1), Offset(3)) == source.waiting(Offset(1)) == 207
    assert source.end(Offset(0), 110, 0) == 2
    assert source.end(Offset(0), 1, 0) == 1
    assert not source.finished(Offset(3))

    source.trim(Offset(2))
    assert store.list(f"{FOLDER}/batches") == ["2"]
    assert numbers(source, 2, 3) == list(range(107, 307))


def test_a_restart_goes_on_after_the_last_stored_batch(spark, store, inbox, running):
    put(inbox, "a", 0, 10)
    first = opened(stream(lines(spark, inbox)), spark, store, running)
    wait_for(first, 0, 1)
    first.close()
    put(inbox, "b", 10, 10)
    second = opened(stream(lines(spark, inbox)), spark, store, running)
    assert second.end(Offset(0), None, 0) >= 1
    wait_for(second, 1, 2)
    assert numbers(second, 0, 2) == list(range(20))
    second.trim(Offset(1))
    second.close()
    third = opened(stream(lines(spark, inbox)), spark, store, running)
    put(inbox, "c", 20, 10)
    wait_for(third, 2, 3)
    assert numbers(third, 1, 3) == list(range(10, 30))


@pytest.mark.parametrize("died", ["before the batch was stored", "before it was logged", "before Spark committed it"])
def test_a_batch_that_runs_again_after_a_crash_counts_once(spark, store, inbox, running, died):
    put(inbox, "a", 0, 10)
    first = opened(stream(lines(spark, inbox)), spark, store, running)
    wait_for(first, 0, 1)
    first.close()
    (log,) = store.list(f"{FOLDER}/log")
    store.delete(f"{FOLDER}/checkpoint/commits/0")
    store.delete(f"{FOLDER}/checkpoint/commits/.0.crc")
    if died != "before Spark committed it":
        content = store.read(f"{FOLDER}/log/{log}").splitlines(keepends=True)
        store.write(f"{FOLDER}/log/{log}", [content[0], content[1][:20]])
    if died == "before the batch was stored":
        store.delete(f"{FOLDER}/batches/0")
    second = opened(stream(lines(spark, inbox)), spark, store, running)
    put(inbox, "b", 10, 10)
    wait_for(second, 0, 2)
    assert numbers(second, 0, 2) == list(range(20))
    assert store.list("staging") == []


def test_what_is_there_now_is_taken_and_then_it_is_finished(spark, store, inbox, running):
    put(inbox, "a", 0, 5)
    put(inbox, "b", 5, 5)
    source = opened(stream(lines(spark, inbox), available_now=True), spark, store, running)
    wait_for(source, 0, 2)
    deadline = time.monotonic() + 60
    while not source.finished(Offset(2)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not source.finished(Offset(1))
    assert source.end(Offset(2), None, 0) == 2
    assert sorted(numbers(source, 0, 2)) == list(range(10))


def test_batches_wait_when_too_many_are_ahead(spark, store, inbox, running):
    for i in range(5):
        put(inbox, f"{i}", i * 10, 10)
    source = opened(stream(lines(spark, inbox), ahead=2), spark, store, running)
    wait_for(source, 0, 2)
    time.sleep(0.5)
    assert source.end(Offset(0), None, 0) == 2
    assert wait_for(source, 2, 4) == 4
    source.close()


def test_the_failure_of_the_query_comes_out_of_the_source(spark, store, inbox, running):
    df = lines(spark, inbox).select(F.raise_error(F.concat(F.lit("row "), F.col("n"))).cast("long").alias("n"))
    put(inbox, "a", 7, 1)
    source = opened(stream(df), spark, store, running)
    with pytest.raises(ApplicationFailed, match=r"the streaming query stopped.*start again"):
        wait_for(source, 0, 1)


def test_a_python_data_source_is_taken_like_any_other(spark, store, running):
    class CountingReader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"n": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
            end = min(30, start["n"] + 10)
            return self.readBetweenOffsets(start, {"n": end}), {"n": end}

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
            return iter([(n,) for n in range(start["n"], end["n"])])

    class Counting(DataSource):
        """Gives the numbers up to 30, ten at a time."""

        @classmethod
        def name(cls) -> str:
            return "counting"

        def schema(self) -> str:
            return "n long"

        def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
            return CountingReader()

    spark.dataSource.register(Counting)
    source = opened(stream(spark.readStream.format("counting").load()), spark, store, running)
    deadline = time.monotonic() + 60
    while source.rows(Offset(0), end := source.end(Offset(0), None, 0)) != 30:
        assert time.monotonic() < deadline, f"{end} batches after a minute"
        time.sleep(0.05)
    assert numbers(source, 0, end) == list(range(30))


def test_bad_settings_are_refused(spark, store, inbox, running):
    with pytest.raises(SettingsError, match=r"sources\.table"):
        stream(spark.range(5))
    with pytest.raises(SettingsError, match="ahead"):
        stream(lines(spark, inbox), ahead=0)
    with pytest.raises(SettingsError, match="Spark cannot run"):
        opened(stream(lines(spark, inbox).groupBy("n").count()), spark, store, running)
