"""Reports of shards that are late or lost: an epoch is not done without them, and they are asked for once more."""

from __future__ import annotations

from collections.abc import Iterator

from worlds import TestWorld, calm

from perseid.engine import events as on
from perseid.engine.messages import Report
from perseid.simulation.graphs import chain
from perseid.simulation.host import Host
from perseid.simulation.reports import SimulatedReports
from perseid.vocabulary import Epoch, OperatorName, ShardId

O0 = OperatorName("o0")
SHARD = ShardId(O0, 0)


class Lossy(SimulatedReports):
    """Loses the first reports of epoch 5 of one shard."""

    losses: Iterator[None]

    def heard(self, host: Host, report: Report) -> None:
        if report.shard == ShardId(O0, 1) and report.epoch == 5 and next(self.losses, 1) is None:
            return
        super().heard(host, report)


def run(losses: int) -> TestWorld:
    world = TestWorld(calm(chain(2), epochs=20))
    world.start_driver()
    assert world.driver is not None
    world.driver.reports = lossy = Lossy(world.driver)
    lossy.losses = iter([None] * losses)
    while not world.done and world.clock.step():
        pass
    world.last_look()
    return world


def test_a_shard_whose_report_was_lost_is_asked_once_more() -> None:
    world = run(1)
    assert world.all_of(on.UnitFailed) == []


def test_an_epoch_without_a_report_of_every_shard_is_run_again() -> None:
    world = run(2)
    (failed,) = world.all_of(on.UnitFailed)
    assert failed.kind == "unreported" and "epoch 5: no report from shards o0/1" in failed.message
    assert world.driver is not None and world.driver.stopped is not None and world.driver.stopped.error is None


def test_a_report_of_a_timer_admits_an_epoch_without_rows() -> None:
    world = TestWorld(calm(chain(1), epochs=3))
    world.start_driver()
    assert world.driver is not None
    world.arrived = lambda source: 0  # type: ignore[method-assign]
    book = world.driver.reports.book
    world.later(2_000, lambda: book.arrived(SHARD, Report(SHARD, Epoch(0), 0, 0, next_timer_ms=2_400)))
    while world.clock.now_ms < 5_000 and not world.all_of(on.EpochAdmitted):
        world.clock.step()
    assert world.all_of(on.EpochAdmitted) and world.clock.now_ms >= 2_400
