"""Rows whose narrow columns travel packed into words reach the operator as they were: values, nulls, types and order."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App
from perseid.spark.arrow_batches import LIMIT, NO_LIMIT

pytestmark = pytest.mark.spark

SCHEMA = "n int, tiny tinyint, small smallint, flag boolean, day date, big long, text string, `a.b` int, half double"
ROWS = [
    (
        None if n % 11 == 0 else n - 500,
        None if n % 7 == 0 else n % 256 - 128,
        None if n % 5 == 0 else (n * 131) % 65_536 - 32_768,
        None if n % 3 == 0 else n % 2 == 0,
        None if n % 13 == 0 else date(1960 + n % 80, 1 + n % 12, 1 + n % 28),
        n << 40,
        None if n % 4 == 0 else f"row {n}",
        (-1) ** n * (2**31 - 1 - n),
        n / 2,
    )
    for n in range(1, 1_001)
]


@pytest.mark.parametrize("shards", [1, 3])
def test_every_value_reaches_the_operator_as_it_was(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(str(tmp_path / "in"))
    app = App("same")
    rows = app.source("in", perseid.sources.files(str(tmp_path / "in"), format="parquet", schema=SCHEMA))
    said = rows.stateful("same", apps.Same(), key="small", shards=shards, output=SCHEMA)
    said.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
    running = app.start(spark, root=str(tmp_path / "root"), hosts=1, spares=0, available_now=True)
    assert running.wait(300)
    came = [tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).drop("epoch").collect()]
    assert sorted(came, key=lambda row: row[5]) == ROWS
    if shards == 1:
        assert came == ROWS


def test_batches_are_bounded_by_rows_alone_while_no_row_can_be_large(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get(LIMIT)
    (tmp_path / "in").mkdir()
    for schema, unbounded in (("n int, day date", True), ("n int, text string", False)):
        app = App("small")
        rows = app.source("in", perseid.sources.files(str(tmp_path / "in"), format="parquet", schema=schema))
        rows.stateful("same", apps.Same(), key="n", output=schema).sink("out", perseid.sinks.noop())
        running = app.start(spark, root=str(tmp_path / schema), hosts=1, spares=0)
        assert (running._shell.own.conf.get(LIMIT) == NO_LIMIT) == unbounded
        assert spark.conf.get(LIMIT) == before, "the user's session stays as it is"
        running.stop()
