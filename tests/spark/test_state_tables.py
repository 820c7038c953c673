"""A root as tables of Spark, and state that goes out of one root and on in another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import perseid
from perseid import App, KeyedOperator, Operator, every, state
from perseid.storage.store import Store
from perseid.transfer.begin_root import begin_root, stateful_node
from perseid.transfer.export_state import export_state
from perseid.transfer.import_state import exported_beginning
from perseid.transfer.read_state import SavedOperator

pytestmark = pytest.mark.spark

TIMER_MS = 4_102_444_800_000


class Count(KeyedOperator):
    n: int = state(default=0)
    values: list[int] = state(default_factory=list)
    last: Any = state(default=None)

    def process_key(self, key: Any, rows: pa.Table) -> Any:
        self.n += rows.num_rows
        self.values = [*self.values, rows.num_rows][-2:]
        self.last = (key, self.n)
        self.context.timers.at_processing_time(key, TIMER_MS, name="end")
        yield {"id": key, "n": self.n}


class Sums(Operator):
    sums: dict[int, int] = state(default_factory=dict)
    rows: int = state(default=0, split=lambda rows, part: rows, merge=sum)

    def process(self, rows: pa.Table) -> pa.Table:
        for key, n in zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True):
            self.sums[key] = self.sums.get(key, 0) + n
        self.rows += rows.num_rows
        return pa.table({"id": list(self.sums), "n": list(self.sums.values())})


SETTINGS: dict[str, Any] = {
    "hosts": 1, "spares": 0, "available_now": True, "max_rows_per_epoch": 100, "keep": 9,
    "checkpoint": perseid.checkpoints.parallel(every(seconds=30)),
}  # fmt: skip


def application(out: Path, first: int, rows: int, shards: int = 2) -> App:
    """So many rows from the first on."""
    app = App("tables")
    numbers = app.source("numbers", perseid.sources.generator({"id": f"(id + {first}) % 30"}, rows=rows))
    counts = numbers.stateful("count", Count(), key="id", shards=shards, output="id long, n long")
    counts.sink("out", perseid.sinks.parquet(out / "counts"))
    sums = counts.stateful("sum", Sums(), key="id", shards=1, output="id long, n long")
    sums.sink("sums", perseid.sinks.parquet(out / "sums"))
    return app


def largest(spark: SparkSession, folder: Path) -> dict[int, int]:
    rows = spark.read.parquet(str(folder)).groupBy("id").agg({"n": "max"}).toDF("id", "n").collect()
    return {row["id"]: row["n"] for row in rows}


@pytest.fixture(scope="module")
def roots(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``old``: 300 rows in three epochs."""
    tmp_path = tmp_path_factory.mktemp("roots")
    application(tmp_path / "old-out", 0, 300).run(spark, root=str(tmp_path / "old"), **SETTINGS)
    return tmp_path


def read(spark: SparkSession, root: Path, **options: Any) -> DataFrame:
    return spark.read.format("perseid").options(**options).load(str(root))


def test_state_goes_on_in_another_root_as_if_it_had_stayed(spark: SparkSession, roots: Path) -> None:
    new = application(roots / "new-out", 300, 200, shards=3)
    for operator in ("count", "sum"):
        export_state(SavedOperator.of(Store.at(str(roots / "old")), operator), roots / operator)
        begin_root(
            str(roots / "new"), new.graph, exported_beginning(roots / operator, stateful_node(new.graph, operator))
        )
    new.run(spark, root=str(roots / "new"), **SETTINGS)
    application(roots / "stayed-out", 0, 500).run(spark, root=str(roots / "stayed"), **SETTINGS)
    for sink in ("counts", "sums"):
        assert largest(spark, roots / "new-out" / sink) == largest(spark, roots / "stayed-out" / sink)
    moved, stayed = (read(spark, roots / root, operator="count").drop("shard", "epoch") for root in ("new", "stayed"))
    assert sorted(moved.select("key.id", "value.n").collect()) == sorted(stayed.select("key.id", "value.n").collect())
    assert read(spark, roots / "new", table="timers", operator="count").count() == 30


def test_state_by_key_has_a_row_for_each_key_and_a_partition_for_each_shard(spark: SparkSession, roots: Path) -> None:
    state = read(spark, roots / "old", operator="count")
    assert state.schema.simpleString() == (
        "struct<shard:int,epoch:bigint,key:struct<id:bigint>,value:struct<n:bigint,values:array<bigint>,last:string>>"
    )
    rows = state.orderBy("key.id").collect()
    assert [(row.key.id, row.value.n, row.epoch) for row in rows] == [(n, 10, 3) for n in range(30)]
    assert rows[4].value["values"] == [3, 4] or sum(rows[4].value["values"]) in (6, 7)
    assert state.rdd.getNumPartitions() == 2 and {row.shard for row in rows} == {0, 1}
    assert rows[7].value["last"] == '{"$tuple":[7,10]}'


def test_columns_and_shards_can_be_chosen(spark: SparkSession, roots: Path) -> None:
    chosen = spark.read.format("perseid").schema("key struct<id: long>").option("operator", "count").option("shard", 1)
    one = chosen.load(str(roots / "old"))
    assert one.columns == ["key"] and one.rdd.getNumPartitions() == 1 and 0 < one.count() < 30
    assert read(spark, roots / "old", operator="count").limit(3).count() == 3
    assert read(spark, roots / "old", operator="count", text="n").select("value.n").first() == ("10",)


def test_state_of_other_operators_has_a_table_for_each_field(spark: SparkSession, roots: Path) -> None:
    sums = read(spark, roots / "old", operator="sum")  # its only dict
    assert sums.columns == ["shard", "epoch", "key", "value"] and sums.count() == 30
    whole = read(spark, roots / "old", operator="sum", field="rows").collect()
    assert [(row.shard, row.value) for row in whole] == [(0, 90)]


def test_timers_epochs_and_checkpoints_are_tables(spark: SparkSession, roots: Path) -> None:
    timers = read(spark, roots / "old", table="timers", operator="count")
    assert {(row.at_ms, row.kind, row.name) for row in timers.collect()} == {(TIMER_MS, "processing", "end")}
    epochs = read(spark, roots / "old", table="epochs").orderBy("epoch").collect()
    ends = [row.slices["numbers"].end for row in epochs]
    assert ends[:3] == [100, 200, 300] and all(row.committed_by == ["main"] for row in epochs)
    newest = read(spark, roots / "old", table="checkpoints").orderBy("checkpoint", ascending=False).first()
    assert newest is not None and newest.units == {"main": len(epochs)}
    assert sorted((s.operator, s.shard, s.first_slot, s.end_slot) for s in newest.shards) == [
        ("count", 0, 0, 128), ("count", 1, 128, 256), ("sum", 0, 0, 256),
    ]  # fmt: skip


def test_without_the_key_of_the_root_nothing_is_read(spark: SparkSession, roots: Path) -> None:
    key = roots / "old" / "key.json"
    away = key.rename(roots / "key.json")
    try:
        with pytest.raises(Exception, match="without it no snapshot can be trusted"):
            read(spark, roots / "old", operator="count").count()
    finally:
        away.rename(key)
