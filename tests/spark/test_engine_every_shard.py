"""Every shard takes part in every epoch, whatever is in it and whatever Spark's optimiser makes of the plan."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from witness import LAST_KEY, OUTPUT, Pairs, Passed, Row, Slices, Witness

import perseid
from perseid import App, every

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

KEYS = 7
STATIC_KEYS = [0, 1, 2, 3, LAST_KEY]
RULES = "org.apache.spark.sql.catalyst.optimizer."
Transform = tuple[str, Callable[[SparkSession, DataFrame], DataFrame], Callable[[list[Row]], list[Row]]]


def _static(spark: SparkSession, keys: list[int]) -> DataFrame:
    return spark.createDataFrame([(key,) for key in keys], "key long")


def _aggregated(rows: list[Row]) -> list[Row]:
    by_key = {key: [row for row in rows if row[0] == key] for key, _, _ in rows}
    return [(key, sum(r[1] for r in group), max(r[2] for r in group)) for key, group in by_key.items()]


TRANSFORMS: list[Transform] = [
    ("filter", lambda _, df: df.where("value % 3 != 0"), lambda rows: [r for r in rows if r[1] % 3 != 0]),
    ("no-row", lambda _, df: df.where("value < 0"), lambda rows: []),
    (
        "join",
        lambda spark, df: df.join(_static(spark, STATIC_KEYS), "key"),
        lambda rows: [r for r in rows if r[0] in STATIC_KEYS],
    ),
    ("join-with-nothing", lambda spark, df: df.join(_static(spark, []), "key", "left_anti"), lambda rows: rows),
    ("union", lambda _, df: df.union(df), lambda rows: rows + rows),
    (
        "aggregate",
        lambda _, df: df.groupBy("key").agg(F.sum("value").alias("value"), F.max("at").alias("at")),
        _aggregated,
    ),
    (
        "explode",
        lambda _, df: df.select("key", "value", "at", F.explode(F.array(F.lit(1), F.lit(2)))).drop("col"),
        lambda rows: rows + rows,
    ),
    ("distinct", lambda _, df: df.distinct(), lambda rows: list(set(rows))),
    ("limit", lambda _, df: df.orderBy("at", "key", "value").limit(30), lambda rows: _first(rows, 30)),
]
BEHIND: dict[str, Callable[[SparkSession, DataFrame], DataFrame]] = {
    "as it is": lambda _, df: df,
    "no row": lambda _, df: df.where("n < 0"),
    "join with nothing": lambda spark, df: df.join(_static(spark, []), "key"),
    "one": lambda _, df: df.coalesce(1),
}
SETTINGS: dict[str, list[str | None]] = {
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.shuffle.partitions": ["1", "3"],
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": ["true", "false"],
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": ["64MB", "10b"],
    "spark.sql.autoBroadcastJoinThreshold": ["10MB", "-1"],
    "spark.sql.optimizer.excludedRules": [
        None,
        ",".join(RULES + rule for rule in ("PropagateEmptyRelation", "ConvertToLocalRelation")),
        ",".join(RULES + rule for rule in ("EliminateLimits", "ColumnPruning", "CollapseRepartition", "CombineUnions")),
    ],
    "spark.sql.adaptive.optimizer.excludedRules": [
        None,
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    ],
}


def _first(rows: list[Row], many: int) -> list[Row]:
    return sorted(rows, key=lambda row: (row[2], row[0], row[1]))[:many]


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[[dict[str, str | None]], None]]:
    """Sets SQL settings of the session, until the test is over."""
    kept: dict[str, str | None] = {}

    def put(chosen: dict[str, str | None]) -> None:
        for name, value in chosen.items():
            kept.setdefault(name, spark.conf.get(name, None))
            _set(name, value)

    def _set(name: str, value: str | None) -> None:
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)

    yield put
    for name, value in kept.items():
        _set(name, value)


def _slices(chance: random.Random) -> list[list[Row]]:
    """Empty slices, slices of a row and full ones; event time goes on from each to the next, and ends with the last but two."""
    slices: list[list[Row]] = []
    for epoch in range(4):
        many = chance.choice([0, 0, 1, 40])
        slices.append(
            [(chance.randrange(KEYS), chance.randrange(1, 50), 10 * epoch + chance.randrange(9)) for _ in range(many)]
        )
    chance.shuffle(slices)
    slices = [[(key, value, 10 * epoch + at % 10) for key, value, at in rows] for epoch, rows in enumerate(slices)]
    return [*slices, [(LAST_KEY, 1, 1_000_000)], [], []]


def _expected(slices: list[list[Row]]) -> Counter[tuple[str, int, int, int]]:
    told: Counter[tuple[str, int, int, int]] = Counter()
    seen: dict[int, tuple[int, int]] = {}
    for rows in slices:
        for key in {row[0] for row in rows}:
            mine = [row for row in rows if row[0] == key]
            n, value = seen.get(key, (0, 0))
            seen[key] = (n + len(mine), value + sum(row[1] for row in mine))
            told[("rows", key, *seen[key])] += 1
    rung = [key for key in seen if key != LAST_KEY]
    by_event_time = rung if LAST_KEY in seen else []
    told.update(("processing", key, 0, 0) for key in rung)
    told.update(("event", key, 0, 0) for key in by_event_time)
    return told


def _run(spark: SparkSession, app: App, root: Path, **more: Any) -> None:
    clock = itertools.count(1_000)
    running = app.start(spark, root=str(root), hosts=1, spares=0, clock=lambda: next(clock), **more)
    try:
        assert running.wait(300)
    finally:
        running.stop()


def _check(seed: int, spark: SparkSession, settings: Any, root: Path) -> None:
    chance = random.Random(seed)
    chosen = {name: chance.choice(values) for name, values in SETTINGS.items()}
    steps = chance.sample(TRANSFORMS, chance.randrange(1, 4))
    behind = chance.choice(list(BEHIND))
    slices = _slices(chance)
    settings(chosen)
    app = App("seen")
    stream = app.source("slices", Slices(slices))
    for name, of_spark, _ in steps:
        stream = stream.transform(name, lambda df, f=of_spark: f(spark, df).select("key", "value", "at"))
    told = stream.stateful(
        "witness",
        Witness(),
        key="key",
        shards=2,
        output=OUTPUT,
        event_time=perseid.event_time("at", delay=every(milliseconds=1)),
    )
    kept = told.transform("behind", lambda df: BEHIND[behind](spark, df).select("what", "key", "n", "value"))
    passed = kept.stateful("passed", Passed(), key="key", shards=3, output=OUTPUT)
    found: list[dict[str, Any]] = []
    theirs = chance.random() < 0.6  # the whole epoch is then planned in this very session
    sink = perseid.sinks.foreach(lambda epoch, df: found.extend(df.toArrow().to_pylist())) if theirs else None
    memory = perseid.sinks.memory()
    passed.sink("out", sink or memory)
    _run(spark, app, root)
    for _, _, in_python in steps:
        slices = [in_python(rows) for rows in slices]
    expected = _expected(slices) if behind in ("as it is", "one") else Counter()
    rows = found if theirs else memory.rows()
    if "event" not in {what for what, *_ in expected}:  # the end of the input may ring, too
        rows = [row for row in rows if row["what"] != "event"]
    assert Counter((r["what"], r["key"], r["n"], r["value"]) for r in rows) == expected, (
        f"seed {seed}: {[name for name, _, _ in steps]}, behind: {behind}, foreach: {theirs}, {chosen}"
    )


@pytest.mark.parametrize("seed", range(1))
def test_whatever_the_transforms_and_settings_every_row_and_timer_is_seen(
    seed: int, spark: SparkSession, settings: Any, tmp_path: Path
) -> None:
    _check(seed, spark, settings, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, *range(100, 160)])
def test_many_transforms_and_settings(seed: int, spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    _check(seed, spark, settings, tmp_path)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_timers_of_a_quiet_stream_with_a_filter_fire(
    adaptive: str, spark: SparkSession, settings: Any, tmp_path: Path
) -> None:
    settings({"spark.sql.adaptive.enabled": adaptive})
    rows: list[Row] = [(key, 1, 0) for key in range(10)]
    app = App("quiet")
    out = perseid.sinks.memory()
    stream = app.source("slices", Slices([rows, [], [], []])).transform("some", lambda df: df.where("value > 0"))
    stream.stateful("witness", Witness(), key="key", shards=2, output=OUTPUT).sink("out", out)
    _run(spark, app, tmp_path)
    assert sorted(row["key"] for row in out.rows() if row["what"] == "processing") == list(range(10))


def test_two_inputs_and_combined_rows_go_through_empty_epochs_under_adaptive_execution(
    spark: SparkSession, settings: Any, tmp_path: Path
) -> None:
    settings({"spark.sql.adaptive.enabled": "true"})
    app = App("two")
    left = app.source("left", Slices([[(1, 1, 0), (2, 1, 0)], [], [(1, 1, 0)], []]))
    right = app.source("right", Slices([[(1, 1, 0)], [], [], []])).transform("some", lambda df: df.where("value > 0"))
    pairs = app.stateful(
        "pairs", Pairs(), inputs={"left": left, "right": right}, key="key", shards=2, output="key long, n long"
    )
    sums = pairs.stateful("sums", Passed(), key="key", shards=2, output="key long, n long", combine={"n": "sum(n)"})
    found: list[tuple[int, int, int]] = []

    def look(epoch: int, df: DataFrame) -> None:
        found.extend((epoch, row["key"], row["n"]) for row in df.toArrow().to_pylist())

    sums.sink("out", perseid.sinks.foreach(look))
    _run(spark, app, tmp_path)
    assert sorted(found) == [(1, 1, 2), (1, 2, 1), (3, 1, 3)]


def test_a_shard_is_known_by_its_rows_not_by_the_number_of_its_task(spark: SparkSession, tmp_path: Path) -> None:
    """A union behind the operator counts tasks otherwise, and a sink with one file puts all shards into one task."""
    slices: list[list[Row]] = [[(key, 1, 0) for key in range(20)], []]
    app = App("united")
    source = app.source("slices", Slices(slices))
    plain = source.transform("plain", lambda df: df.selectExpr("'plain' what", "key", "1L n", "value"))
    told = source.stateful("witness", Witness(), key="key", shards=3, output=OUTPUT)
    told.sink("told", perseid.sinks.parquet(tmp_path / "told", files=1))
    united = plain.union(told, name="both")
    out = perseid.sinks.memory()
    united.stateful("passed", Passed(), key="key", shards=2, output=OUTPUT).sink("out", out)
    _run(spark, app, tmp_path / "root")
    rows = [(what, key) for what in ("plain", "processing", "rows") for key in range(20)]
    assert sorted((row["what"], row["key"]) for row in out.rows() if row["what"] != "event") == sorted(rows)
    written = spark.read.parquet(str(tmp_path / "told")).where("what = 'rows'").collect()
    assert sorted((row.key, row.n) for row in written) == [(key, 1) for key in range(20)]


def test_an_operator_whose_output_nobody_looks_at_sees_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    app = App("unseen")
    looked: list[int] = []

    def look_later(epoch: int, df: DataFrame) -> None:
        if epoch > 2:
            looked.extend(row["n"] for row in df.toArrow().to_pylist() if row["what"] == "rows")

    told = app.source("slices", Slices([[(1, 1, 0)]] * 3)).stateful(
        "witness", Witness(), key="key", shards=2, output=OUTPUT
    )
    told.sink("out", perseid.sinks.foreach(look_later))
    _run(spark, app, tmp_path)
    assert looked == [3]
