"""Small worlds for tests: nothing goes wrong in them but what a test lets go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perseid.checkpoint.schemes import Scheme, parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.settings import EngineSettings
from perseid.graph.topology import Topology
from perseid.simulation.faults import FaultPlan
from perseid.simulation.inject import kill_machine
from perseid.simulation.jobs import JobFailed
from perseid.simulation.scenario import Scenario
from perseid.simulation.site import Site
from perseid.simulation.world import Engine, World
from perseid.vocabulary import HostId

Spoil = Callable[[do.RunEpoch], JobFailed | None]


def calm(topology: Topology, *, scheme: Scheme | None = None, seed: int = 0, epochs: int = 30, hosts: int = 2,
         spares: int = 1, plan: FaultPlan | None = None, **settings: Any) -> Scenario:  # fmt: skip
    """A scenario in which nothing goes wrong that the plan does not say."""
    engine = EngineSettings(scheme or parallel(0.5), hosts=hosts, spares=spares, **settings)
    place = Site(hosts + spares + 2, rack_machines=2)
    return Scenario(seed, topology, engine, place, epochs, plan or FaultPlan(), slots=1, mishaps=0.0)


class TestWorld(World):
    """A world with an eye on what was commanded, and a hand for what goes wrong."""

    __test__ = False

    def __init__(self, scenario: Scenario, engine: Engine | None = None, spoil: Spoil | None = None) -> None:
        super().__init__(scenario, engine)
        self.spoil = spoil

    def spoiled(self, command: do.RunEpoch) -> JobFailed | None:
        return self.spoil(command) if self.spoil is not None else None

    def to_the_end(self) -> TestWorld:
        self.run()
        return self

    def failing(self) -> str:
        """To the end, which is an error: the error."""
        self.start_driver()
        while not self.done and self.clock.step():
            assert self.clock.now_ms < 1_000_000, "it neither ends nor fails"
        assert self.driver is not None and self.driver.stopped is not None and self.driver.stopped.error is not None
        return self.driver.stopped.error

    @property
    def controller(self) -> Any:
        assert self.driver is not None
        return self.driver.controller

    def all_of(self, *kinds: type) -> list[Any]:
        """Every event and command of these kinds, in order."""
        return [what for _, _, what in self.log if isinstance(what, kinds)]

    def kill(self, host: HostId) -> None:
        assert self.driver is not None
        kill_machine(self, self.driver.hosts.all[host].machine, 0)

    def later(self, ms: int, action: Callable[[], Any]) -> None:
        self.clock.at(ms, action)


def kill_all(world: TestWorld) -> None:
    """All hosts that the controller knows die at once."""
    for host in sorted(world.controller.hosts):
        world.kill(host)


def stop(world: TestWorld) -> None:
    """Somebody asks the application to stop, if its driver lives."""
    if world.driver is not None:
        world.driver.handle(on.StopRequested())
