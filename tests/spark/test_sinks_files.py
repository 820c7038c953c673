"""The parquet and JSON sinks: an epoch is there wholly, once, and in one version."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from perseid.errors import Fenced, SettingsError
from perseid.sinks import json, parquet
from perseid.sinks.epoch_folders import EpochFolders
from perseid.sinks.part_files import SMALL_BYTES, write_parts
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Fence

pytestmark = pytest.mark.spark


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return driver(tmp_path, 1)


def driver(tmp_path: Path, number: int) -> Store:
    """What the sinks of this driver are opened with."""
    return Store.at(str(tmp_path / "root")).fenced("staging", Fence(number))


def of_driver(number: int, sink: Any, spark: SparkSession) -> EpochFolders:
    """The same sink, of a later driver."""
    other = type(sink)(sink.path)
    other.open(spark, driver(Path(sink.path).parent, number))
    return other


def markers(sink: EpochFolders, epoch: int) -> list[Path]:
    return list(Path(sink.path, f"epoch={epoch}").glob("_perseid-*.json"))


@pytest.fixture(params=["parquet", "json"])
def sink(request, spark, store, tmp_path) -> EpochFolders:
    sink = (parquet if request.param == "parquet" else json)(tmp_path / "out")
    sink.open(spark, store)
    return sink


def contents(spark: SparkSession, sink: EpochFolders) -> list[tuple[int, int]]:
    df = spark.read.format(sink.kind).load(sink.path)
    return sorted((row.epoch, row.n) for row in df.select("epoch", "n").collect())


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 2).withColumnRenamed("id", "n")


def test_epochs_are_written_and_read_as_one_table(spark, sink):
    assert not sink.holds(Epoch(1), "a")
    sink.write(Epoch(1), "a", rows(spark, 0, 3))
    sink.write(Epoch(2), "b", rows(spark, 3, 5))
    assert sink.holds(Epoch(1), "a")
    assert sink.holds(Epoch(2), "b")
    assert not sink.holds(Epoch(2), "a")
    assert contents(spark, sink) == [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4)]


def test_a_newer_driver_replaces_an_epoch_and_an_older_one_never_does(spark, sink):
    sink.write(Epoch(1), "a", rows(spark, 0, 3))
    sink.write(Epoch(2), "b", rows(spark, 3, 5))
    newer = of_driver(2, sink, spark)
    newer.write(Epoch(1), "other", rows(spark, 10, 12))
    assert newer.holds(Epoch(1), "other")
    assert not newer.holds(Epoch(1), "a")
    newer.write(Epoch(2), "b", rows(spark, 3, 5))
    assert contents(spark, sink) == [(1, 10), (1, 11), (2, 3), (2, 4)]
    for epoch, digest in ((1, "a"), (1, "other"), (3, "c")):
        with pytest.raises(Fenced):
            sink.write(Epoch(epoch), digest, rows(spark, 20, 22))
        sink._last_bytes = SMALL_BYTES  # and so, through Spark's own writer
    with pytest.raises(Fenced, match="with other rows"):
        newer.write(Epoch(1), "a third", rows(spark, 20, 22))
    assert contents(spark, sink) == [(1, 10), (1, 11), (2, 3), (2, 4)]
    with pytest.raises(Fenced):
        type(sink)(sink.path).open(spark, Store.at(str(Path(sink.path).parent / "old")).fenced("staging", Fence(1)))


def test_an_epoch_with_a_part_missing_or_cut_short_is_none_and_is_mended(spark, sink):
    for damage in (Path.unlink, lambda part: part.write_bytes(part.read_bytes()[:-1])):
        sink.write(Epoch(1), "a", rows(spark, 0, 3))
        assert sink.holds(Epoch(1), "a")
        damage(next(Path(sink.path, "epoch=1").glob("part-*")))
        assert not sink.holds(Epoch(1), "a")
    sink.write(Epoch(1), "a", rows(spark, 0, 3))
    assert contents(spark, sink) == [(1, 0), (1, 1), (1, 2)]


def test_another_process_finds_what_was_written(spark, store, sink):
    sink.write(Epoch(7), "a", rows(spark, 0, 3))
    sink.close()
    other = type(sink)(sink.path)
    other.open(spark, store)
    assert other.holds(Epoch(7), "a")
    assert not other.holds(Epoch(8), "a")


def test_leftovers_of_a_crash_are_cleared_away_and_never_seen(spark, sink):
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    staging = Path(sink.path, sink._epochs.place.staging())
    staging.mkdir()
    (staging / "part-00000.json").write_text('{"n": 99}\n')
    assert contents(spark, sink) == [(1, 0), (1, 1)]
    of_driver(2, sink, spark)
    assert not staging.exists()
    assert contents(spark, sink) == [(1, 0), (1, 1)]


def test_a_folder_without_a_whole_marker_is_not_an_epoch(spark, sink):
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    (marker,) = markers(sink, 1)
    marker.write_bytes(marker.read_bytes()[:-5])
    assert not sink.holds(Epoch(1), "a")
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    assert sink.holds(Epoch(1), "a")
    assert contents(spark, sink) == [(1, 0), (1, 1)]


def test_an_empty_epoch_is_held_and_has_no_rows(spark, sink):
    sink.write(Epoch(1), "a", rows(spark, 0, 2).where("n > 5"))
    assert sink.holds(Epoch(1), "a")
    sink.write(Epoch(2), "b", rows(spark, 0, 1))
    assert contents(spark, sink) == [(2, 0)]
    assert list(Path(sink.path, "epoch=1").iterdir()) == markers(sink, 1)


def test_nothing_stays_in_staging_when_all_goes_well(spark, sink):
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    newer = of_driver(2, sink, spark)
    newer.write(Epoch(1), "b", rows(spark, 0, 2))
    (own,) = Path(sink.path, "_staging").iterdir()
    assert list(own.iterdir()) == []
    assert {path.name for path in Path(sink.path).iterdir()} == {"_staging", "epoch=1"}


def test_a_failure_of_the_rows_leaves_the_old_version(spark, sink):
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    sink = of_driver(2, sink, spark)
    with pytest.raises(Exception, match="no such luck"):
        sink.write(Epoch(1), "b", rows(spark, 0, 2).select(F.raise_error(F.lit("no such luck")).cast("int").alias("n")))
    assert sink.holds(Epoch(1), "a")
    assert contents(spark, sink) == [(1, 0), (1, 1)]


def test_the_rows_are_computed_once(spark, sink):
    """Running them has effects in hosts."""
    runs = Path(sink.path).parent / "runs"
    runs.mkdir()

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import uuid

        (runs / uuid.uuid4().hex).touch()
        yield from batches

    sink.write(Epoch(1), "a", rows(spark, 0, 4).mapInArrow(count, "n long"))
    assert len(list(runs.iterdir())) == 2
    sink._last_bytes = SMALL_BYTES  # as after a big epoch: through Spark's own writer
    sink.write(Epoch(2), "b", rows(spark, 4, 8).mapInArrow(count, "n long"))
    assert len(list(runs.iterdir())) == 4
    assert contents(spark, sink) == [(1 + n // 4, n) for n in range(8)]


def everything(spark: SparkSession) -> DataFrame:
    schema = (
        "b boolean, i8 byte, i16 short, i32 int, n long, f float, d double, c decimal(20,3), s string, raw binary, day date, "
        "at timestamp, wall timestamp_ntz, many array<int>, pairs map<string,long>, inner struct<x: int, y: array<string>>"
    )
    now = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
    row = (
        True,
        1,
        2,
        3,
        4,
        0.5,
        0.25,
        Decimal("12345.678"),
        "ü",
        b"\0\1",
        now.date(),
        now,
        now,
        [1, None],
        {"k": 1},
        (1, ["a"]),
    )
    return spark.createDataFrame([row, (None,) * 16], schema)


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_both_ways_of_writing_give_the_same_rows(spark, store, format):
    df = everything(spark)
    small = write_parts(df, store, "small", format)
    write_parts(df, store, "big", format, expected_bytes=SMALL_BYTES)
    assert sum(part.rows or 0 for part in small) == 2
    read = [spark.read.format(format).schema(df.schema).load(store.uri(folder)) for folder in ("small", "big")]
    assert sorted(map(str, read[0].collect())) == sorted(map(str, read[1].collect()))
    if format == "parquet":
        inferred = [spark.read.parquet(store.uri(folder)).schema for folder in ("small", "big")]
        assert inferred[0] == inferred[1]


def test_types_that_only_spark_can_write_are_written_by_spark(spark, store, tmp_path):
    sink = parquet(tmp_path / "out")
    sink.open(spark, store)
    df = spark.sql("SELECT 1L AS n, INTERVAL '1' DAY AS wait")
    sink.write(Epoch(1), "a", df)
    read = spark.read.parquet(sink.path)
    assert read.schema["wait"].dataType == df.schema["wait"].dataType
    assert read.collect()[0].wait == dt.timedelta(days=1)


def test_the_number_of_files_can_be_bounded(spark, store, tmp_path):
    sink = parquet(tmp_path / "out", files=1)
    sink.open(spark, store)
    sink.write(Epoch(1), "a", rows(spark, 0, 100))
    (file,) = Path(sink.path, "epoch=1").glob("part-*")
    assert pq.read_table(file)["n"].to_pylist() == list(range(100))


def test_bad_settings_are_refused(spark, store, tmp_path):
    with pytest.raises(SettingsError, match="empty path"):
        parquet("")
    with pytest.raises(SettingsError, match="at least 1 file"):
        parquet("out", files=0)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot write there"):
        parquet(tmp_path / "file" / "out").open(spark, store)
