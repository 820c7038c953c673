"""Spark compiles the code of an application in its first epochs, not anew in every one."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from witness import OUTPUT, Passed

import perseid
from perseid import App

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.mark.parametrize("kind", ["table", "generator"])
def test_later_epochs_use_the_code_of_the_first(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    columns = {"what": "'x'", "key": "id % 5", "n": "id", "value": "id"}
    rows = spark.range(300).selectExpr(*(f"{expression} AS {name}" for name, expression in columns.items()))
    source = (
        perseid.sources.table(rows.coalesce(1)) if kind == "table" else perseid.sources.generator(columns, rows=300)
    )
    compiled: list[int] = []
    meter = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]

    def look(epoch: int, df: DataFrame) -> None:
        df.toArrow()
        compiled.append(meter.getCount())

    app = App(kind)
    stream = app.source("rows", source)
    for name in ("one", "two"):
        stream = stream.stateful(name, Passed(), key="key", shards=2, output=OUTPUT)
    stream.sink("out", perseid.sinks.foreach(look))
    app.run(spark, root=str(tmp_path), hosts=1, spares=0, max_rows_per_epoch=50)
    assert len(compiled) >= 6
    grown = [after > before for before, after in pairwise(compiled[3:])]
    assert sum(grown) < len(grown), f"compiled by epoch: {compiled}"  # Spark itself compiles something now and then
