"""``auto`` in simulated worlds: the whole engine scales while its streams run, follows what stays, and never swings (S5).

Every world is checked row by row as all others are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from worlds import TestWorld, calm

from perseid.checkpoint.schemes import parallel
from perseid.scaling.bottleneck import AutoScaling
from perseid.simulation.faults import Driver, Fault, FaultPlan, Kill, Pause, Planned
from perseid.simulation.graphs import chain
from perseid.simulation.loads import Load, bursts, falling, rising, waves
from perseid.simulation.scenario import Scenario, Times
from perseid.simulation.site import Site, Target
from perseid.vocabulary import OperatorName

MINUTE_MS = 60_000
O = OperatorName("o0")  # noqa: E741


class ScaledWorld(TestWorld):
    """Remembers every change of the number of shards."""

    __test__ = False

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.changes: list[tuple[int, int, int]] = []  # when, from, to

    def scaled(self, shards: int, before: int) -> None:
        super().scaled(shards, before)
        self.changes.append((self.clock.now_ms, before, shards))

    @property
    def steps(self) -> list[int]:
        return [after - before for _, before, after in self.changes]


def lived_through(
    at: Callable[[int], float],
    *,
    minutes: int,
    seed: int = 0,
    shards: int = 1,
    hosts: int = 2,
    noise: float = 0.03,
    plan: FaultPlan | None = None,
) -> ScaledWorld:
    """An operator on hosts that report every five seconds, with an epoch of about 1.6 s."""
    scenario = calm(chain(1, shards), scheme=parallel(30), seed=seed, epochs=minutes * 60_000 // 1600, hosts=hosts, most_hosts=16,
                    heartbeat_ms=1_000, plan=plan, scalable=frozenset({O}), scaling=AutoScaling())  # fmt: skip
    times = Times(job=(400, 1_200), snapshot=(500, 3_000), restore=(500, 3_000), start=(1_000, 5_000))
    load = Load(O, at, noise)
    world = ScaledWorld(replace(scenario, times=times, load=load, kept=1.0, chunks=1, site=Site(20, rack_machines=4)))
    world.run()
    return world


@pytest.mark.parametrize("seed", range(3))
def test_a_rising_load_is_followed_upwards_only(seed: int) -> None:
    world = lived_through(rising(20 * MINUTE_MS, 6.0), minutes=25, seed=seed)
    assert world.steps and min(world.steps) > 0
    assert world.changes[-1][2] >= 6.0 / 0.75, "and there are enough shards in the end"


@pytest.mark.parametrize("seed", range(3))
def test_a_falling_load_is_followed_downwards_only(seed: int) -> None:
    world = lived_through(falling(20 * MINUTE_MS, 6.0), minutes=30, seed=seed, shards=12, hosts=12)
    assert world.steps and max(world.steps) < 0
    assert world.changes[-1][2] <= 2


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("long_s", [5, 20, 100])
def test_bursts_that_come_again_and_again_are_not_followed_for_ever(seed: int, long_s: int) -> None:
    world = lived_through(bursts(4 * MINUTE_MS, long_s * 1000, 3.0), minutes=90, seed=seed)
    late = [change for change in world.changes if change[0] > 45 * MINUTE_MS]
    assert len(world.changes) <= 30 and len(late) <= 4, world.changes


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_not_followed(seed: int) -> None:
    world = lived_through(lambda _: 1.0, minutes=40, seed=seed, noise=0.2)
    assert len(world.changes) <= 8 and max(world.steps) == 1, world.changes


def test_waves_are_followed_without_chatter() -> None:
    world = lived_through(waves(20 * MINUTE_MS, 5.0), minutes=100)
    turns = sum((a > 0) != (b > 0) for a, b in zip(world.steps, world.steps[1:], strict=False))
    assert 2 <= turns <= 10, "it turns when the load does: twice in each of five waves"


@pytest.mark.parametrize("seed", range(4))
def test_hosts_and_drivers_that_fail_meanwhile_make_it_neither_swing_nor_lose_a_row(seed: int) -> None:
    draw = random.Random(seed)
    faults: list[Fault] = [
        *(Kill(Target("machine", i)) for i in range(8)),
        Pause(Target("rack", 0), 9_000),
        Driver(2_000),
        Kill(Target("everything")),
    ]
    plan = FaultPlan(tuple(Planned(fault, draw.randrange(25 * MINUTE_MS)) for fault in faults))
    world = lived_through(lambda _: 3.0, minutes=40, seed=seed, plan=plan)
    assert sum(world.tally.faults.values()) > 4
    assert len(world.changes) <= 8 and all(change[0] < 30 * MINUTE_MS for change in world.changes), world.changes
    assert world.changes[-1][2] >= 3.0 / 0.75
