"""The controller in a small world of its own: whatever fails, the sinks hold what they hold when nothing fails."""

from __future__ import annotations

import pytest
from world import World, chain, diamond

from perseid.checkpoint.schemes import parallel, source
from perseid.engine import commands as do
from perseid.engine import events as on

TOPOLOGIES = {
    "one unit": chain(1),
    "two units": chain(2),
    "three units, retained": chain(3, preservation="retained"),
    "three units, durable": chain(3, shards=1, preservation="durable"),
    "diamond": diamond(),
}
SCHEMES = {"parallel": parallel(0.4), "source": source(0.4)}


def expected(world: World) -> dict[object, object]:
    return World(world.topology, epochs=world.epochs, seed=999).run().sinks  # type: ignore[return-value]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_epoch_reaches_the_sink_once_when_nothing_fails(topology: str, scheme: str) -> None:
    world = World(TOPOLOGIES[topology], scheme=SCHEMES[scheme]).run()
    assert world.stopped == do.StopApplication(None)
    assert {epoch for _, epoch in world.sinks} == set(range(1, 31))
    assert world.manifests, "no checkpoint was completed"
    assert world.sinks == expected(world)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(25))
def test_output_is_the_same_whatever_hosts_die(topology: str, scheme: str, seed: int) -> None:
    world = World(TOPOLOGIES[topology], scheme=SCHEMES[scheme], seed=seed, epochs=60, faults=8.0, corrupt=0.05).run()
    assert world.stopped == do.StopApplication(None), world.stopped
    assert world.kills > 0
    assert world.sinks == expected(world)


def test_one_burst_leads_to_one_recovery() -> None:
    world = World(chain(1), epochs=40, hosts=3, spares=0)
    world.later(1500, lambda: [world.kill(h) for h, host in list(world.hosts.items()) if host.alive])
    world.run()
    began = [c for _, c in world.log if isinstance(c, do.RecoveryBegan)]
    assert len(began) == 2, "the start and the burst"


def test_a_lost_spare_is_replaced_and_nothing_else_happens() -> None:
    world = World(chain(1), epochs=40, hosts=2, spares=1)

    def kill_spare() -> None:
        spare = next(h for h in world.hosts if not world.controller.routing.shards_on(h))
        world.kill(spare)

    world.later(1500, kill_spare)
    world.run()
    assert len([c for _, c in world.log if isinstance(c, do.RecoveryBegan)]) == 1
    assert len([c for _, c in world.log if isinstance(c, do.StartHost)]) == 4


def test_only_lost_shards_go_back_when_their_input_can_be_read_again() -> None:
    world = World(chain(1, shards=4), epochs=60, hosts=2, spares=1)
    world.later(2500, lambda: world.kill(min(h for h in world.hosts if world.controller.routing.shards_on(h))))
    world.run()
    plans = [c.plan for _, c in world.log if isinstance(c, do.RecoveryBegan)]
    assert plans[1].mode == "shards" and len(plans[1].shards) == 2
    assert world.sinks == expected(world)


def test_the_application_goes_back_when_a_transient_stream_was_lost() -> None:
    world = World(chain(2), epochs=60, hosts=2, spares=1)
    world.later(2500, lambda: world.kill(world.controller.routing.of("o1")[0].host))  # type: ignore[arg-type]
    world.run()
    plans = [c.plan for _, c in world.log if isinstance(c, do.RecoveryBegan)]
    assert plans[1].mode == "application"
    assert world.sinks == expected(world)


def test_an_operator_that_keeps_raising_stops_the_application() -> None:
    world = World(chain(1), epochs=20)
    original = world._start

    def start(command: do.RunEpoch) -> None:
        if command.epoch == 7:
            shard = world.topology.unit(command.unit).shards[0]
            failed = on.UnitFailed(command.unit, command.epoch, command.attempt, "operator", "boom", (), (shard,))
            world.tell(failed, 5)
        else:
            original(command)

    world._start = start  # type: ignore[method-assign]
    world.run()
    assert world.stopped == do.StopApplication("boom")
    assert max(epoch for _, epoch in world.sinks) == 6


def test_nothing_is_admitted_past_a_stop() -> None:
    world = World(chain(2), epochs=10_000)
    world.later(1500, on.StopRequested())
    world.run()
    finished = {u: s.finished for u, s in world.controller.pipeline.units.items()}
    assert set(finished.values()) == {world.controller.pipeline.admitted}
    assert world.manifests[max(world.manifests)].cuts == finished, "the last checkpoint covers everything"


def test_a_slow_unit_stops_the_one_before_only_when_the_queue_is_full() -> None:
    world = World(chain(2), epochs=40, queue=3)
    ahead: list[int] = []
    original = world._finished

    def finished(command: do.RunEpoch, answers: dict) -> None:  # type: ignore[type-arg]
        units = world.controller.pipeline.units
        ahead.append(units["u0"].finished - units["u1"].finished)  # type: ignore[index]
        world.later(200 if command.unit == "u1" else 0, lambda: original(command, answers))

    world._finished = finished  # type: ignore[method-assign]
    world.run()
    assert max(ahead) == 3
