"""Loads in a simulation: hosts say what they had to do, and operators are scaled where the engine's bottleneck detector wants it (S5).

What an operator makes its hosts do is a curve over time. Its slots share it evenly, or those of the lower half have ``skew`` times as much;
every report is a little off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.driver.loads import Loads as SeenLoads
from perseid.engine import events as on
from perseid.engine.messages import LoadMeasured, ShardLoad
from perseid.scaling.bottleneck import ScaleProposal
from perseid.scaling.machine import ScaleRequest
from perseid.vocabulary import SLOTS, HostId, OperatorName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

FIRST_NUMBER = 1_000  # of requests; those that somebody asks for have smaller ones


@dataclass(frozen=True, slots=True)
class Load:
    """So many hosts would be busy all the time with what this operator has to do, at a moment in milliseconds."""

    operator: OperatorName
    at: Callable[[int], float]
    noise: float = 0.03
    every_ms: int = 5_000  # between two reports of a host
    skew: float = 1.0

    def weight(self, slot: int) -> float:
        """How much of the work a slot has, in shares of an average one."""
        heavy = 2 * self.skew / (1 + self.skew)
        return heavy if slot < SLOTS // 2 else 2 - heavy


def rising(over_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most * min(1.0, now_ms / over_ms)


def falling(over_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most * max(0.02, 1.0 - now_ms / over_ms)


def bursts(every_ms: int, long_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most if now_ms % every_ms < long_ms else most / 10


def waves(long_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most * (1.05 - math.cos(2 * math.pi * now_ms / long_ms)) / 2.1


class Loads:
    """Reports of one driver's hosts, and the proposals that follow from them."""

    def __init__(self, driver: SimulatedDriver, load: Load) -> None:
        self._driver, self._load, self._asked = driver, load, FIRST_NUMBER
        self._seen = SeenLoads()
        driver.clock.after(load.every_ms, self._report)

    def _report(self) -> None:
        driver, load, now = self._driver, self._load, self._driver.clock.now_ms
        if not driver.alive or driver.stopped is not None:
            return
        work, found = load.at(now), dict[HostId, list[ShardLoad]]()
        for route in driver.controller.routing.of(load.operator):
            if route.host is not None:
                slots = {slot: load.weight(slot) for slot in range(*route.slots)}
                mean = work * sum(slots.values()) / SLOTS
                share = min(1.0, max(0.0, mean + driver.world.random.gauss(0, load.noise)))
                busy_ms = round(share * load.every_ms)
                found.setdefault(route.host, []).append(ShardLoad(route.shard, busy_ms, slots, None, SLOTS))
        for id, shards in found.items():
            host = driver.hosts.all[id]
            if host.alive and host.machine.well(now):
                cpu = min(1.0, sum(shard.busy_ms for shard in shards) / load.every_ms)
                driver.hosts.word(host, LoadMeasured(cpu, load.every_ms, None, tuple(shards)))
        driver.clock.after(load.every_ms, self._report)

    def told(self, host: HostId, measured: LoadMeasured) -> None:
        """A host's report."""
        self._seen.told(measured)
        self._driver.handle(on.LoadReported(self._seen.host_load(host, measured)))

    def ask(self, proposal: ScaleProposal) -> None:
        """As ``driver.scale_requests`` does: by way of the same door as a user's request."""
        self._asked += 1
        slots = self._seen.division(self._driver.controller.routing, proposal.operator, proposal.shards)
        self._driver.tell(on.ScaleRequested(ScaleRequest(self._asked, proposal.operator, slots, proposal.reason)), 1)
