"""The failure model of a commodity data center: table I of the Meteor Shower paper, as faults for a site of 2,400 nodes and a year (X4).

The table counts node failures per 100 nodes and year (AFN100): network above 300, environment 100 to 150, "ooops" (software,
people, unknown) about 100, disk 1.7 to 8.6, memory 1.3. For the network the paper says how they come about: a year has one
rewiring (5 % of the nodes), twenty rack failures (80 nodes for 1 to 6 hours), five unsteady racks (half of the packets lost), fifteen
router failures and eight maintenances (10 % of the nodes each): 7,640 node failures. For the environment it names power, heat
and maintenance; here these are outages of power domains. The rest hits single nodes.

Invariant: scaled to any site and time, the expected node failures per 100 nodes and year stay those of the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from perseid.simulation.faults import CutOff, Fault, FaultPlan, Kill, Planned, Slow
from perseid.simulation.site import Site, Target

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_DAYS = 365
NODES = 2400
RACK_NODES = 80
POWER_RACKS = 5


@dataclass(frozen=True, slots=True)
class Cause:
    """One line of the table: how often a year at 2,400 nodes, how many nodes each time, what happens to them."""

    name: str
    source: str  # the table's row
    per_year: float
    nodes: int
    happens: Callable[[random.Random, Target], Fault]


def _cut_off(low_ms: int, high_ms: int) -> Callable[[random.Random, Target], Fault]:
    return lambda draw, target: CutOff(target, draw.randint(low_ms, high_ms))


def _down(low_ms: int, high_ms: int) -> Callable[[random.Random, Target], Fault]:
    return lambda draw, target: Kill(target, draw.randint(low_ms, high_ms))


GOOGLE: tuple[Cause, ...] = (
    Cause("rewiring", "network", 1, 120, _cut_off(HOUR_MS, 6 * HOUR_MS)),
    Cause("rack failure", "network", 20, 80, _cut_off(HOUR_MS, 6 * HOUR_MS)),
    Cause("unsteady rack", "network", 5, 80, lambda draw, target: Slow(target, draw.randint(HOUR_MS, 6 * HOUR_MS), 2.0)),
    Cause("router failure", "network", 15, 240, _cut_off(2 * MINUTE_MS, 30 * MINUTE_MS)),
    Cause("network maintenance", "network", 8, 240, _cut_off(10 * MINUTE_MS, HOUR_MS)),
    Cause("power outage", "environment", 7.5, 400, _down(HOUR_MS, 6 * HOUR_MS)),
    Cause("software or people", "ooops", 2400, 1, _down(MINUTE_MS, 10 * MINUTE_MS)),
    Cause("disk", "disk", 124, 1, _down(HOUR_MS, 24 * HOUR_MS)),
    Cause("memory", "memory", 31, 1, _down(HOUR_MS, 6 * HOUR_MS)),
)  # fmt: skip


def afn100(causes: tuple[Cause, ...] = GOOGLE) -> dict[str, float]:
    """Node failures per 100 nodes and year, by the rows of the table."""
    found: dict[str, float] = {}
    for cause in causes:
        found[cause.source] = found.get(cause.source, 0.0) + cause.per_year * cause.nodes * 100 / NODES
    return found


def site(machines: int) -> Site:
    """Racks of 80, power domains of five racks; a small site has smaller ones, so that a burst is never all of it."""
    rack = min(RACK_NODES, max(1, machines // 30))
    return Site(machines, rack_machines=rack, power_racks=POWER_RACKS)


def year(
    draw: random.Random, place: Site, days: float, causes: tuple[Cause, ...] = GOOGLE
) -> tuple[FaultPlan, dict[str, int]]:
    """The faults of so many days at a site, and how many there are of each cause."""
    span_ms = int(days * DAY_MS)
    planned: list[Planned] = []
    counts: dict[str, int] = {}
    for cause in causes:
        expected = cause.per_year * days / YEAR_DAYS * (place.machines / NODES if cause.nodes == 1 else 1)
        for _ in range(_poisson(draw, expected)):
            at_ms = draw.randrange(HOUR_MS, max(HOUR_MS + 1, span_ms))
            fault = [Planned(cause.happens(draw, target), at_ms) for target in _targets(draw, place, cause)]
            planned += fault
            counts[cause.name] = counts.get(cause.name, 0) + 1
    return FaultPlan(tuple(sorted(planned, key=lambda p: p.at_ms or 0))), counts


def _targets(draw: random.Random, place: Site, cause: Cause) -> list[Target]:
    """Single machines, whole racks side by side, or a power domain."""
    if cause.nodes == 1:
        return [Target("machine", draw.randrange(place.machines))]
    if cause.source == "environment":
        return [Target("power", draw.randrange(place.powers))]
    racks = min(place.racks, max(1, round(cause.nodes / RACK_NODES)))
    first = draw.randrange(place.racks)
    return [Target("rack", (first + i) % place.racks) for i in range(racks)]


def _poisson(draw: random.Random, expected: float) -> int:
    """How many, when so many are expected: a sum of exponential gaps."""
    number, at = 0, draw.expovariate(1.0)
    while at < expected:
        number, at = number + 1, at + draw.expovariate(1.0)
    return number
