"""Ready operators on Spark, with AQE: the same results as Spark's own of all rows at once, also with several shards and a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import perseid
from perseid import App, GraphError, agg, every, testing
from perseid.testing import at

pytestmark = pytest.mark.spark

ROWS = 3_000
COLUMNS = {
    "k": "if(id % 11 = 0, null, concat('key', id * 7 % 13))",
    "at": "timestamp_millis(id * 20 + (id * 37 % 5) * 100)",
    "amount": "cast(id * 31 % 97 as int)",
    "price": "cast(id % 50 as decimal(8, 2)) / 4",
    "word": "if(id % 5 = 0, null, substring('abcdefgh', cast(id % 8 as int) + 1, 1))",
}
EVENT_TIME = perseid.event_time("at", delay=every(seconds=1))
VALUES = {
    "n": agg.count(), "some": agg.count("word"), "total": agg.sum("amount"), "money": agg.sum("price"),
    "mean": agg.mean("amount"), "low": agg.min("word"), "high": agg.max("at"), "kinds": agg.distinct("word"),
}  # fmt: skip
MEDIAN = {"median": agg.quantile("amount", 0.5), "width": agg.function(len, "amount", type=pa.int32())}
SPARKS = {
    "n": "count(*)", "some": "count(word)", "total": "sum(amount)", "money": "sum(price)", "mean": "avg(amount)",
    "low": "min(word)", "high": "max(at)", "kinds": "count(distinct word)", "median": "percentile(amount, 0.5)",
    "width": "cast(count(amount) as int)",
}  # fmt: skip


@pytest.fixture(autouse=True)
def adaptive_execution(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", "false")


def source(rows: int = ROWS) -> Any:
    return perseid.sources.generator(COLUMNS, rows=rows)


def batch(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS).selectExpr(*(f"{expression} as {name}" for name, expression in COLUMNS.items()))


def run(app: App, spark: SparkSession, root: Path, **more: Any) -> None:
    app.run(spark, root=str(root), hosts=2, spares=0, max_rows_per_epoch=700, **more)


def told(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder, partitioning=None).to_pylist()


def same(found: list[dict[str, Any]], expected: DataFrame) -> None:
    assert found and Counter(map(repr, map(_sorted, found))) == Counter(
        map(repr, map(_sorted, expected.toArrow().to_pylist()))
    )


def _sorted(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted((name, value.timestamp() if hasattr(value, "timestamp") else value) for name, value in row.items())


def test_aggregates_by_window_and_of_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    app = App("aggregates")
    rows = app.source("rows", source())
    windows = {"tens": perseid.tumbling(seconds=10), "sliding": perseid.sliding(seconds=10, every=every(seconds=4))}
    for name, window in windows.items():
        made = rows.aggregate(name, key="k", values=VALUES | MEDIAN, window=window, event_time=EVENT_TIME, shards=2)
        made.sink(f"{name}-out", perseid.sinks.parquet(str(tmp_path / name)))
    rows.aggregate("running", key="k", values=VALUES, shards=2).sink(
        "out", perseid.sinks.parquet(str(tmp_path / "running"))
    )
    run(app, spark, tmp_path / "root")
    df = batch(spark)
    for name, slide in (("tens", "10 seconds"), ("sliding", "4 seconds")):
        grouped = df.groupBy("k", F.window("at", "10 seconds", slide).alias("w"))
        expected = grouped.agg(*(F.expr(text).alias(column) for column, text in SPARKS.items()))
        same(told(tmp_path / name), expected.selectExpr("k", "w.start window_start", "w.end window_end", *SPARKS))
    last: dict[Any, dict[str, Any]] = {}
    for row in sorted(told(tmp_path / "running"), key=lambda row: row["n"]):
        last[row["k"]] = row
    same(list(last.values()), df.groupBy("k").agg(*(F.expr(SPARKS[column]).alias(column) for column in VALUES)))


def test_sessions_over_a_restart_with_more_shards(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    df = batch(spark).where("amount < 30")

    def sessions(shards: int) -> App:
        app = App("sessions")
        rows = app.source("rows", perseid.sources.files(str(tmp_path / "in"), schema=df.schema))
        made = rows.aggregate(
            "sessions", key="k", values=VALUES | MEDIAN, window=perseid.session(gap=every(seconds=1)), event_time=EVENT_TIME, shards=shards,
        )  # fmt: skip
        made.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
        return app

    for number in range(2):
        half = df.where(f"at {'<' if number == 0 else '>='} timestamp_millis(30000)").orderBy("at").toArrow()
        pq.write_table(half, tmp_path / "in" / f"{number}.parquet")
        run(sessions(2 + number), spark, tmp_path / "root", available_now=True, close_windows_at_end=number == 1)
    grouped = df.groupBy("k", F.session_window("at", "1 second").alias("w"))
    expected = grouped.agg(*(F.expr(text).alias(column) for column, text in SPARKS.items()))
    same(told(tmp_path / "out"), expected.selectExpr("k", "w.start window_start", "w.end window_end", *SPARKS))


def test_rows_once_the_best_of_them_and_pairs(spark: SparkSession, tmp_path: Path) -> None:
    app = App("rows")
    rows = app.source("rows", source())
    wide = perseid.event_time("at", delay=every(seconds=10))  # nothing is late, in whatever order rows come
    once = rows.deduplicate("once", key="k", within=every(hours=1), event_time=wide, shards=2)
    best = rows.top_k(
        "best", 2, key="k", by="amount", window=perseid.tumbling(seconds=10), event_time=EVENT_TIME, shards=2
    )
    few = rows.transform("few", lambda df: df.selectExpr("k as name", "at", "amount as other").where("amount % 10 = 0"))
    pairs = rows.join(
        "pairs",
        few,
        key={"left": "k", "right": "name"},
        within=every(seconds=1),
        how="outer",
        event_time=wide,
        shards=2,
    )
    newest = rows.as_of("newest", few, key={"left": "k", "right": "name"}, event_time=wide, shards=2)
    latest = rows.lookup("latest", few, key={"left": "k", "right": "name"}, shards=2)
    of_rows = {"nth": agg.count(), "so_far": agg.sum("amount")}
    counted = rows.running("counted", key="k", values=of_rows, shards=2)
    in_order = rows.sort("in-order", key="k", event_time=EVENT_TIME)
    parts = rows.split("by", {"small": "amount < 10", "word": "word = 'b'"})
    for name, stream in {"counted": counted, "in-order": in_order, **parts}.items():
        stream.sink(f"{name}-out", perseid.sinks.parquet(str(tmp_path / name)))
    for name, stream in {"once": once, "best": best, "pairs": pairs, "newest": newest, "latest": latest}.items():
        stream.sink(f"{name}-out", perseid.sinks.parquet(str(tmp_path / name)))
    run(app, spark, tmp_path / "root")
    df = batch(spark)
    assert sorted(str(row["k"]) for row in told(tmp_path / "once")) == sorted(
        {str(row.k) for row in df.select("k").collect()}
    )
    ranked = F.row_number().over(Window.partitionBy("k", "w").orderBy(F.desc("amount"), "id"))
    ids = spark.range(ROWS).selectExpr("id", *(f"{expression} as {name}" for name, expression in COLUMNS.items()))
    expected = ids.withColumn("w", F.window("at", "10 seconds")).withColumn("rank", ranked).where("rank <= 2")
    same(told(tmp_path / "best"),
         expected.selectExpr("k", "w.start window_start", "w.end window_end", "rank", "at", "amount", "price", "word"))  # fmt: skip
    others = df.selectExpr("k as name", "at as at_right", "amount as other").where("other % 10 = 0")
    close = "k = name and abs(unix_millis(at) - unix_millis(at_right)) <= 1000"
    joined = df.join(others, F.expr(close), "outer")
    same(
        told(tmp_path / "pairs"),
        joined.selectExpr("coalesce(k, name) k", "at", "amount", "price", "word", "at_right", "other"),
    )
    earlier = others.groupBy("name", "at_right").agg(F.first("other").alias("other"))
    before = ids.join(earlier, F.expr("(k <=> name) and at_right <= at"), "left")
    nth = F.row_number().over(Window.partitionBy("id").orderBy(F.desc("at_right")))
    newest_of = before.withColumn("nth", nth).where("nth = 1")
    same(told(tmp_path / "newest"), newest_of.select("k", "at", "amount", "price", "word", "at_right", "other"))
    assert len(told(tmp_path / "latest")) == ROWS
    so_far = Window.partitionBy("k").orderBy("id")
    running = ids.withColumn("nth", F.count("*").over(so_far)).withColumn("so_far", F.sum("amount").over(so_far))
    same(told(tmp_path / "counted"), running.drop("id"))
    same(told(tmp_path / "in-order"), df)
    same(told(tmp_path / "small"), df.where("amount < 10"))
    same(told(tmp_path / "word"), df.where("amount >= 10 and word = 'b'"))


@pytest.mark.parametrize("standby", ["none", "hybrid"])
def test_the_same_comes_out_when_hosts_are_killed(spark: SparkSession, tmp_path: Path, standby: Any) -> None:
    """Two units, so that one of them goes back alone; the order of rows is looked at by the second."""
    app = App("killed")
    rows = app.source("rows", source())
    tens = rows.aggregate(
        "tens", key="k", values=VALUES | MEDIAN, window=perseid.tumbling(seconds=10), event_time=EVENT_TIME, shards=2, standby=standby,
    )  # fmt: skip
    tens.sink("out", perseid.sinks.parquet(str(tmp_path / "tens")))
    again = tens.transform(
        "again", lambda df: df.selectExpr("n % 3 as third", "window_end as at", "total"), unit="second"
    )
    last = again.running("last", key="third", values={"nth": agg.count(), "sum": agg.sum("total")})
    last.sink("last-out", perseid.sinks.parquet(str(tmp_path / "last")))
    scheme = perseid.checkpoints.parallel(every(seconds=1))
    plan = [at(epoch=5).kill(host=0), at(epoch=12).kill(host=1)]
    testing.run(
        app, plan, root=tmp_path / "root", spark=spark, hosts=2, spares=1, max_rows_per_epoch=150, checkpoint=scheme
    )
    grouped = batch(spark).groupBy("k", F.window("at", "10 seconds").alias("w"))
    expected = grouped.agg(*(F.expr(text).alias(column) for column, text in SPARKS.items()))
    same(told(tmp_path / "tens"), expected.selectExpr("k", "w.start window_start", "w.end window_end", *SPARKS))
    found = told(tmp_path / "last")
    assert len(found) == expected.count()
    for third in {row["third"] for row in found}:
        mine = sorted((row for row in found if row["third"] == third), key=lambda row: row["nth"])
        assert [row["nth"] for row in mine] == list(range(1, len(mine) + 1))
        assert [row["sum"] for row in mine] == list(accumulate(row["total"] for row in mine))


def test_a_column_that_does_not_suit_is_refused_before_the_start(spark: SparkSession, tmp_path: Path) -> None:
    app = App("refused")
    made = app.source("rows", source()).aggregate("sums", key="k", values={"s": agg.sum("word"), "n": agg.count()})
    made.sink("out", perseid.sinks.noop())
    with pytest.raises(
        GraphError, match=r"operator 'sums': values\['s'\]: sum\('word'\): column 'word' has type string"
    ):
        run(app, spark, tmp_path / "root")
