"""The sinks without files: memory, console, no-op and foreach."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from perseid.errors import SettingsError
from perseid.sinks import Sink, console, foreach, json, memory, noop, parquet
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Fence

pytestmark = pytest.mark.spark


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 2).withColumnRenamed("id", "n")


def test_memory_keeps_rows_in_the_order_of_the_epochs(spark, store):
    sink = memory()
    sink.open(spark, store)
    assert sink.rows() == []
    assert sink.table().num_rows == 0
    sink.write(Epoch(2), "b", rows(spark, 2, 4))
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    assert [row["n"] for row in sink.rows()] == [0, 1, 2, 3]
    assert sink.table() == pa.table({"n": [0, 1, 2, 3]}, schema=sink.table().schema)
    assert sink.epochs() == [1, 2]


def test_memory_holds_what_it_was_given_and_replaces_another_version(spark, store):
    sink = memory()
    sink.open(spark, store)
    assert not sink.holds(Epoch(1), "a")
    sink.write(Epoch(1), "a", rows(spark, 0, 2))
    assert sink.holds(Epoch(1), "a")
    assert not sink.holds(Epoch(1), "b")
    sink.write(Epoch(1), "b", rows(spark, 5, 6))
    assert sink.rows() == [{"n": 5}]


def test_console_prints_the_first_rows_and_says_how_many_there_are(spark, store, capsys):
    sink = console(rows=2)
    sink.open(spark, store)
    sink.write(Epoch(3), "a", spark.createDataFrame([("[red]word", 1), ("two", 2), ("three", 3)], "word string, n int"))
    printed = capsys.readouterr().out
    assert "epoch 3: 3 rows" in printed
    assert "[red]word" in printed
    assert "two" in printed
    assert "three" not in printed
    assert "first 2" in printed
    assert sink.holds(Epoch(3), "a")
    sink.write(Epoch(4), "b", rows(spark, 0, 0))
    assert capsys.readouterr().out == ""


def test_noop_computes_the_rows_and_keeps_none(spark, store):
    sink = noop()
    sink.open(spark, store)
    sink.write(Epoch(1), "a", rows(spark, 0, 5))
    assert not sink.holds(Epoch(1), "a")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sink.write(Epoch(2), "a", rows(spark, 0, 5).selectExpr("1 / n"))


def test_foreach_is_told_the_epoch_and_the_rows(spark, store):
    table: dict[int, list[int]] = {}
    sink = foreach(lambda epoch, df: table.__setitem__(epoch, [row.n for row in df.collect()]))
    sink.open(spark, store)
    sink.write(Epoch(1), "a", rows(spark, 0, 3))
    sink.write(Epoch(2), "b", rows(spark, 3, 5))
    assert table == {1: [0, 1, 2], 2: [3, 4]}
    assert sink.holds(Epoch(2), "b")
    assert not sink.holds(Epoch(2), "c")


def test_foreach_is_told_the_fence_if_it_asks_for_it(spark, store):
    told = []
    for number in (1, 2):
        sink = foreach(lambda epoch, df, fence: told.append((epoch, df.count(), fence)))
        sink.open(spark, store.fenced("staging", Fence(number)))
        sink.write(Epoch(7), "a", rows(spark, 0, 3))
    assert told == [(7, 3, 1), (7, 3, 2)]


def test_foreach_does_not_hold_an_epoch_whose_function_failed(spark, store):
    def fail(epoch: int, df: DataFrame) -> None:
        raise OSError("out of reach")

    sink = foreach(fail)
    sink.open(spark, store)
    with pytest.raises(OSError, match="out of reach"):
        sink.write(Epoch(1), "a", rows(spark, 0, 3))
    assert not sink.holds(Epoch(1), "a")


def test_all_of_them_are_sinks():
    for sink in (parquet("out"), json("out"), memory(), console(), noop(), foreach(print)):
        assert isinstance(sink, Sink)


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="number of rows"):
        console(rows=-1)
    with pytest.raises(SettingsError, match="expected a function"):
        foreach("print")  # type: ignore[arg-type]
