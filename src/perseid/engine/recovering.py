"""The controller's part in recovery: one loss at a time becomes one plan, carried out in steps, begun anew if more is lost.

Starting an application is a recovery too: everything is lost, and comes back from the newest good checkpoint or fresh.

Steps: units that hold lost shards come to rest → plan → hosts restore shards under a new routing version → missed epochs
are replayed into them → done. A loss at any step starts the steps again with all that is not yet back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.checkpoint.acknowledgements import Hold
from perseid.graph.topology import Topology
from perseid.recovery.plan import RecoveryPlan
from perseid.scaling.routing import Route
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName, Version

RETRY_PAUSE_MS = 100  # after a first failure, twice as long after the next
RETRY_PAUSE_LIMIT_MS = 5_000
REASON_LENGTH = 500  # reasons are for people: the first are enough
HOST_PHASES = ("read", "deserialise", "catch_up")  # what hosts report of a restore


@dataclass(slots=True)
class Recovering:
    """What is lost and how far the way back has been gone."""

    lost: set[ShardId]  # not back yet: a shard leaves this set only when it has caught up
    everything: bool  # the whole application goes back
    reason: str
    since_ms: int
    plan: RecoveryPlan | None = None
    version: Version = Version(0)  # of the routing table the plan made
    restoring: set[HostId] = field(default_factory=set)
    reached: dict[ShardId, Epoch] = field(default_factory=dict)  # where restored shards stand
    replaying: set[UnitName] = field(default_factory=set)
    to_replay: set[UnitName] = field(default_factory=set)
    phases_ms: dict[str, int] = field(default_factory=dict)
    step_ms: int = 0  # when the current step began
    failed_replays: int = 0
    failed_restores: int = 0  # because storage was out of reach
    not_before_ms: int = 0  # pause after such a failure
    divided: bool = False  # lost shards come back as several each (S4)
    before: tuple[Route, ...] = ()  # the shards those come from, and where they were
    writing: dict[OperatorName, Version] = field(default_factory=dict)  # divisions on their way into the ledger
    unwritten: set[OperatorName] = field(default_factory=set)  # those that did not get there

    def restart(self, lost: set[ShardId], reason: str, now_ms: int) -> None:
        """More was lost: forget the plan, keep what is missing."""
        self.step_done("retry", now_ms)
        self.lost |= lost
        if reason not in self.reason and len(self.reason) < REASON_LENGTH:
            self.reason = f"{self.reason}; {reason}"
        self.plan = None
        self.restoring, self.replaying, self.to_replay, self.reached = set(), set(), set(), {}

    def step_done(self, phase: str, now_ms: int) -> None:
        self.phases_ms[phase] = self.phases_ms.get(phase, 0) + now_ms - self.step_ms
        self.step_ms = now_ms

    def add_phases(self, phases_ms: dict[str, int]) -> None:
        """Hosts work side by side: the slowest counts."""
        for phase, ms in phases_ms.items():
            self.phases_ms[phase] = max(self.phases_ms.get(phase, 0), ms)

    def restored(self, host: HostId, phases_ms: dict[str, int], reached: dict[ShardId, Epoch], now_ms: int) -> None:
        """A host has its shards; with the last one the step ends, and what hosts do not account for went into reaching them."""
        if host not in self.restoring:
            return
        self.restoring.discard(host)
        self.add_phases(phases_ms)
        self.reached.update(reached)
        if not self.restoring:
            accounted = sum(self.phases_ms.get(phase, 0) for phase in HOST_PHASES)
            self.phases_ms["reconnect"] = max(0, now_ms - self.step_ms - accounted)
            self.step_ms = now_ms

    def behind(self, shards: list[ShardId], base: Epoch, last: Epoch) -> tuple[Epoch, tuple[ShardId, ...]]:
        """Which of these restored shards have not come to ``last``, and the epoch where the hindmost of them stands."""
        missing = {s: self.reached.get(s, base) for s in shards if self.reached.get(s, base) < last}
        return min(missing.values(), default=last), tuple(missing)

    def holds(self, topology: Topology) -> tuple[Hold, ...]:
        """Preserved input that restored shards have to be fed with."""
        base = self.plan.base if self.plan is not None else {}
        inputs = (s for s in topology.streams if s.consumer in base and s.preservation == "buffered")
        return tuple(Hold(s.name, base[s.consumer]) for s in inputs)

    @property
    def refused(self) -> bool:
        """Were divisions not written down, and have all that were tried together been answered?"""
        return bool(self.unwritten) and self.unwritten >= self.writing.keys()

    @property
    def done(self) -> bool:
        return self.plan is not None and not (self.restoring or self.replaying or self.to_replay or self.writing)

    def check(self) -> None:
        if self.plan is None:
            assert not (self.restoring or self.replaying)
        else:
            assert self.lost <= self.plan.shards.keys()
