"""An application whose code changes between two starts on one root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

import perseid
from perseid import App, GraphChanged, KeyedOperator, Operator, every, migrate, state
from perseid.cli.check import checked
from perseid.storage.kept_state import go_back, kept_state
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints
from perseid.storage.store import Store
from perseid.vocabulary import UnitName

pytestmark = pytest.mark.spark


class Old(KeyedOperator):
    n: int = state(default=0)
    unused: str = state(default="")

    def process_key(self, key: Any, rows: pa.Table) -> Any:
        self.n += rows.num_rows
        yield {"id": key, "n": self.n}


class New(KeyedOperator):
    state_version = 2
    rows: float = state(default=0.0)
    largest: int = state(default=-1)

    @migrate(from_version=1)
    def renamed(fields: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
        return {"rows": fields["n"]}

    def process_key(self, key: Any, rows: pa.Table) -> Any:
        self.rows += rows.num_rows
        self.largest = max(self.largest, pc.max(rows["value"]).as_py())
        yield {"id": key, "n": int(self.rows), "largest": self.largest}


class Broken(New):
    @migrate(from_version=1)
    def renamed(fields: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
        raise KeyError("no such field")


def application(tmp_path: Path, operator: Operator, output: str, rows: int, sink: str = "out") -> App:
    type(operator).__qualname__ = "Count"  # versions of one class
    app = App("counts")
    numbers = app.source("numbers", perseid.sources.generator({"id": "id % 10", "value": "id"}, rows=rows))
    counts = numbers.stateful("count", operator, key="id", shards=2, output=output)
    counts.sink(sink, perseid.sinks.parquet(tmp_path / sink))
    return app


def run(spark: SparkSession, tmp_path: Path, app: App, **settings: Any) -> None:
    app.run(
        spark, root=str(tmp_path / "root"), hosts=1, spares=0, max_rows_per_epoch=100, available_now=True,
        checkpoint=perseid.checkpoints.parallel(every(seconds=1)), **settings,
    )  # fmt: skip


def largest(spark: SparkSession, folder: Path, column: str = "n") -> dict[int, int]:
    rows = spark.read.parquet(str(folder)).groupBy("id").max(column).toDF("id", "n").collect()
    return {row["id"]: row["n"] for row in rows}


@pytest.mark.filterwarnings("ignore:the code has changed")
def test_state_goes_on_under_new_code_and_back_under_the_old(spark: SparkSession, tmp_path: Path) -> None:
    old, new, wide = Old(), New(), "id long, n long, largest long"
    run(spark, tmp_path, application(tmp_path, old, "id long, n long", 500))
    store = Store.at(str(tmp_path / "root"))
    broken = application(tmp_path, Broken(), wide, 1_000)
    assert any(one.refused and "no such field" in one.text for one in checked(store, broken.graph))
    before = [(p, p.stat().st_mtime_ns) for p in sorted((tmp_path / "root" / "checkpoints").rglob("*"))]
    with pytest.raises(GraphChanged, match=r"migration from version 1 raised KeyError"):
        run(spark, tmp_path, broken)
    assert [(p, p.stat().st_mtime_ns) for p in sorted((tmp_path / "root" / "checkpoints").rglob("*"))] == before
    assert kept_state(store) is None
    app = application(tmp_path, new, wide, 1_000)
    assert not any(one.refused for one in checked(store, app.graph))
    with pytest.raises(GraphChanged, match=r"sink 'out' is gone"):
        run(spark, tmp_path, application(tmp_path, new, wide, 1_000, sink="other"))
    run(spark, tmp_path, app)
    out = spark.read.parquet(str(tmp_path / "out")).groupBy("id").max("n").collect()
    assert {row["id"]: row["max(n)"] for row in out} == dict.fromkeys(range(10), 100)
    kept = kept_state(store)
    assert kept is not None and kept.checkpoint in [m.id for m in Checkpoints(store).newest_first()]
    again = application(tmp_path, old, "id long, n long", 1_000)
    assert any("newer than the code" in one.text for one in checked(store, again.graph) if one.refused)
    assert go_back(store, Checkpoints(store)) == kept
    run(spark, tmp_path, again)
    assert kept_state(store) is None


@pytest.mark.filterwarnings("ignore:the code has changed")
def test_a_sink_that_was_named_may_be_replaced(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, application(tmp_path, Old(), "id long, n long", 300))
    other = application(tmp_path, Old(), "id long, n long", 600, sink="other")
    run(spark, tmp_path, other, allow_removed=["out", "other"])
    assert spark.read.parquet(str(tmp_path / "other")).count() == 30


@pytest.mark.filterwarnings("ignore:the code has changed")
def test_only_what_the_way_back_needs_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, application(tmp_path, Old(), "id long, n long", 300), keep=1)
    wide = "id long, n long, largest long"
    for rows in (600, 900, 1_200):
        run(spark, tmp_path, application(tmp_path, New(), wide, rows), keep=1)
    store = Store.at(str(tmp_path / "root"))
    kept, manifests = kept_state(store), list(Checkpoints(store).newest_first())
    assert kept is not None and [m.id for m in manifests[1:]] == [kept.checkpoint], (
        "the newest, and the one that is kept"
    )
    cut = manifests[1].units[UnitName("main")]
    assert Ledger.view(store).trimmed_to == cut and Ledger.view(store).last_admitted >= 12
    go_back(store, Checkpoints(store))
    run(spark, tmp_path, application(tmp_path, Old(), "id long, n long", 1_500), keep=1)
    assert largest(spark, tmp_path / "out") == dict.fromkeys(range(10), 150)
    assert Ledger.view(store).trimmed_to > cut, "nothing is kept any more"


class Total(Operator):
    totals: dict[int, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        for key in rows["id"].to_pylist():
            self.totals[key] = self.totals.get(key, 0) + 1
        return pa.table(
            {"id": list(self.totals), "n": list(self.totals.values())},
            pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        )


@pytest.mark.filterwarnings("ignore:the code has changed")
def test_operators_and_sources_come_and_go_when_they_are_named(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, application(tmp_path, Old(), "id long, n long", 300))
    Old.__qualname__ = "Count"
    app = App("counts")
    numbers = app.source("numbers", perseid.sources.generator({"id": "id % 10", "value": "id"}, rows=600))
    more = app.source("more", perseid.sources.generator({"id": "id % 5", "value": "id"}, rows=200))
    counts = numbers.union(more).stateful("count", Old(), key="id", shards=2, output="id long, n long")
    counts.sink("out", perseid.sinks.parquet(tmp_path / "out"))
    total = counts.stateful("total", Total(), key="id", shards=1, output="id long, n long")
    total.sink("totals", perseid.sinks.parquet(tmp_path / "totals"))
    with pytest.raises(GraphChanged, match=r"source 'more' is new"):
        run(spark, tmp_path, app, allow_removed=["total", "totals"])
    run(spark, tmp_path, app, allow_removed=["total", "totals", "more"])
    assert largest(spark, tmp_path / "out") == {n: 60 + (40 if n < 5 else 0) for n in range(10)}
    assert largest(spark, tmp_path / "totals") == dict.fromkeys(range(10), 3), "its epochs are those since then"
    run(
        spark, tmp_path, application(tmp_path, Old(), "id long, n long", 900), allow_removed=["total", "totals", "more"]
    )
    assert largest(spark, tmp_path / "out") == {n: 90 + (40 if n < 5 else 0) for n in range(10)}


class Counted(StatefulProcessor):
    """A class written for Spark, of which there are versions."""

    def __init__(self, declare: Callable[[Any], Any]) -> None:
        self.declare = declare

    def init(self, handle: Any) -> None:
        self.count = self.declare(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self.count.get()
        n = (before[0] if before else 0) + sum(1 for _ in rows)
        self.count.update((n, *[None] * (len(before or "n") - 1)))
        yield Row(id=key[0], n=n)

    def close(self) -> None: ...


def processed(tmp_path: Path, declare: Callable[[Any], Any], rows: int) -> App:
    return application(tmp_path, perseid.spark_processor(Counted(declare)), "id long, n long", rows)


@pytest.mark.filterwarnings("ignore:the code has changed")
def test_state_variables_of_a_processor_follow_or_are_refused_before_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    run(spark, tmp_path, processed(tmp_path, lambda handle: handle.getValueState("count", "n int"), 300))
    store = Store.at(str(tmp_path / "root"))
    other = processed(tmp_path, lambda handle: handle.getListState("count", "n int"), 600)
    assert any(one.refused and "Cannot change count to ListState" in one.text for one in checked(store, other.graph))
    with pytest.raises(GraphChanged, match="Cannot change count to ListState"):
        run(spark, tmp_path, other)
    assert kept_state(store) is None
    wider = processed(tmp_path, lambda handle: handle.getValueState("count", "n long, told string"), 600)
    found = checked(store, wider.graph)
    assert any("state variable 'count' was" in one.text for one in found) and not any(one.refused for one in found)
    run(spark, tmp_path, wider)
    assert largest(spark, tmp_path / "out") == dict.fromkeys(range(10), 60)
    assert kept_state(store) is not None, "the way back to the earlier version"
