"""A batch DataFrame as a source: stored once, replayed for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from perseid.errors import SettingsError, SourceChanged
from perseid.sources import table
from perseid.sources.table import TableSource
from perseid.storage.store import Store
from perseid.vocabulary import Offset

pytestmark = pytest.mark.spark

FOLDER = "sources/table"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


def opened(source: TableSource, spark: SparkSession, store: Store) -> TableSource:
    source.open(spark, FOLDER, store)
    return source


def numbers(df: DataFrame) -> list[int]:
    return [row[0] for row in df.collect()]


def test_rows_come_in_their_order_and_slices_are_row_by_row(spark, store):
    source = opened(table(spark.range(0, 1000, 1, 3)), spark, store)
    assert source.end(Offset(0), None, 0) == 1000
    assert source.end(Offset(10), 100, 0) == 110
    assert source.end(Offset(950), 100, 0) == 1000
    assert numbers(source.read(Offset(0), Offset(1000))) == list(range(1000))
    for start, end in [(0, 1), (0, 333), (10, 110), (300, 400), (333, 1000), (100, 900), (999, 1000)]:
        assert numbers(source.read(Offset(start), Offset(end))) == list(range(start, end))
        assert source.rows(Offset(start), Offset(end)) == end - start
    assert source.waiting(Offset(990)) == 10 and source.waiting(Offset(1000)) == 0
    assert not source.finished(Offset(999))
    assert source.finished(Offset(1000))


def test_rows_are_ordered_by_what_is_asked_for(spark, store):
    df = spark.range(0, 500, 1, 4).select((F.lit(500) - F.col("id")).alias("n"), F.lit("x").alias("s"))
    source = opened(table(df, order_by="n"), spark, store)
    assert numbers(source.read(Offset(0), Offset(500))) == list(range(1, 501))
    assert source.read(Offset(0), Offset(0)).columns == ["n", "s"]


def test_big_tables_are_cut_into_files_and_stay_in_order(spark, store):
    source = opened(TableSource(spark.range(0, 500, 1, 2), rows_per_file=10), spark, store)
    (copy,) = (name for name in store.list(FOLDER) if name.startswith("rows-"))
    assert len([name for name in store.list(f"{FOLDER}/{copy}") if name.startswith("part-")]) == 50
    assert numbers(source.read(Offset(5), Offset(487))) == list(range(5, 487))


def test_a_second_start_goes_on_with_the_copy_even_if_the_rows_would_be_others(spark, store):
    df = spark.range(0, 100, 1, 2).select(F.rand().alias("x"))
    first = opened(table(df), spark, store).read(Offset(20), Offset(60)).collect()
    again = opened(table(df), spark, store).read(Offset(20), Offset(60)).collect()
    assert first == again


def test_a_copy_that_was_interrupted_is_made_anew(spark, store):
    spark.range(0, 7).write.parquet(store.uri(f"{FOLDER}/rows-of-another-start"))
    source = opened(table(spark.range(0, 100, 1, 2)), spark, store)
    assert numbers(source.read(Offset(0), source.end(Offset(0), None, 0))) == list(range(100))


def test_other_columns_than_those_of_the_copy_are_refused(spark, store):
    opened(table(spark.range(5)), spark, store)
    with pytest.raises(SourceChanged, match="new root"):
        opened(table(spark.range(5).withColumn("more", F.lit(1))), spark, store)


def test_an_empty_table_is_finished_at_once(spark, store):
    source = opened(table(spark.range(0)), spark, store)
    assert source.end(Offset(0), None, 0) == 0
    assert source.finished(Offset(0))
    assert source.read(Offset(0), Offset(0)).collect() == []


def test_bad_settings_are_refused(spark):
    with pytest.raises(SettingsError, match="expected a DataFrame"):
        table([1, 2])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="streaming"):
        table(spark.readStream.format("rate").load())
    with pytest.raises(SettingsError, match="cannot order by 'nothing'"):
        table(spark.range(5), order_by="nothing")
