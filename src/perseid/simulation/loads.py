"""Loads in a simulation: hosts say what they had to do, and operators are scaled where the engine's bottleneck detector wants it (S5).

What an operator makes its hosts do is a curve over time; its slots share it evenly, and every report is a little off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.engine import events as on
from perseid.scaling.bottleneck import HostLoad, ScaleWish
from perseid.scaling.machine import ScaleRequest
from perseid.scaling.routing import even_slots
from perseid.vocabulary import SLOTS, HostId, OperatorName, ShardId

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


def rising(over_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most * min(1.0, now_ms / over_ms)


def falling(over_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most * max(0.02, 1.0 - now_ms / over_ms)


def bursts(every_ms: int, long_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most if now_ms % every_ms < long_ms else most / 10


def waves(long_ms: int, most: float) -> Callable[[int], float]:
    return lambda now_ms: most * (1.05 - math.cos(2 * math.pi * now_ms / long_ms)) / 2.1


class Loads:
    """Reports of one driver's hosts, and the wishes that follow from them."""

    def __init__(self, driver: SimulatedDriver, load: Load) -> None:
        self._driver, self._load, self._asked = driver, load, FIRST_NUMBER
        driver.clock.after(load.every_ms, self._report)

    def _report(self) -> None:
        driver, load, now = self._driver, self._load, self._driver.clock.now_ms
        if not driver.alive or driver.stopped is not None:
            return
        work, found = load.at(now), dict[HostId, dict[ShardId, float]]()
        for route in driver.controller.routing.of(load.operator):
            if route.host is not None:
                mean = work * (route.slots[1] - route.slots[0]) / SLOTS
                share = min(1.0, max(0.0, mean + driver.world.random.gauss(0, load.noise)))
                found.setdefault(route.host, {})[route.shard] = share
        for id, shares in found.items():
            host = driver.hosts.all[id]
            if host.alive and host.machine.well(now):
                driver.hosts.word(host, on.LoadReported(HostLoad(id, min(1.0, sum(shares.values())), shares)))
        driver.clock.after(load.every_ms, self._report)

    def ask(self, wish: ScaleWish) -> None:
        """As ``driver.scale_requests`` does: by way of the same door as a user's wish."""
        self._asked += 1
        request = ScaleRequest(self._asked, wish.operator, even_slots(wish.shards), wish.reason)
        self._driver.tell(on.ScaleRequested(request), 1)
