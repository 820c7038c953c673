"""The controller in a calm world where one thing goes wrong: what it decides, and what the sinks hold."""

from __future__ import annotations

import pytest
from worlds import TestWorld, calm, kill_all, stop

from perseid.checkpoint.schemes import parallel, source
from perseid.engine import commands as do
from perseid.engine import notices
from perseid.recovery.plan import ApplicationRecovery, ShardRecovery
from perseid.simulation.graphs import chain, diamond
from perseid.simulation.jobs import JobFailed
from perseid.vocabulary import OperatorName, ShardId

TOPOLOGIES = {
    "one unit": chain(1),
    "stacked operators": chain(1, operators=3),
    "two units, transient": chain(2, preservation="transient"),
    "three units, retained": chain(3, preservation="retained"),
    "three units, durable": chain(3, shards=1, preservation="durable"),
    "diamond": diamond(),
}
SCHEMES = {"parallel": parallel(0.4), "source": source(0.4)}


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_epoch_reaches_the_sink_once_when_nothing_fails(topology: str, scheme: str) -> None:
    world = TestWorld(calm(TOPOLOGIES[topology], scheme=SCHEMES[scheme])).to_the_end()
    units = len(TOPOLOGIES[topology].units)
    assert len(world.root.sinks) == 30 * units
    assert world.tally.epochs == 30 * units, "no epoch was run twice"
    assert world.tally.checkpoints > 1
    assert len(world.all_of(notices.RecoveryStarted)) == 1, "the start"


def test_one_burst_leads_to_one_recovery() -> None:
    world = TestWorld(calm(chain(1), epochs=40, hosts=3, spares=0))
    world.later(1500, lambda: kill_all(world))
    world.to_the_end()
    assert len(world.all_of(notices.RecoveryStarted)) == 2, "the start and the burst"


def test_a_lost_spare_is_replaced_and_nothing_else_happens() -> None:
    world = TestWorld(calm(chain(1), epochs=40, hosts=2, spares=1))

    def kill_spare() -> None:
        world.kill(next(h for h in world.controller.hosts if not world.controller.routing.shards_on(h)))

    world.later(1500, kill_spare)
    world.to_the_end()
    assert len(world.all_of(notices.RecoveryStarted)) == 1
    assert len(world.all_of(do.StartHost)) == 4


def test_only_lost_shards_go_back_when_their_input_can_be_read_again() -> None:
    world = TestWorld(calm(chain(1, shards=4), epochs=80, hosts=2, spares=1))
    world.later(2000, lambda: world.kill(world.controller.routing.of(OperatorName("o0"))[0].host))
    world.to_the_end()
    plans = [c.plan for c in world.all_of(notices.RecoveryStarted)]
    assert isinstance(plans[1], ShardRecovery) and len(plans[1].shards) == 2


def test_the_application_goes_back_when_a_transient_stream_was_lost() -> None:
    world = TestWorld(calm(chain(2, preservation="transient"), epochs=80, hosts=2, spares=1))
    world.later(2000, lambda: world.kill(world.controller.routing.of(OperatorName("o1"))[0].host))
    world.to_the_end()
    plans = [c.plan for c in world.all_of(notices.RecoveryStarted)]
    assert isinstance(plans[1], ApplicationRecovery)


def test_an_operator_that_keeps_raising_stops_the_application() -> None:
    scenario = calm(chain(1), epochs=20)
    bad = (ShardId(OperatorName("o0"), 0),)
    world = TestWorld(scenario, spoil=lambda c: JobFailed("operator", "boom", (), bad) if c.epoch == 7 else None)
    assert world.failing() == "boom"
    assert max(epoch for _, epoch in world.root.sinks) == 6


def test_a_mistake_in_an_operator_is_not_tried_again() -> None:
    bad = (ShardId(OperatorName("o0"), 0),)
    world = TestWorld(
        calm(chain(1), epochs=20), spoil=lambda c: JobFailed("mistake", "boom", (), bad) if c.epoch == 7 else None
    )
    assert world.failing() == "boom"
    assert [c.epoch for c in world.all_of(do.RunEpoch)].count(7) == 1


def test_nothing_is_admitted_past_a_stop() -> None:
    world = TestWorld(calm(chain(2), epochs=10_000))
    world.later(1500, lambda: stop(world))
    world.start_driver()
    while not world.done:
        world.clock.step()
    finished = {u: s.finished for u, s in world.controller.pipeline.units.items()}
    assert set(finished.values()) == {world.controller.pipeline.admitted}
    assert world.root.manifests[max(world.root.manifests)].cuts == finished, "the last checkpoint covers everything"


def test_a_slow_unit_stops_the_one_before_only_when_the_queue_is_full() -> None:
    ahead: list[int] = []

    class Slow(TestWorld):
        def epoch_finished(self, unit, epoch):  # type: ignore[no-untyped-def]
            super().epoch_finished(unit, epoch)
            ahead.append(self.driver.finished["u0"] - self.driver.finished["u1"])  # type: ignore[union-attr,index]

    world = Slow(calm(chain(2), epochs=40, queue=3))
    attempts: dict[int, int] = {}

    def spoil(command: do.RunEpoch) -> JobFailed | None:  # the lower unit is tried twice every time
        if command.unit != "u1":
            return None
        attempts[command.epoch] = attempts.get(command.epoch, 0) + 1
        return JobFailed("other", "not yet") if attempts[command.epoch] == 1 else None

    world.spoil = spoil
    world.to_the_end()
    assert max(ahead) == 3
