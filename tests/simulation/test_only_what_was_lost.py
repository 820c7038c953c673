"""Units one behind the other, and hosts that die, pause and are cut off, alone and in bursts: only what was lost goes back (S4)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from worlds import TestWorld, calm

from perseid.checkpoint.schemes import parallel
from perseid.engine import notices
from perseid.simulation.faults import CutOff, Fault, FaultPlan, Kill, Pause, Planned
from perseid.simulation.graphs import chain, diamond
from perseid.simulation.scenario import Options, Times, drawn
from perseid.simulation.site import Site, Target
from perseid.vocabulary import OperatorName

SCHEMES = ("source", "parallel", "adaptive")
GRAPHS = (chain(2), chain(3), chain(3, operators=2), diamond(shards=2))


def host_faults(seed: int, site: Site, span_ms: int) -> FaultPlan:
    """Whatever befalls hosts; storage and driver are well."""
    draw = random.Random(seed)
    faults: list[Planned] = []
    for _ in range(draw.randint(1, 8)):
        kind = draw.choice(["machine", "machine", "machine", "rack", "everything"])
        target = Target(kind, draw.randrange({"machine": site.machines, "rack": site.racks}.get(kind, 1)))
        long_ms = draw.choice([30, 300, 2_000])
        kinds: list[Fault] = [Kill(target), Kill(target, long_ms), Pause(target, long_ms), CutOff(target, long_ms)]
        fault = draw.choice(kinds)
        faults.append(Planned(fault, draw.randint(300, span_ms)))
    return FaultPlan(tuple(sorted(faults, key=lambda planned: planned.at_ms or 0)))


def world_of(seed: int, *, scaled: bool) -> TestWorld:
    graph = GRAPHS[seed % len(GRAPHS)]
    drawn_one = drawn(seed, Options(epochs=60, scheme=SCHEMES[seed % len(SCHEMES)]))
    scales = tuple(
        replace(s, operator=random.Random(seed).choice(sorted(graph.operators)))
        for s in (drawn_one.scales if scaled else ())
    )
    # Without second copies: a pair that loses both hosts at once may still take the whole application back.
    settings = replace(drawn_one.settings, scalable=frozenset(graph.operators), scaling=None, standby={})
    faults = host_faults(seed, drawn_one.site, 4_000)
    return TestWorld(
        replace(drawn_one, topology=graph, settings=settings, plan=faults, scales=scales, load=None)
    ).to_the_end()


def plans_after_the_start(world: TestWorld) -> list[tuple[str, str]]:
    """Reason and mode of every recovery but the start, which is one of the whole application."""
    began = world.all_of(notices.RecoveryStarted)
    return [(c.reason, c.plan.name) for c in began if not c.reason.startswith("start")]


@pytest.mark.parametrize("scaled", [False, True])
def test_whatever_happens_to_hosts_only_lost_shards_go_back(scaled: bool, first_seed: int) -> None:
    survive_alone(range(first_seed, first_seed + 30), scaled=scaled)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_in_a_thousand_worlds_only_lost_shards_go_back(batch: int, first_seed: int) -> None:
    first = first_seed + 1_000 + 100 * batch
    survive_alone(range(first, first + 100), scaled=batch % 2 == 1)


def survive_alone(seeds: range, *, scaled: bool) -> None:
    recoveries = recalled = 0
    for seed in seeds:
        world = world_of(seed, scaled=scaled)
        plans = plans_after_the_start(world)
        whole = [reason for reason, mode in plans if mode == "application"]
        assert not whole, f"seed {seed}: the whole application went back: {whole}"
        recoveries += len(plans)
        assert world.driver is not None
        recalled += world.driver.blocks.recalled
    assert recoveries > len(seeds) and recalled > len(seeds), (recoveries, recalled)


@pytest.mark.parametrize("seed", range(6))
def test_a_checkpoint_that_commits_while_a_unit_comes_back_from_the_one_before_takes_nothing_from_it(seed: int) -> None:
    """The unit above goes on, and its hosts let go what the new checkpoint covers: not what the unit below still has to read."""
    times = Times(job=(10, 150), storage=(100, 100), restore=(900, 900), start=(50, 50))
    scenario = calm(chain(3, shards=1), seed=seed, epochs=60, hosts=3, scheme=parallel(0.4), queue=8)
    world = TestWorld(replace(scenario, kept=0.0, times=times))
    killed: list[int] = []

    def kill_while_a_manifest_is_on_its_way() -> None:
        checkpoints, units = world.controller.checkpoints, world.controller.pipeline.units
        behind = units["u1"].finished + 1 < units["u0"].finished
        if checkpoints.committing and checkpoints.newest is not None and behind:
            killed.append(world.clock.now_ms)
            world.kill(world.controller.routing.of(OperatorName("o2"))[0].host)
        else:
            world.clock.after(1, kill_while_a_manifest_is_on_its_way)

    world.later(500, kill_while_a_manifest_is_on_its_way)
    world.to_the_end()
    assert killed and [mode for _, mode in plans_after_the_start(world)] == ["shards"]
