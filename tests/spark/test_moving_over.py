"""A query of Spark's stops, and Perseid goes on with its state: as one that never moved."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from typer.testing import CliRunner

import perseid
from perseid import App, RootError
from perseid.cli.main import app as command_line
from perseid.query.query import ProcessorQuery
from perseid.storage.manifest import Checkpoints
from perseid.storage.persisted import persisted
from perseid.storage.store import Store
from perseid.transfer.begin_root import begin_root, stateful_node
from perseid.transfer.spark_checkpoint import spark_beginning

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import it

SCHEMA = "id long, name string, value int, at timestamp"
OUTPUT = "id long, name string, told string"
NOON = datetime.datetime(2026, 11, 19, 12)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

Rows = list[tuple[Any, ...]]
"""What comes out, in an order of its own."""


class Totals(StatefulProcessor):
    """Value, list and map state; nested values; a timer where there is event time."""

    def __init__(self, timers: bool) -> None:
        self.timers = timers

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n long, last struct<a: int, b: array<string>>")
        self.items = handle.getListState("items", "value int")
        self.places = handle.getMapState("places", "k string", "v double")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in sorted(rows, key=lambda row: row.value):
            before = self.total.get()
            self.total.update(((before[0] if before else 0) + row.value, Row(a=row.value, b=["x", str(row.value)])))
            self.items.appendValue((row.value,))
            self.places.updateValue((str(row.value % 3),), (row.value / 2,))
            if self.timers:
                self.handle.registerTimer(int(row.at.timestamp() * 1_000) + 15_000)
        yield self._row(key, "rows")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self._row(key, f"timer {expiredTimerInfo.getExpiryTimeInMs()}")

    def _row(self, key: Any, why: str) -> Row:
        n, last = self.total.get()
        told = (why, n, last.a, list(last.b), list(self.items.get()), sorted(self.places.iterator()))
        return Row(id=key[0], name=key[1], told=str(told))

    def close(self) -> None: ...


def write_file(folder: Path, number: int) -> None:
    """Ten rows ten seconds later than those of the file before; one is far too late."""
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "id": n % 3,
            "name": f"n{n % 2}",
            "value": number * 10 + n,
            "at": str(NOON + datetime.timedelta(seconds=number * 10 + n)),
        }
        for n in range(10)
    ]
    rows.append({"id": 0, "name": "n0", "value": -1, "at": str(NOON - datetime.timedelta(hours=number))})
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + number * 10,) * 2)  # Spark takes files in this order


def clicks(spark: SparkSession, folder: Path, delay: str | None) -> DataFrame:
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return df if delay is None else df.withWatermark("at", delay)


def collected(into: dict[int, Rows]) -> Callable[[DataFrame, int], None]:
    def keep(df: DataFrame, batch: int) -> None:
        rows = sorted(map(tuple, df.collect()))
        if rows:
            into[batch] = rows

    return keep


def run_spark(spark: SparkSession, rows: DataFrame, mode: str, checkpoint: Path) -> list[Rows]:
    out: dict[int, Rows] = {}
    stream = rows.groupBy("id", "name").transformWithState(Totals(mode == "EventTime"), OUTPUT, "Update", mode)
    query = stream.writeStream.foreachBatch(collected(out)).option("checkpointLocation", str(checkpoint))
    started = query.outputMode("update").start()
    started.processAllAvailable()
    started.stop()
    return [out[batch] for batch in sorted(out)]


@pytest.fixture(autouse=True)
def _conf(spark: SparkSession) -> Iterator[None]:
    """RocksDB, which Spark needs; and no batch without rows, so that it does not depend on time in which batch a timer fires."""
    wanted = {PROVIDER: ROCKSDB, NO_DATA: "false"}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, was in before.items():
        spark.conf.unset(name) if was is None else spark.conf.set(name, was)


@pytest.mark.parametrize(("mode", "delay"), [("None", None), ("EventTime", "5 seconds")])
def test_a_query_goes_on_as_one_that_never_moved(
    spark: SparkSession, tmp_path: Path, mode: str, delay: str | None
) -> None:
    folder = tmp_path / "in"
    for number in range(3):
        write_file(folder, number)
    run_spark(spark, clicks(spark, folder, delay), mode, tmp_path / "spark")
    shutil.copytree(tmp_path / "spark", tmp_path / "stays")
    for number in range(3, 6):
        write_file(folder, number)

    out: dict[int, Rows] = {}
    moved = perseid.transform_with_state(
        clicks(spark, folder, delay).groupBy("id", "name"), Totals(mode == "EventTime"), OUTPUT, "Update", mode
    )
    query = (
        moved.writeStream.foreachBatch(collected(out))
        .option("checkpointLocation", str(tmp_path / "root"))
        .option("perseid.from", str(tmp_path / "spark"))
        .option("perseid.shards", 2)
        .option("perseid.hosts", 1)
        .option("perseid.spares", 0)
        .start()
    )
    query.processAllAvailable()
    assert isinstance(query, ProcessorQuery)
    assert "Running" not in repr(query) and "<table" in query._repr_html_()
    query.stop()
    stayed = run_spark(spark, clicks(spark, folder, delay), mode, tmp_path / "stays")
    assert [out[batch] for batch in sorted(out)] == stayed
    again = run_spark(spark, clicks(spark, folder, delay), mode, tmp_path / "spark")
    assert again == stayed, "the old query can go on from its checkpoint"
    with pytest.raises(RootError, match="has worked on this root"):
        app = application(spark, perseid.spark_processor(Totals(False)), folder)
        begin_root(
            str(tmp_path / "root"),
            app.graph,
            spark_beginning(spark, str(tmp_path / "spark"), app.graph, app.graph.operators[0]),
        )


class Expiring(StatefulProcessor):
    """State with a time to live, and timers by processing time."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n long", 3_600_000)
        self.items = handle.getListState("items", "n long", 3_600_000)
        self.places = handle.getMapState("places", "k string", "v double", 3_600_000)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.value.update((row.value,))
            self.items.appendValue((row.value,))
            self.places.updateValue(("a",), (row.value / 2,))
        self.handle.registerTimer(4_102_444_800_000 + key[0])
        yield Row(id=key[0], name=key[1], told="")

    def close(self) -> None: ...


