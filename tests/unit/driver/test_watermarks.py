"""Watermarks of several inputs: none before each has rows, idle ones left out, never back, the same when an epoch is run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import perseid
from perseid import App, Operator, every
from perseid.driver.reports import Report
from perseid.driver.watermarks import EventTimes, inputs_of_sources
from perseid.graph.graph import Graph
from perseid.operators.event_time import END_OF_TIME_MS
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted, Committed
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, UnitName

MAIN, JOIN = UnitName("main"), OperatorName("join")


class Join(Operator):
    def process(self, left, right):
        return None


def graph_of(idle_after: perseid.Duration | None = None) -> Graph:
    app = App("join")
    left = app.source("l", perseid.sources.generator({"id": "id", "at": "id"}))
    right = app.source("r", perseid.sources.generator({"id": "id", "at": "id"}))
    time = perseid.event_time("at", delay=every(seconds=1), idle_after=idle_after)
    joined = app.stateful(
        "join", Join(), {"left": left.transform("t", lambda df: df), "right": right}, key="id", output="n long",
        event_time=time,
    )  # fmt: skip
    joined.sink("out", perseid.sinks.noop())
    return app.graph


class Run:
    """Epochs of one unit, without Spark: what its shard would report, and the ledger."""

    def __init__(self, graph: Graph, store: Store, now_ms: Callable[[], int]) -> None:
        self.lease = Lease.acquire(store, owner="test", now_ms=now_ms, timeout=every(milliseconds=1))
        self.ledger = Ledger.open(store, self.lease)
        self.times = EventTimes(graph, self.ledger, {"join": ("left", "right")})
        self.times.idle(now_ms(), quiet=True)

    def epoch(self, at_ms: int, *, last: bool = False, **newest: int) -> int | None:
        """The watermark of the next epoch, admitted at that time; then it runs and shows these event times."""
        epoch = Epoch(self.ledger.last_admitted + 1)
        idle = () if last else self.times.idle(at_ms, quiet=True)
        admitted = Admitted(epoch, at_ms, {}, idle, last)
        self.ledger.append(admitted)
        mark = self.times.watermark_ms(JOIN, epoch)
        report = Report(ShardId(JOIN, 0), epoch, 0, 0, event_times_ms=newest)
        self.times.finished(MAIN, admitted, {ShardId(JOIN, 0): report})
        self.ledger.append(Committed(epoch, MAIN, self.times.of_epoch(MAIN, epoch)))
        return mark


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Run]:
    store = Store.at(str(tmp_path))
    return lambda graph, at_ms=0: Run(graph, store, lambda: at_ms)


def test_an_input_that_had_no_rows_yet_holds_the_watermark_back(start: Callable[..., Run]) -> None:
    run = start(graph_of())
    assert run.epoch(0, left=50_000) is None
    assert run.epoch(10**9, left=60_000) is None  # however long it takes
    assert run.times.next_watermarks_ms() == {}
    assert run.epoch(10**9, right=20_000) is None
    assert run.epoch(10**9) == 19_000


def test_an_idle_input_is_left_out_comes_back_and_never_turns_the_watermark_back(start: Callable[..., Run]) -> None:
    run = start(graph_of(every(seconds=30)))
    marks = [
        run.epoch(0, left=50_000),
        run.epoch(29_999, left=60_000),  # not yet idle
        run.epoch(30_000, left=70_000),  # right has had no rows for 30 s
        run.epoch(31_000, right=10_000),  # it comes back, far behind
        run.epoch(32_000, left=90_000),  # both count again, and the watermark stays
        run.epoch(33_000, right=95_000),
        run.epoch(80_000),  # both are idle: nothing to wait for
    ]
    assert marks == [None, None, 59_000, 69_000, 69_000, 69_000, 94_000]
    again = start(graph_of(every(seconds=30)), 10**9)  # another driver, much later: the ledger decides
    assert [again.times.watermark_ms(JOIN, Epoch(n)) for n in range(1, 8)] == marks
    run.lease.release()


def test_while_epochs_run_an_input_is_not_idle_because_they_take_long(start: Callable[..., Run]) -> None:
    run = start(graph_of(every(seconds=30)))
    run.epoch(0, left=50_000, right=50_000)
    assert run.times.idle(100_000, quiet=False) == ()
    assert run.times.idle(100_000, quiet=True) == ("join.left", "join.right")
    run.epoch(31_000, left=60_000)
    assert run.times.idle(100_000, quiet=False) == ("join.right",)


def test_the_last_epoch_is_at_the_end_of_time_and_so_are_all_after_it(start: Callable[..., Run]) -> None:
    run = start(graph_of())
    run.epoch(0, left=50_000, right=50_000)
    assert run.times.next_watermarks_ms() == {"join": 49_000}
    assert not run.ledger.ended and run.epoch(1, last=True) == END_OF_TIME_MS
    assert run.ledger.ended and run.times.next_watermarks_ms() == {}  # a timer set there makes no further epoch
    assert run.epoch(2, left=60_000) == END_OF_TIME_MS
    run.ledger.trim(Epoch(3))
    again = start(graph_of(), 10**9)
    assert again.ledger.ended and again.epoch(10**9) == END_OF_TIME_MS


class Pass(Operator):
    def process(self, rows):
        return None


def test_an_input_tells_of_its_source_if_it_has_rows_of_no_other() -> None:
    app = App("u")
    a, b, c = (app.source(n, perseid.sources.generator({"id": "id", "at": "id"})) for n in "abc")
    time = perseid.event_time("at", delay=every(seconds=1))
    for name, rows in (("both", a.union(b)), ("one", c.transform("t", lambda df: df))):
        rows.stateful(name, Pass(), key="id", output="n long", event_time=time).sink(f"o-{name}", perseid.sinks.noop())
    assert inputs_of_sources(app.graph, {"both": ("rows",), "one": ("rows",)}) == {"c": ("one.rows",)}
