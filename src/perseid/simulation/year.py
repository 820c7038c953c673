"""What if: a year of a large site under one scheme. The same machines decide; only time is coarse where nothing happens.

Sources are preserved by reference and give one long epoch for every quiet stretch; before each fault there are ordinary epochs, with a
checkpoint and a random moment in its period, so that what a fault meets is what it would meet any day. Heartbeats are skipped
while every host is well, which the detector cannot tell from hearing them.

Checkpoints of the quiet stretches are not run one by one: their number and cost follow from those that are.
"""

from __future__ import annotations

import random
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from perseid.engine import commands as do
from perseid.engine.messages import Forked
from perseid.engine.settings import EngineSettings
from perseid.errors import SettingsError
from perseid.simulation import datacenter
from perseid.simulation.driver import SimulatedDriver
from perseid.simulation.garbage import uncollected
from perseid.simulation.graphs import side_by_side
from perseid.simulation.scenario import Scenario, Times, scheme_named
from perseid.simulation.world import World
from perseid.vocabulary import Epoch, ShardId, SourceName, UnitName

EPOCH_MS = 300_000
PERIOD_MS = 600_000
SETTLE_MS = 90_000  # a checkpoint after a quiet stretch is done by then
ROWS_PER_S = 100_000
CALM_BEATS = 5  # with every host well, so many heartbeats are heard as one; seven missed ones make a host dead
STATE_BYTES = 1 << 30  # of a shard
HOST_HOUR_PRICE = 0.10
GB_PRICE = 0.01  # written to shared storage
TIMES = Times(
    message=(0, 0), job=(500, 2000), replay=(4_000, 12_000), snapshot=(8_000, 15_000), restore=(5_000, 15_000),
    start=(2_000, 10_000), storage=(20, 100),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Year:
    """What a scheme makes of a year."""

    scheme: str
    hosts: int
    days: int
    faults: dict[str, int]
    recoveries: int
    availability: float  # the part of the time in which nothing had to be waited for
    recovery_p50_ms: int
    recovery_p99_ms: int
    recovery_worst_ms: int
    rows: int
    replayed_rows: int
    checkpoints: int  # in all, those of quiet stretches with them
    stopped_share: float  # of the time, units stood still for snapshots
    stored_bytes: int
    cost: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class YearWorld(World):
    """A world in which quiet time costs nothing."""

    def __init__(self, scenario: Scenario, span_ms: int, watch: Callable[[float], None] | None = None) -> None:
        super().__init__(scenario, checked=False, story=0)  # nobody is told the story of a year
        self.span_ms, self._watch = span_ms, watch
        self._moments = sorted(p.at_ms for p in scenario.plan.faults if p.at_ms is not None)
        self._lead_ms = SETTLE_MS
        self._quiet_ms = 0  # until then nothing happens
        self._admitted_ms = 0
        self._asked_ms: dict[tuple[int, str], int] = {}
        self.calm_ms = span_ms  # there is no deadline before the end
        self.stopped_ms = 0
        self.unavailable_ms = 0

    def pulse_ms(self, driver: SimulatedDriver) -> int:
        controller, following = driver.controller, self.clock.next_ms
        recovering = controller.recovering
        waits = recovering is None or recovering.plan is not None  # for something that will be told
        if driver.hosts.silent or following is None or not waits or controller.phase == "starting":
            return self.pulse
        if recovering is None and controller.pipeline.quiet:  # machines may come back meanwhile: that changes nothing
            following = max(following, self._quiet_ms)
        return max(CALM_BEATS * self.pulse, following - self.clock.now_ms - 1)

    def next_slice_ms(self, epoch: Epoch) -> int:
        quiet = self._upcoming_ms()
        if quiet > 2 * EPOCH_MS:
            self._quiet_ms = self.clock.now_ms + quiet
            self._lead_ms = SETTLE_MS + self.random.randrange(PERIOD_MS)
            return quiet
        return EPOCH_MS

    def _upcoming_ms(self) -> int:
        """How long it is quiet from now on."""
        now = self.clock.now_ms
        at = bisect_left(self._moments, now)
        following = self._moments[at] if at < len(self._moments) else self.span_ms
        return following - now - self._lead_ms

    def has_more(self, epoch: Epoch) -> bool:
        if self._watch is not None:
            self._watch(min(1.0, self.clock.now_ms / self.span_ms))
        return self.clock.now_ms < self.span_ms

    def arrived(self, source: SourceName) -> int:
        rows = (self.clock.now_ms - self._admitted_ms) * ROWS_PER_S // 1000
        self._admitted_ms = self.clock.now_ms
        return rows

    def size_of(self, shard: ShardId, epoch: Epoch) -> int:
        return STATE_BYTES

    def rows_of(self, unit: UnitName, epoch: Epoch) -> int:
        """The epoch of a quiet stretch stands for the last ordinary one of it: that is what would be worked on again."""
        return min(super().rows_of(unit, epoch), EPOCH_MS * ROWS_PER_S // 1000)

    def trimmed(self, epoch: Epoch) -> None:
        self.witness.forget(epoch)

    def last_look(self) -> None:
        """Every sink was compared as it was written; what lies far back is forgotten by now."""

    def snapshots_commanded(self, command: do.TakeSnapshots) -> None:
        self._asked_ms.setdefault((command.checkpoint, command.unit), self.clock.now_ms)

    def snapshots_taken(self, event: Forked) -> None:
        """The last host of a unit counts; each says how long it has been since the first was asked."""
        key = (event.checkpoint, event.unit)
        asked = self._asked_ms.get(key)
        if asked is not None:
            self.stopped_ms += self.clock.now_ms - asked
            self._asked_ms[key] = self.clock.now_ms

    @property
    def stop_ms(self) -> float:
        """How long a unit stands still when it is saved, on average; under baseline it is saved alone, else with the others."""
        return self.stopped_ms / max(len(self._asked_ms), 1)

    def recovery_ended(self, plan: Any, duration_ms: int) -> None:
        super().recovery_ended(plan, duration_ms)
        if self.driver is not None and self._upcoming_ms() > 2 * EPOCH_MS:
            self.driver.admission.wait()  # the quiet stretch begins here, not with the next epoch
        if len(self.tally.recoveries_ms) > 1:  # the first is the start
            self.unavailable_ms += duration_ms


def simulate_year(
    scheme: str,
    *,
    hosts: int = datacenter.NODES,
    days: int = 365,
    seed: int = 0,
    watch: Callable[[float], None] | None = None,
) -> Year:
    """A year (or ``days``) of an application on every node of a site."""
    if hosts < 4:
        raise SettingsError(f"a site has at least 4 hosts, got {hosts}")
    began = time.perf_counter()
    draw = random.Random(seed)
    place = datacenter.site(hosts)
    plan, counts = datacenter.year(draw, place, days)
    span_ms = days * datacenter.DAY_MS
    settings = EngineSettings(
        scheme_named(scheme, PERIOD_MS / 1000), hosts=hosts, spares=0, keep=2, heartbeat_ms=2_000, start_timeout_ms=None
    )  # who runs a site starts again what ended
    topology = settings.scheme.preserved(side_by_side(hosts))
    scenario = Scenario(
        seed, topology, settings, place, epochs=1 << 40, plan=plan, slots=2, chunks=1, mishaps=0.0,
        patience_ms=7 * datacenter.DAY_MS, state_bytes=STATE_BYTES, limit_ms=span_ms + 30 * datacenter.DAY_MS, times=TIMES,
    )  # fmt: skip
    world = YearWorld(scenario, span_ms, watch)
    with uncollected():
        tally = world.run()
    times = sorted(tally.recoveries_ms[1:]) or [0]
    shards = sum(topology.operators.values())
    periods = span_ms // PERIOD_MS
    stored = periods * shards * STATE_BYTES
    hours = span_ms / datacenter.HOUR_MS
    stopped = world.stop_ms * periods / span_ms
    rows = world.root.ledger.offsets.get(SourceName("in"), 0)
    overhead = stopped + tally.replayed_rows / max(rows, 1)  # so much more is needed to keep up
    return Year(
        scheme=scheme,
        hosts=hosts,
        days=days,
        faults=counts,
        recoveries=len(tally.recoveries_ms) - 1,
        availability=1.0 - world.unavailable_ms / span_ms,
        recovery_p50_ms=times[len(times) // 2],
        recovery_p99_ms=times[min(len(times) - 1, len(times) * 99 // 100)],
        recovery_worst_ms=times[-1],
        rows=rows,
        replayed_rows=tally.replayed_rows,
        checkpoints=periods,
        stopped_share=stopped,
        stored_bytes=stored,
        cost=hosts * hours * HOST_HOUR_PRICE * (1 + overhead) + stored / (1 << 30) * GB_PRICE,
        seconds=time.perf_counter() - began,
    )