def application(spark: SparkSession, operator: perseid.Operator, folder: Path) -> App:
    app = App("moved")
    rows = app.source("rows", perseid.sources.stream(clicks(spark, folder, None)))
    sink = perseid.sinks.parquet(folder.parent / "out")
    rows.stateful("totals", operator, key=["id", "name"], shards=2, output=OUTPUT).sink("out", sink)
    return app


APPLICATION = """
from pathlib import Path

import perseid
from pyspark.sql import SparkSession
from test_moving_over import Totals, application

app = application(SparkSession.active(), perseid.spark_processor(Totals(False)), Path({folder!r}))
"""


def test_an_application_takes_a_querys_state_and_offsets_over_on_the_command_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, file = tmp_path / "in", tmp_path / "app.py"
    file.write_text(APPLICATION.format(folder=str(folder)))
    for number in range(2):
        write_file(folder, number)
    run_spark(spark, clicks(spark, folder, None), "None", tmp_path / "spark")
    spark.conf.unset(PROVIDER)  # the checkpoint says which it has
    arguments = ["import", str(file), "totals", "--from", "spark", str(tmp_path / "spark")]
    done = CliRunner().invoke(command_line, [*arguments, "--root", str(tmp_path / "root")])
    assert done.exit_code == 0 and "begins with 2 shards" in done.output, done.output
    for number in range(2, 4):
        write_file(folder, number)
    app = application(spark, perseid.spark_processor(Totals(False)), folder)
    app.run(
        spark, root=str(tmp_path / "root"), hosts=1, spares=0, max_rows_per_epoch=1, available_now=True, dashboard=False
    )
    out = spark.read.parquet(str(tmp_path / "out")).select("id", "name", "told").collect()
    spark.conf.set(PROVIDER, ROCKSDB)
    stayed = run_spark(spark, clicks(spark, folder, None), "None", tmp_path / "spark")
    assert sorted(map(tuple, out)) == sorted(row for batch in stayed for row in batch) and len(stayed) == 2


def test_times_to_live_and_timers_move_over(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0)
    rows = clicks(spark, tmp_path / "in", None)
    stream = rows.groupBy("id", "name").transformWithState(Expiring(), OUTPUT, "Update", "ProcessingTime")
    query = (
        stream.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "spark"))
        .start()
    )
    while not any(progress.numInputRows for progress in query.recentProgress):  # it goes on making batches without rows
        assert query.awaitTermination(1) is False
    query.stop()
    app = application(spark, perseid.spark_processor(Expiring(), time_mode="ProcessingTime"), tmp_path / "in")
    node = stateful_node(app.graph, "totals")
    begin_root(str(tmp_path / "root"), app.graph, spark_beginning(spark, str(tmp_path / "spark"), app.graph, node))

    store = Store.at(str(tmp_path / "root"))
    (newest,) = Checkpoints(store).newest_first()
    captured = [persisted(store, snapshot.file)[1].processing for snapshot in newest.shards]
    timers = sorted((key, at_ms) for one in captured for key, at_ms, _, name in one["timers"] if not name)
    assert timers == sorted(((n % 3, f"n{n % 2}"), 4_102_444_800_000 + n % 3) for n in range(6))
    for name, column in (("value", "value"), ("items", "list_element"), ("places", "user_map_value")):
        state = (
            spark.read.format("statestore").option("path", str(tmp_path / "spark")).option("stateVarName", name).load()
        )
        expected = {tuple(row["key"]): row[column]["ttlExpirationMs"] for row in state.collect()}
        found = {key: expires(record[name]) for one in captured for key, record in one["fields"]["records"].items()}
        assert found == expected and len(found) == 6


def expires(kept: Any) -> int:
    """When the newest of a variable's values expires."""
    kept = list(kept.values()) if isinstance(kept, dict) else kept
    return int(kept[-1].expires_ms if isinstance(kept, list) else kept.expires_ms)


def test_what_is_no_checkpoint_of_such_a_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0)
    app = application(spark, perseid.spark_processor(Totals(False)), tmp_path / "in")
    node = stateful_node(app.graph, "totals")
    with pytest.raises(RootError, match="no such folder"):
        spark_beginning(spark, str(tmp_path / "nothing"), app.graph, node)
    with pytest.raises(RootError, match="has committed no batch"):
        spark_beginning(spark, str(tmp_path / "in"), app.graph, node)
