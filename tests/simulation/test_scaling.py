"""Operators are scaled while their streams run: what the controller decides, whatever fails at whatever step (S3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import TestWorld, calm, stop

from perseid.checkpoint.schemes import adaptive, baseline, parallel, source
from perseid.engine import commands as do
from perseid.engine import notices
from perseid.recovery.plan import ShardRecovery
from perseid.simulation.faults import Driver, FaultPlan, Planned, Storage
from perseid.simulation.graphs import chain, diamond
from perseid.simulation.scenario import Scale, Scenario
from perseid.simulation.site import Site
from perseid.vocabulary import OperatorName

TOPOLOGIES = {
    "one unit": (chain(1), "o0"),
    "stacked, the lower": (chain(1, operators=3), "o0b"),
    "stacked, the upper": (chain(1, operators=3), "o0a"),
    "behind a transient stream": (chain(2, preservation="transient"), "o1"),
    "behind a retained stream": (chain(2, preservation="retained"), "o1"),
    "behind a durable stream": (chain(3, preservation="durable"), "o2"),
    "before a transient stream": (chain(2, preservation="transient"), "o0"),
    "diamond": (diamond(shards=2), "od"),
}
SCHEMES = {"parallel": parallel(0.4), "source": source(0.4), "adaptive": adaptive(0.4), "baseline": baseline(0.4)}


def scaled(topology: Any, operator: str, *steps: tuple[int, int], **more: Any) -> Scenario:
    """A calm world in which an operator is asked to have so many shards, at such moments."""
    scales = tuple(Scale(at_ms, OperatorName(operator), shards) for at_ms, shards in steps)
    scheme = more.pop("scheme", parallel(0.4))
    given = {"epochs": 150, "hosts": 2, "spares": 1, "most_hosts": 8, "keep": 2, **more}
    world = calm(scheme.preserved(topology), scheme=scheme, **given)
    return replace(world, scales=scales, kept=1.0, site=Site(12, rack_machines=2))


@pytest.mark.parametrize("shape", TOPOLOGIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_operator_grows_and_shrinks_and_no_row_is_lost(shape: str, scheme: str) -> None:
    topology, operator = TOPOLOGIES[shape]
    world = TestWorld(scaled(topology, operator, (1_000, 4), (4_000, 1), scheme=SCHEMES[scheme])).to_the_end()
    assert [(c.before, len(c.request.slots)) for c in world.all_of(notices.Scaled)] == [(2, 4), (4, 1)]
    assert len(world.all_of(notices.RecoveryStarted)) == 1, "the start: nothing went back"
    assert world.tally.epochs == 150 * len(topology.units), "no epoch was run twice"


def test_new_shards_have_hosts_of_their_own_and_hosts_without_shards_go() -> None:
    world = TestWorld(scaled(chain(1), "o0", (1_000, 4), (5_000, 2), epochs=250))
    seen: list[int] = []
    world.later(4_500, lambda: seen.append(len({r.host for r in world.controller.routing.of(OperatorName("o0"))})))
    world.to_the_end()
    assert seen == [4]
    assert len(world.controller.hosts) == 3 and len(world.all_of(do.ReleaseHost)) > 0


def test_the_unit_stands_still_only_for_the_last_epochs() -> None:
    world = TestWorld(scaled(chain(1, shards=4), "o0", (1_500, 8))).to_the_end()
    (ended,) = world.all_of(notices.Scaled)
    assert ended.pause_ms < 100 < ended.duration_ms


def test_a_host_that_dies_while_it_prepares_new_shards_costs_the_attempt_and_nothing_else() -> None:
    world = TestWorld(scaled(chain(1), "o0", (1_000, 4)))
    killed: list[int] = []

    def strike() -> None:
        scaling = world.controller.scaling
        if not killed and scaling is not None and scaling.phase == "preparing":
            killed.append(max(scaling.hosts))
            world.kill(max(scaling.hosts))

    for at_ms in range(1_000, 3_000, 5):
        world.later(at_ms, strike)
    world.to_the_end()
    assert killed
    (given_up,) = world.all_of(notices.ScaleGivenUp)
    assert given_up.again and "died" in given_up.reason
    assert len(world.all_of(notices.RecoveryStarted)) == 1, "no shard of the operator was lost"
    assert len(world.all_of(notices.Scaled)) == 1, "the second attempt"


@pytest.mark.parametrize("moment_ms", range(1_000, 2_400, 100))
def test_a_driver_that_dies_at_any_step_leaves_the_old_shards_or_the_new_ones(moment_ms: int) -> None:
    plan = FaultPlan((Planned(Driver(500), moment_ms),))
    world = TestWorld(scaled(chain(2, preservation="retained"), "o1", (1_000, 4), plan=plan)).to_the_end()
    assert world.tally.drivers == 2
    written = world.root.ledger.partitioned.get(OperatorName("o1"))
    count = len(world.controller.routing.of(OperatorName("o1")))
    assert count == (len(written.shards) if written is not None else 2)


def test_a_ledger_that_cannot_be_written_keeps_the_old_shards_until_it_can() -> None:
    plan = FaultPlan((Planned(Storage("failing", 3_000), 1_250),))
    world = TestWorld(scaled(chain(1), "o0", (1_000, 4), plan=plan, epochs=300)).to_the_end()
    assert all(c.again for c in world.all_of(notices.ScaleGivenUp))
    assert len(world.all_of(notices.Scaled)) == 1


def test_an_application_that_stops_while_an_operator_is_scaled_says_so_and_stops() -> None:
    world = TestWorld(scaled(chain(1), "o0", (1_000, 4), epochs=100_000))
    world.later(1_020, lambda: stop(world))
    world.start_driver()
    while not world.done and world.clock.step():
        assert world.clock.now_ms < 60_000
    (given_up,) = world.all_of(notices.ScaleGivenUp)
    assert not given_up.again and "stopping" in given_up.reason


def test_a_second_wish_is_refused_while_the_first_is_on_its_way() -> None:
    world = TestWorld(scaled(chain(1, operators=2), "o0a", (1_000, 4), (1_001, 3))).to_the_end()
    (refused,) = world.all_of(notices.ScaleGivenUp)
    assert "is being scaled" in refused.reason and not refused.again
    assert [len(c.request.slots) for c in world.all_of(notices.Scaled)] == [4]


def test_a_wish_for_what_there_is_already_is_granted_at_once() -> None:
    world = TestWorld(scaled(chain(1), "o0", (1_000, 2))).to_the_end()
    (ended,) = world.all_of(notices.Scaled)
    assert (ended.before, ended.pause_ms) == (2, 0) and not world.all_of(do.WritePartition)


def test_what_kept_input_cannot_do_is_replayed_beside_the_units_own_epochs() -> None:
    world = TestWorld(replace(scaled(chain(1), "o0", (1_000, 4)), kept=0.0)).to_the_end()
    assert world.all_of(do.ReplayShards) and len(world.all_of(notices.Scaled)) == 1


def test_a_host_lost_after_a_scale_comes_back_from_what_other_shards_had_saved() -> None:
    world = TestWorld(scaled(chain(1), "o0", (1_000, 4), scheme=parallel(60.0)))
    done: list[int] = []

    def strike() -> None:
        if not done and world.all_of(notices.Scaled):
            route = world.controller.routing.of(OperatorName("o0"))[1]
            done.append(route.shard.index)
            world.kill(route.host)

    for at_ms in range(1_000, 3_000, 2):
        world.later(at_ms, strike)
    world.to_the_end()
    plan = world.all_of(notices.RecoveryStarted)[-1].plan
    (parts,) = plan.shards.values()
    assert isinstance(plan, ShardRecovery) and any(part.slots != part.snapshot.slots for part in parts)


def test_a_lost_shard_comes_back_as_several_on_as_many_hosts() -> None:
    scenario = scaled(chain(1), "o0", scheme=parallel(60.0), parallel_recovery=2, hosts=3)
    scenario = replace(scenario, settings=replace(scenario.settings, scalable=frozenset({OperatorName("o0")})))
    world = TestWorld(scenario)
    world.later(1_500, lambda: world.kill(world.controller.routing.of(OperatorName("o0"))[0].host))
    world.to_the_end()
    plan = world.all_of(notices.RecoveryStarted)[-1].plan
    assert isinstance(plan, ShardRecovery) and [shard.index for shard in plan.shards] == [2, 3]
    (written,) = world.all_of(do.WritePartition)
    assert written.shards == ((2, (0, 64)), (3, (64, 128)), (1, (128, 256)))
    homes = [route.host for route in world.controller.routing.of(OperatorName("o0"))]
    assert len(set(homes)) == 3
    restored = [c for c in world.all_of(do.RestoreShards) if c.before]
    assert [route.shard.index for c in restored for route in c.before] == [0, 0]


def test_a_division_of_what_is_lost_is_written_down_before_it_counts() -> None:
    """The ledger is out of reach while the shards come back: the recovery waits for it."""
    plan = FaultPlan((Planned(Storage("failing", 2_000), 1_560),))
    scenario = scaled(chain(1), "o0", scheme=parallel(60.0), parallel_recovery=2, hosts=3, plan=plan, epochs=250)
    scenario = replace(scenario, settings=replace(scenario.settings, scalable=frozenset({OperatorName("o0")})))
    world = TestWorld(scenario)
    world.later(1_500, lambda: world.kill(world.controller.routing.of(OperatorName("o0"))[0].host))
    world.to_the_end()
    assert len(world.root.ledger.partitioned[OperatorName("o0")].shards) == 3
