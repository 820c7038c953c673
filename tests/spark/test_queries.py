"""`transform_with_state` in Spark's way: a grouped DataFrame in, a query out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

import perseid
from perseid import GraphError, SettingsError

pytestmark = pytest.mark.spark
OUTPUT = "id string, total long"


class Totals(StatefulProcessor):
    """Adds up what each key has, from its initial state on."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def add(self, n: int) -> int:
        before = self.total.get()
        now: int = (before[0] if before else 0) + n
        self.total.update((now,))
        return now

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self.add(initialState.first)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        yield Row(id=key[0], total=self.add(sum(row.n for row in rows)))


class TotalsInPandas(Totals):
    """The same with frames."""

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        self.add(int(initialState["first"].sum()))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # type: ignore[override]
        yield pd.DataFrame({"id": [key[0]], "total": [self.add(int(sum(frame["n"].sum() for frame in rows)))]})


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir(exist_ok=True)
    read = spark.readStream.schema("id string, n long").option("maxFilesPerTrigger", 1)
    return read.json(str(folder))


def write(folder: Path, name: str, *rows: tuple[str, int]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f'{{"id": "{key}", "n": {n}}}\n' for key, n in rows))


@pytest.mark.parametrize("pandas", [False, True], ids=["row", "pandas"])
def test_a_query_goes_on_with_its_state_when_it_is_started_again(
    spark: SparkSession, tmp_path: Path, pandas: bool
) -> None:
    start = perseid.transform_with_state_in_pandas if pandas else perseid.transform_with_state
    processor = TotalsInPandas() if pandas else Totals()
    initial = spark.createDataFrame([("a", 100), ("c", 7)], "id string, first long").groupBy("id")
    batches: dict[int, set[tuple[str, int]]] = {}

    def keep(df: DataFrame, batch: int) -> None:
        assert df.count() == len(df.collect())
        batches[batch] = {(row.id, row.doubled) for row in df.collect()}

    totals = start(lines(spark, tmp_path / "in").groupBy("id"), processor, OUTPUT, "Update", "None", initial)
    doubled = totals.select("id", (F.col("total") * 2).alias("doubled")).filter("doubled > 0")
    assert doubled.columns == ["id", "doubled"] and doubled.isStreaming
    writer = doubled.writeStream.queryName("totals").outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(tmp_path / "root")).option("perseid.hosts", 1)
    write(tmp_path / "in", "1.json", ("a", 1), ("b", 2), ("a", 3))
    first = writer.start()
    assert first.name == "totals" and first.isActive
    first.processAllAvailable()
    assert batches == {0: {("a", 208), ("b", 4)}}
    seen = first.lastProgress
    assert seen is not None and (seen.batchId, seen.numInputRows, len(first.recentProgress)) == (0, 5, 1)
    assert seen.stateOperators[0].customMetrics["numValueStateVars"] > 0
    first.stop()
    assert not first.isActive and first.exception() is None and first.awaitTermination(10) is True
    write(tmp_path / "in", "2.json", ("c", 1), ("a", 1))
    second = writer.start()
    second.processAllAvailable()
    second.stop()
    assert batches[1] == {("a", 210), ("c", 16)}
    assert second.id == first.id and second.runId != first.runId


def test_a_query_that_fails_says_why_in_sparks_words(spark: SparkSession, tmp_path: Path) -> None:
    class Raises(Totals):
        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
            raise ValueError("no such sensor")
            yield Row()

    write(tmp_path / "in", "1.json", ("a", 1))
    failing = perseid.transform_with_state(
        lines(spark, tmp_path / "in").groupBy("id"), Raises(), OUTPUT, "Update", "None"
    )
    query = failing.writeStream.format("noop").option("perseid.hosts", 1).start()
    with pytest.raises(StreamingQueryException, match=r"STREAM_FAILED.*no such sensor"):
        query.processAllAvailable()
    assert query.exception() is not None and not query.isActive
    query.stop()


@pytest.mark.parametrize("pandas", [False, True], ids=["row", "pandas"])
def test_a_batch_dataframe_gives_a_batch_dataframe(spark: SparkSession, pandas: bool) -> None:
    start = perseid.transform_with_state_in_pandas if pandas else perseid.transform_with_state
    df = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "id string, n long")
    initial = spark.createDataFrame([("a", 100), ("c", 7)], "id string, first long").groupBy("id")
    processor = TotalsInPandas() if pandas else Totals()
    out = start(df.groupBy("id"), processor, OUTPUT, "Update", "None", initial)
    assert {tuple(row) for row in out.collect()} == {("a", 104), ("b", 2)}


def test_what_cannot_be_done_is_said_before_anything_starts(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", "1.json", ("a", 1))
    df = lines(spark, tmp_path / "in")
    start = perseid.transform_with_state
    with pytest.raises(GraphError, match=r"expected df\.groupBy"):
        start(df, Totals(), OUTPUT, "Update", "None")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expression"):
        start(df.groupBy(F.upper("id")), Totals(), OUTPUT, "Update", "None")
    with pytest.raises(GraphError, match="no watermark"):
        start(df.groupBy("id"), Totals(), OUTPUT, "Update", "EventTime")
    with pytest.raises(GraphError, match="outputMode"):
        start(df.groupBy("id"), Totals(), OUTPUT, "Sometimes", "None")
    with pytest.raises(GraphError, match=r"initialState.*grouped by"):
        start(df.groupBy("id"), Totals(), OUTPUT, "Update", "None", spark.range(3).groupBy("id"))
    totals = start(df.groupBy("id"), Totals(), OUTPUT, "Update", "None")
    with pytest.raises(GraphError, match=r"groupBy.*foreachBatch"):
        totals.groupBy("id")
    with pytest.raises(SettingsError, match=r"delta.*foreachBatch"):
        totals.writeStream.format("delta")
    with pytest.raises(SettingsError, match=r"perseid\.shards"):
        totals.writeStream.format("noop").option("perseid.shard", 2).start()
