"""A class written for Spark's transformWithState, in an application: text schemas, several units of work, a restart, a scale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

import perseid
from perseid import App, every

pytestmark = pytest.mark.spark


class RunningCount(StatefulProcessor):
    """As in Spark's documentation."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self.count.get()
        n = (before[0] if before else 0) + sum(1 for _ in rows)
        self.count.update((n,))
        yield Row(id=key[0], n=n)


def test_a_class_written_for_spark_counts_every_row_once_over_a_restart_and_a_scale(
    spark: SparkSession, tmp_path: Path
) -> None:
    def run(rows: int, shards: int) -> dict[int, int]:
        app = App("counts")
        numbers = app.source("numbers", perseid.sources.generator({"id": "id % 10"}, rows=rows))
        counts = numbers.stateful(
            "count", perseid.spark_processor(RunningCount()), key="id", shards=shards, output="id long, n long"
        )
        counts.sink("out", perseid.sinks.parquet(tmp_path / "out"))
        app.run(
            spark,
            root=str(tmp_path / "root"),
            hosts=1,
            spares=0,
            max_rows_per_epoch=100,
            checkpoint=perseid.checkpoints.parallel(every(seconds=1)),
            available_now=True,
        )
        written = spark.read.parquet(str(tmp_path / "out")).groupBy("id").max("n").collect()
        return {row["id"]: row["max(n)"] for row in written}

    assert run(500, 1) == dict.fromkeys(range(10), 50)
    assert run(1_000, 2) == dict.fromkeys(range(10), 100)
