"""A unit's jobs: what becomes of an epoch, and what the controller is told when it fails or is taken back."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps
from witness import Slices

import perseid
from perseid import App, every
from perseid.driver.reports import Reports
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.stream_store import StreamStore
from perseid.engine.unit_job import Cancelled
from perseid.scaling.routing import RoutingTable
from perseid.spark.compile import compile_graph
from perseid.spark.frames import EpochFrames, Frames
from perseid.spark.shape import topology_of
from perseid.spark.streams import SparkStreamRows
from perseid.spark.unit_worker import UnitWorker
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted
from perseid.storage.store import Store
from perseid.vocabulary import Attempt, Epoch, Offset, SourceName, UnitName

pytestmark = pytest.mark.spark

TABLE = RoutingTable.initial({})
TIMEOUT = every(seconds=1)


class Unit:
    """A unit without operators, whose slices of one row each are in the ledger, and its worker."""

    def __init__(self, spark: SparkSession, app: App, path: Path) -> None:
        self.now_ms = 0
        self.store = Store.at(str(path))
        self.lease = self.acquired("test")
        self.ledger = Ledger.open(self.store, self.lease)
        graph = app.graph
        for node in graph.sources:
            node.source.open(spark, "sources", self.store)
        for sink in graph.sinks:
            sink.sink.open(spark, self.store)
        for epoch in range(1, 4):
            slices = {SourceName(s.name): (Offset(epoch - 1), Offset(epoch)) for s in graph.sources}
            self.ledger.append(Admitted(Epoch(epoch), 1_000 * epoch, slices))
        self.compiled = compile_graph(spark, spark, graph)
        topology, (unit,) = topology_of(graph), graph.units
        self.name = UnitName(unit.name)

        def never(*_: Any) -> DataFrame:
            raise AssertionError("there are no hosts")

        self.streams = StreamStore({}, SparkStreamRows(spark, self.store, self.compiled.schemas, never))
        self.frames = Frames(
            spark, spark, graph, unit, self.compiled, b"", self.streams.read, lambda operator, epoch: None
        )
        self.events: queue.Queue[on.Event] = queue.Queue()
        self.finished: list[Admitted] = []
        self.worker = UnitWorker(
            spark, graph, unit, topology.unit(self.name), topology.retaining, self.frames, self.streams, self.ledger,
            self.lease, Reports(), dict, self.events.put, lambda unit, admitted, reports: self.finished.append(admitted),
            lambda source, epoch, aside: None,
        )  # fmt: skip

    def acquired(self, owner: str) -> Lease:
        return Lease.acquire(self.store, owner=owner, now_ms=lambda: self.now_ms, timeout=TIMEOUT)

    def submit(self, epoch: int, attempt: int) -> Attempt:
        command = do.RunEpoch(self.name, Epoch(epoch), Attempt(attempt), TABLE, Epoch(0), Epoch(0))
        self.worker.submit(command)
        return command.attempt

    def told(self) -> on.Event:
        return self.events.get(timeout=apps.WAIT_S)

    def epoch_frames(self, epoch: int) -> EpochFrames:
        admitted = self.ledger.admitted(Epoch(epoch))
        assert admitted is not None
        return self.frames.epoch(admitted, TABLE, {}, release={})


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    units: list[Unit] = []

    def make(app: App) -> Unit:
        units.append(Unit(spark, app, tmp_path / "root"))
        return units[-1]

    yield make
    for unit in units:
        unit.worker.stop()
        unit.worker.join(apps.WAIT_S)


def numbers(app: App) -> perseid.Stream:
    return app.source("numbers", Slices([[(n, 10 * n, 0)] for n in (1, 2, 3)]))


def test_an_epoch_goes_to_the_sinks_once_however_often_it_is_run(made: Any) -> None:
    out, app = perseid.sinks.memory(), App("once")
    numbers(app).transform("some", lambda df: df.select("key", "value")).sink("out", out)
    unit = made(app)
    for attempt, epoch in enumerate((1, 2, 2, 3), 1):
        unit.submit(epoch, attempt)
        assert unit.told() == on.UnitFinished(unit.name, Epoch(epoch), Attempt(attempt))
    assert [(row["key"], row["value"]) for row in out.rows()] == [(1, 10), (2, 20), (3, 30)]
    assert [admitted.epoch for admitted in unit.finished] == [1, 2, 2, 3]


def test_a_job_that_is_taken_back_before_it_begins_writes_nothing(made: Any) -> None:
    seen: list[int] = []
    app = App("cancelled")

    def look(epoch: int, df: DataFrame) -> None:
        seen.append(epoch)
        if epoch == 1:  # the second one waits for this one
            unit.worker.cancel(Attempt(2))
        df.collect()

    numbers(app).sink("out", perseid.sinks.foreach(look))
    unit = made(app)
    unit.submit(1, 1)
    second = unit.submit(2, 2)
    assert isinstance(unit.told(), on.UnitFinished)
    failed = unit.told()
    assert isinstance(failed, on.UnitFailed) and (failed.kind, failed.attempt) == ("cancelled", second)
    unit.submit(3, 3)
    assert isinstance(unit.told(), on.UnitFinished), "nobody has taken this one back"
    assert seen == [1, 3] and not unit.worker.is_at(second)


def test_a_failure_is_told_with_its_unit_epoch_and_kind(made: Any) -> None:
    app = App("fails")

    def fail(epoch: int, df: DataFrame) -> None:
        if epoch == 1:
            raise OSError(28, "No space left on device")
        df.selectExpr("raise_error('no such luck')" if epoch == 2 else "1 / (value - value)").collect()

    numbers(app).sink("out", perseid.sinks.foreach(fail))
    unit = made(app)
    told = []
    for epoch in (1, 2, 3):
        unit.submit(epoch, epoch)
        failed = unit.told()
        assert isinstance(failed, on.UnitFailed) and failed.epoch == epoch
        told.append(failed.message)
        assert failed.kind == {1: "storage", 2: "other", 3: "mistake"}[epoch], failed
    assert "unit 'main', epoch 1: OSError: " in told[0] and "no such luck" in told[1]


def test_a_driver_that_was_replaced_writes_to_no_sink(made: Any) -> None:
    out, app = perseid.sinks.memory(), App("replaced")
    numbers(app).sink("out", out)
    unit = made(app)
    unit.now_ms += 10 * TIMEOUT.ms
    unit.lease.release()
    unit.acquired("another")
    unit.submit(1, 1)
    failed = unit.told()
    assert isinstance(failed, on.UnitFailed) and failed.kind == "fenced"
    assert not out.rows()


def test_the_frames_of_an_epoch_are_built_once_and_know_their_epoch(made: Any) -> None:
    app, told = App("frames"), []

    def look(df: DataFrame, epoch: perseid.EpochInfo) -> DataFrame:
        told.append((epoch.number, epoch.time_ms))
        return df.select("key")

    some = numbers(app).transform("looked", look)
    some.union(some.transform("again", lambda df: df)).sink("out", perseid.sinks.noop())
    unit = made(app)
    told.clear()  # when it was compiled
    frames = unit.epoch_frames(2)
    assert frames.node("looked") is frames.node("looked")
    assert [row.key for row in frames.node(app.graph.sinks[0].inputs[0]).collect()] == [2, 2]
    assert told == [(2, 2_000)]
    assert frames.mapped("looked") is None, "no host is asked for it"


def test_planning_stops_when_the_epoch_is_taken_back(made: Any) -> None:
    app = App("stops")
    numbers(app).transform("one", lambda df: df).sink("out", perseid.sinks.noop())
    frames = made(app).epoch_frames(1)

    def taken_back() -> None:
        raise Cancelled

    frames.check = taken_back
    with pytest.raises(Cancelled):
        frames.node("one")
