"""Hosts that do not come: the simulated application ends as the real one does, or goes on once they are there."""

from __future__ import annotations

from dataclasses import replace

from worlds import TestWorld, calm

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.simulation.graphs import chain
from perseid.simulation.scenario import Scenario
from perseid.simulation.site import Site
from perseid.simulation.world import World

TIMEOUT_MS = 20_000


class NoHostStarts(TestWorld):
    """Spark cannot run the task of a host until ``from_ms``."""

    def __init__(self, scenario: Scenario, from_ms: int) -> None:
        super().__init__(scenario)
        self.from_ms = from_ms

    def mishap(self, factor: float = 1.0) -> bool:
        return self.clock.now_ms < self.from_ms


def test_a_cluster_without_room_ends_the_application_with_what_to_do() -> None:
    scenario = replace(calm(chain(1), start_timeout_ms=TIMEOUT_MS, slots=1), site=Site(1, rack_machines=2))
    world = TestWorld(scenario)
    assert world.failing() == (
        "only 1 of 2 hosts started within 20 s: every host holds a task slot for good (the cluster has 1);"
        " use a larger master, fewer hosts, or a longer start_timeout"
    )
    assert world.clock.now_ms < TIMEOUT_MS + 5_000
    assert not world.all_of(do.RunEpoch), "nothing had begun"
    while world.clock.step():
        pass
    assert not any(world.processes), "its hosts have ended"


def test_hosts_that_never_start_end_the_application_with_the_reason_and_are_not_asked_for_all_the_time() -> None:
    world = NoHostStarts(calm(chain(1), start_timeout_ms=TIMEOUT_MS), from_ms=1 << 40)
    assert world.failing() == (
        "only 0 of 2 hosts started within 20 s: the last that did not, says: Spark could not run its task"
    )
    failures = world.all_of(on.HostStartFailed)
    assert len(world.all_of(do.StartHost)) == len(failures) <= 3 * 8


def test_hosts_that_start_at_last_are_in_time() -> None:
    world: World = NoHostStarts(calm(chain(1), start_timeout_ms=TIMEOUT_MS), from_ms=TIMEOUT_MS // 2)
    assert world.run().epochs == 30
