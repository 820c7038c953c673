"""The place where it all runs: machines in racks, racks on power domains.

Hosts are processes on machines. A machine that is down, cut off, asleep or slow makes every process on it so.

Invariant: every machine is in one rack, every rack on one power domain.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from perseid.errors import UnknownFault
from perseid.simulation.disk import Disk

TARGETS = ("machine", "rack", "power", "everything")


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a fault hits: ``machine 3``, ``rack 1``, ``power 0``, ``everything``."""

    kind: str
    number: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "everything" else f"{self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class Site:
    """How many machines there are, and how they hang together."""

    machines: int
    rack_machines: int = 8
    power_racks: int = 2

    @property
    def racks(self) -> int:
        return -(-self.machines // self.rack_machines)

    @property
    def powers(self) -> int:
        return -(-self.racks // self.power_racks)

    def hit(self, target: Target) -> range:
        """The machines of a target. Raises ``UnknownFault`` if there is no such target."""
        sizes = {"machine": 1, "rack": self.rack_machines, "power": self.rack_machines * self.power_racks}
        if target.kind == "everything":
            return range(self.machines)
        if target.kind not in sizes:
            raise UnknownFault(f"no target {target.kind!r}: expected one of {', '.join(TARGETS)}")
        size = sizes[target.kind]
        first = target.number * size
        if target.number < 0 or first >= self.machines:
            raise UnknownFault(f"no {target}: the site has {-(-self.machines // size)} of them, counted from 0")
        return range(first, min(first + size, self.machines))


def lasting(ms: float, now_ms: int, *slow: tuple[float, int]) -> int:
    """How long takes what usually takes so long, begun now, where things are slow: each so many times, until then."""
    if all(until <= now_ms for _, until in slow):  # as nearly always
        return int(ms)
    at, left = float(now_ms), ms
    for until_ms in sorted({until for _, until in slow if until > now_ms}):
        pace = math.prod(times for times, until in slow if until >= until_ms)
        if left * pace <= until_ms - at:
            return int(at + left * pace) - now_ms
        left -= (until_ms - at) / pace
        at = until_ms
    return int(at + left) - now_ms


@dataclass(slots=True)
class Machine:
    """One machine as it is now; each field says until when."""

    number: int
    down_ms: int = 0
    cut_off_ms: int = 0  # no message gets in or out
    asleep_ms: int = 0  # its processes do nothing, and go on later as if nothing had been
    slow_ms: int = 0
    slowness: float = 1.0
    wiped_ms: int = -1  # when it last lost all it had in memory
    disk: Disk = field(default_factory=Disk)

    well_ms: int = 0  # the latest of the first three: from then on it is there again

    def pace(self, now_ms: int) -> float:
        """How many times longer than usual things take here."""
        return self.slowness if now_ms < self.slow_ms else 1.0

    @property
    def slow(self) -> tuple[float, int]:
        """How many times slower than usual it is, and until when (see ``lasting``)."""
        return self.slowness, self.slow_ms

    @property
    def deaf_until_ms(self) -> int:
        """Until then its processes hear nothing."""
        return max(self.asleep_ms, self.cut_off_ms)

    def well(self, now_ms: int) -> bool:
        return now_ms >= self.well_ms

    def away(self) -> None:
        """Something of it has changed: when will it be there again?"""
        self.well_ms = max(self.down_ms, self.cut_off_ms, self.asleep_ms)


class Room:
    """Where another process fits: on the emptiest machine that is up and can be reached, of those the first."""

    def __init__(self, machines: list[Machine], slots: int) -> None:
        self._machines, self._slots = machines, slots  # slots: processes that fit on a machine
        self._held = [0] * len(machines)
        self._order = [(0, machine.number) for machine in machines]  # the emptiest first

    def emptiest(self, now_ms: int) -> Machine | None:
        for held, number in self._order:
            if held >= self._slots:
                return None
            machine = self._machines[number]
            if now_ms >= machine.down_ms and now_ms >= machine.cut_off_ms:
                return machine
        return None

    def taken(self, machine: Machine, more: int) -> None:
        """There are so many more processes on it, or fewer."""
        number = machine.number
        del self._order[bisect_left(self._order, (self._held[number], number))]
        self._held[number] += more
        insort(self._order, (self._held[number], number))
