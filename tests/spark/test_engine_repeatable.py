"""What comes out otherwise when Spark computes it again is refused before the start, or warned of, by name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App
from perseid.errors import GraphError, PerseidWarning
from perseid.spark.plan_text import doubts_in_text
from perseid.spark.repeatable import Doubts, doubts_of

pytestmark = pytest.mark.spark

Function = Callable[[DataFrame], DataFrame]
BY_KEY = Window.partitionBy


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    df = spark.createDataFrame([], "k long, v string, ts timestamp, a array<int>")
    yield df.select("*", *(F.lit(None).cast("long").alias(f"c{n}") for n in range(40)))


def column(expression: str) -> Function:
    return lambda df: df.withColumn("x", F.expr(expression))


REFUSED: dict[str, tuple[Function, str]] = {
    "now": (column("now()"), "now()"),
    "current_timestamp": (column("date_trunc('day', current_timestamp())"), "current_timestamp()"),
    "unix_timestamp": (column("unix_timestamp()"), "current_timestamp()"),
    "current_time": (column("current_time()"), "current_time()"),
    "curdate": (column("curdate()"), "current_date()"),
    "localtimestamp": (column("localtimestamp()"), "localtimestamp()"),
    "the text 'now' as a timestamp": (column("cast('now' as timestamp)"), "the text 'now' as a timestamp"),
    "random": (column("random()"), "rand()"),
    "rand with a seed": (column("rand(7)"), "rand()"),
    "uuid": (column("uuid()"), "uuid()"),
    "reflect": (column("reflect('java.util.UUID', 'randomUUID')"), "reflect()"),
    "shuffle": (column("shuffle(a)"), "shuffle()"),
    "monotonically_increasing_id": (column("monotonically_increasing_id()"), "monotonically_increasing_id()"),
    "a marked function": (
        lambda df: df.withColumn("x", F.udf(lambda v: v).asNondeterministic()("v")),
        "the function <lambda>, which is marked",
    ),
    "rand in a subquery": (lambda df: df.where("k in (select id from range(9) where rand() > 0.5)"), "rand()"),
    "sampleBy": (lambda df: df.sampleBy("k", {1: 0.5}, seed=1), "rand()"),
    "sample without a seed": (lambda df: df.sample(0.5), "sample() without a seed"),
    "a seed that PySpark does not look at": (
        lambda df: df.sample(0.5, seed=3),  # type: ignore[call-overload]
        "sample() without a seed",
    ),
    "the driver's clock": (
        lambda df: df.withColumn("x", F.lit(datetime.now())),
        "a value that is another one in each call",
    ),
}
WARNED: dict[str, tuple[Function, str]] = {
    "limit": (lambda df: df.limit(3), "limit() without an order"),
    "limit by a constant": (lambda df: df.orderBy(F.lit("k")).limit(3), "limit() without an order"),
    "offset": (lambda df: df.where("k > 1").offset(3), "offset() without an order"),
    "limit after a sort within partitions": (
        lambda df: df.sortWithinPartitions("k").limit(3),
        "limit() without an order",
    ),
    "dropDuplicates by a column": (lambda df: df.repartition(3).dropDuplicates(["k"]), "dropDuplicates() by k only"),
    "first": (lambda df: df.repartition(3).groupBy("k").agg(F.first("v")), "first()"),
    "last": (lambda df: df.groupBy("k").agg(F.upper(F.last("v"))), "last()"),
    "any_value": (lambda df: df.groupBy("k").agg(F.any_value("v")), "any_value()"),
    "collect_list": (lambda df: df.groupBy("k").agg(F.collect_list("v")), "collect_list()"),
    "listagg": (lambda df: df.groupBy("k").agg(F.expr("listagg(v)")), "listagg()"),
    "row_number by a constant": (
        lambda df: df.withColumn("x", F.row_number().over(BY_KEY("k").orderBy(F.lit(1)))),
        "row_number() over a window without an order",
    ),
    "first over a window": (lambda df: df.withColumn("x", F.first("v").over(BY_KEY("k"))), "first() over a window"),
    "sample with a seed": (lambda df: df.sample(fraction=0.5, seed=3), "sample()"),
    "zipWithIndex": (lambda df: df.zipWithIndex(), "zipWithIndex()"),
}
ACCEPTED: dict[str, Function] = {
    "limit after a sort": lambda df: df.orderBy("k").where("k > 2").limit(3),
    "distinct": lambda df: df.select("k", "v").distinct(),
    "dropDuplicates": lambda df: df.select("k", "v").dropDuplicates(["v", "k"]),
    "a sorted array": lambda df: df.groupBy("k").agg(F.sort_array(F.collect_list("v")), F.size(F.collect_set("v"))),
    "listagg in an order": lambda df: df.groupBy("k").agg(F.expr("listagg(v) within group (order by v)")),
    "row_number in an order": lambda df: df.withColumn("x", F.row_number().over(BY_KEY("k").orderBy("ts"))),
    "first in an order": lambda df: df.withColumn("x", F.first("v").over(BY_KEY("k").orderBy("ts"))),
    "functions and aggregates": lambda df: (
        df.withColumn("x", F.udf(lambda v: v)("v")).groupBy("k").agg(F.max("x"), F.max_by("v", "ts"), F.count("*"))
    ),
    "mapInArrow": lambda df: df.select("k").mapInArrow(lambda batches: batches, "k long"),
    "a table": lambda df: df.join(df.sparkSession.createDataFrame([(1, "a")], "k long, w string"), "k"),
    "the file of a row": column("input_file_name()"),
    "who and where": column("concat(current_user(), current_database(), cast(date'2026-01-01' as string), 'rand()')"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_is_refused_by_name(rows: DataFrame, name: str) -> None:
    function, what = REFUSED[name]
    found = doubts_of(function(rows), lambda: function(rows))
    assert len(found.refused) == 1 and found.refused[0].startswith(what), found


@pytest.mark.parametrize("name", WARNED)
def test_what_may_differ_is_warned_of_by_name(rows: DataFrame, name: str) -> None:
    function, what = WARNED[name]
    found = doubts_of(function(rows), lambda: function(rows))
    assert not found.refused and len(found.warned) == 1 and found.warned[0].startswith(what), found


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_the_same_again_is_accepted(rows: DataFrame, name: str) -> None:
    function = ACCEPTED[name]
    assert doubts_of(function(rows), lambda: function(rows)) == Doubts()


def test_the_text_of_a_plan_tells_most_of_it_where_the_plan_is_out_of_reach(rows: DataFrame) -> None:
    """As on Spark Connect: not what only the plan has, how functions are marked and what the driver puts in."""
    unseen = {"a marked function", "the driver's clock", "the text 'now' as a timestamp"}
    before = rows.sparkSession.conf.get("spark.sql.debug.maxToStringFields")
    for name, (function, _) in REFUSED.items():
        assert doubts_in_text(function(rows))[0] or name in unseen, name
    for name in ("limit", "first", "any_value", "collect_list", "dropDuplicates by a column"):
        assert doubts_in_text(WARNED[name][0](rows)) != ((), ()), name
    for name in ("limit after a sort", "a sorted array", "functions and aggregates", "a table"):
        assert doubts_in_text(ACCEPTED[name](rows)) == ((), ()), name
    assert rows.sparkSession.conf.get("spark.sql.debug.maxToStringFields") == before


def test_every_transform_and_combine_that_cannot_be_repeated_is_named_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = App("counts")
    numbers = app.source("numbers", apps.numbers(100))
    numbers.transform("stamp", column("now()")).sink("one", perseid.sinks.noop())
    numbers.transform("draw", lambda df: df.withColumn("x", F.rand())).sink("two", perseid.sinks.noop())
    numbers.stateful(
        "count", apps.Count(), key="key", combine={"at": "max(current_timestamp())"}, output=apps.COUNTED
    ).sink("out", perseid.sinks.noop())
    with pytest.raises(GraphError) as caught:
        app.start(spark, root=str(tmp_path / "root"), hosts=1, spares=0)
    message = str(caught.value)
    assert "transform 'stamp' uses now(); use the epoch's: write function(df, epoch) and epoch.time_ms" in message
    assert "transform 'draw' uses rand()" in message
    assert "operator 'count', combine= uses current_timestamp()" in message
    assert len(caught.value.mistakes) == 3


def test_warnings_are_given_once_and_stand_in_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    class Forgetful(apps.Count):
        seen: dict[int, int] = {}

        def process(self, rows: pa.Table) -> pa.Table:
            self.n = getattr(self, "n", 0) + rows.num_rows
            return apps.Count.process(self, rows)

    app = App("counts")
    some = app.source("numbers", apps.numbers(100)).transform("some", lambda df: df.limit(1_000))
    counted = some.stateful("count", Forgetful(), key="key", shards=2, output=apps.COUNTED)
    counted.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        running = app.start(spark, root=str(tmp_path / "root"), hosts=2, spares=0)
        assert running.wait(300)
    told = [str(w.message) for w in caught if issubclass(w.category, PerseidWarning)]
    assert [text.partition(":")[0] for text in told[1:]] == ["operator 'count'"] * 2
    limit, seen, n = told
    assert limit.startswith("transform 'some' uses limit() without an order")
    assert (
        "the attribute 'seen' is one dict for all shards" in seen and "seen: dict = state(default_factory=dict)" in seen
    )
    assert "the attribute 'n' changes while it works" in n and "n: int = state(default=0)" in n
    noted = [entry["message"] for entry in apps.journal_of(tmp_path / "root") if entry["kind"] == "warning"]
    assert [text for text in noted if text in told] == told
    apps.check_counts(str(tmp_path / "out"), 100)
