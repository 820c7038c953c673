"""Rows whose order nobody looks at are read in any order; all others in theirs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App
from perseid.spark.compile import compile_graph
from perseid.storage.store import Store

pytestmark = pytest.mark.spark

ANY_ORDER, IN_ORDER = apps.Count, apps.Same
OUTPUT = {ANY_ORDER: apps.COUNTED, IN_ORDER: "key long"}


def unordered(spark: SparkSession, app: App, tmp_path: Path) -> frozenset[str]:
    graph, store = app.graph, Store.at(str(tmp_path / "root"))
    for source in graph.sources:
        source.source.open(spark, f"sources/{source.name}", store)
    return compile_graph(spark, spark, graph).unordered


def test_the_order_of_a_source_matters_unless_all_its_readers_say_that_it_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    app = App("orders")
    names = ("one", "both", "through", "kept", "unread")
    streams = {name: app.source(name, perseid.sources.files(tmp_path / "in", schema="key long")) for name in names}
    for name, stream, operator in [
        ("a", streams["one"], ANY_ORDER),
        ("b", streams["both"], ANY_ORDER),
        ("c", streams["both"], IN_ORDER),
        ("d", streams["through"].transform("same", lambda df: df), ANY_ORDER),
        ("e", streams["kept"], ANY_ORDER),
    ]:
        said = stream.stateful(name, operator(), key="key", output=OUTPUT[operator])
        said.sink(f"{name}-out", perseid.sinks.noop())
    streams["kept"].sink("kept-out", perseid.sinks.noop())
    streams["unread"].sink("unread-out", perseid.sinks.noop())
    assert unordered(spark, app, tmp_path) == {"one"}


def test_an_epoch_of_many_files_in_any_order_has_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(40):
        rows = pa.table({"key": [n % 10 for n in range(number * 100, number * 100 + 100)]})
        pq.write_table(rows, tmp_path / "in" / f"{number}.parquet")
    app = App("sum")
    rows = app.source("in", perseid.sources.files(tmp_path / "in", schema="key long"))
    counts = rows.stateful("count", ANY_ORDER(), key="key", shards=2, output=OUTPUT[ANY_ORDER])
    counts.sink("out", perseid.sinks.parquet(tmp_path / "out"))
    settings: dict[str, Any] = {"hosts": 1, "spares": 0, "available_now": True, "max_rows_per_epoch": 1_500}
    assert app.start(spark, root=str(tmp_path / "root"), **settings).wait(300)
    out = spark.read.parquet(str(tmp_path / "out"))
    assert {row.epoch for row in out.select("epoch").distinct().collect()} == {1, 2, 3}
    assert {row.key: row.total for row in out.where("epoch = 3").collect()} == dict.fromkeys(range(10), 400)
