"""Scale out and scale in of one operator while its stream runs (S3; algorithm 3 of the paper), from one step to the next.

asked          a scale was asked for, or is to be tried again; hosts for the new shards are on their way
checkpointing  a checkpoint is being taken: the new shards begin where it cuts their unit's stream
preparing      hosts make the new shards of parts of its snapshots, while the old shards work on
following      the new shards apply what came since, from the input that the old ones keep, round by round
holding        the unit starts no epoch; the new shards apply the last of it
switching      the division is being written down; from then on epochs go to the new shards, and the old ones are dropped
settling       a checkpoint of the new shards is due, so that the next loss begins with what they saved themselves

Whatever goes wrong before the last step leaves the old shards where they are, working; only holding and switching pause the unit.

Invariant: the new shards have numbers that no shard had before, under a version that no table had before, so nothing that is still on
its way to a shard of the old division, or of an attempt that was given up, can reach one of the new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import Attempt, CheckpointId, Epoch, HostId, OperatorName, ShardId, SlotRange, UnitName, Version

ScalePhase = Literal["asked", "checkpointing", "preparing", "following", "holding", "switching", "settling"]

ATTEMPTS = 5
PAUSE_MS = 500  # after a failed attempt, twice as long after the next
NEAR_EPOCHS = 2  # so far behind the old shards the new ones may be when the unit is held; or when they come no nearer


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """Somebody wants an operator's slots divided like this."""

    number: int
    operator: OperatorName
    slots: tuple[SlotRange, ...]
    reason: str = "asked for"


@dataclass(slots=True)
class Scaling:
    """One scale, and how far it has come."""

    request: ScaleRequest
    unit: UnitName
    asked_ms: int
    phase: ScalePhase = "asked"
    failures: int = 0
    not_before_ms: int = 0
    checkpoint: CheckpointId | None = None
    base: Epoch = Epoch(0)  # the new shards come from there; the unit's input is kept since
    target: RoutingTable | None = None  # what will be
    waiting: set[HostId] = field(default_factory=set)  # that have not answered yet
    reached: dict[ShardId, Epoch] = field(default_factory=dict)  # where new shards stand
    upto: Epoch = Epoch(0)  # where they are being brought to
    gap: int | None = None  # how far behind the last round began
    replay: Attempt | None = None  # the job that feeds them
    held_ms: int | None = None  # since when the unit would have worked

    @property
    def operator(self) -> OperatorName:
        return self.request.operator

    @property
    def version(self) -> Version | None:
        return self.target.version if self.target is not None else None

    @property
    def hosts(self) -> frozenset[HostId]:
        """That hold new shards, or will, as long as these are not the operator's."""
        if self.target is None or self.phase == "settling":
            return frozenset()
        return frozenset(r.host for r in self.target.of(self.operator) if r.host is not None)

    @property
    def holds(self) -> bool:
        """May the unit not start an epoch?"""
        return self.phase in ("holding", "switching")

    @property
    def stands_on_checkpoint(self) -> bool:
        """Is it on its way from a checkpoint that must stay the newest, with all that came since?"""
        return self.phase in ("preparing", "following", "holding", "switching")

    @property
    def keeps_input(self) -> bool:
        """Must the unit's input be kept from ``base`` on, though the unit is past it?"""
        return self.phase == "checkpointing" or self.stands_on_checkpoint

    def checkpoint_started(self, checkpoint: CheckpointId, finished: Epoch) -> None:
        assert self.phase == "asked"
        self.phase, self.checkpoint, self.base = "checkpointing", checkpoint, finished

    def prepared_from(self, base: Epoch, target: RoutingTable) -> None:
        assert self.phase in ("asked", "checkpointing")
        self.phase, self.base, self.upto, self.target = "preparing", base, base, target
        self.reached = {route.shard: base for route in target.of(self.operator)}
        self.waiting = set(self.hosts)

    def answered(self, host: HostId, reached: Mapping[ShardId, Epoch]) -> None:
        """A host has made its new shards, or brought them further."""
        self.waiting.discard(host)
        self.reached.update(reached)
        if self.phase == "preparing" and not self.waiting:
            self.phase = "following"

    def round_began(self, upto: Epoch) -> None:
        """New shards are brought to this epoch, from the input that the old ones keep."""
        assert self.phase in ("following", "holding")
        self.upto, self.gap = upto, upto - self.stands

    def waits_for(self, host: HostId) -> None:
        """A host brings its new shards further."""
        self.waiting.add(host)

    def replay_began(self, attempt: Attempt) -> None:
        """What kept input could not do, a job does."""
        self.replay = attempt

    def replay_gone(self) -> None:
        """The job came to nothing."""
        self.replay = None

    def replay_ended(self) -> None:
        """The job has brought all new shards to ``upto``."""
        self.replay, self.reached = None, dict.fromkeys(self.reached, self.upto)

    def hold(self) -> None:
        """The unit begins no epoch until the new shards have taken over."""
        assert self.phase == "following"
        self.phase = "holding"

    def unit_rests(self, now_ms: int) -> None:
        """The unit would work now."""
        assert self.phase == "holding"
        self.held_ms = self.held_ms if self.held_ms is not None else now_ms

    def switch(self) -> None:
        """New shards stand where the unit does: their division is being written down."""
        assert self.phase == "holding"
        self.phase = "switching"

    def switched(self, settled_ms: int) -> None:
        """The new shards are the operator's; a checkpoint of theirs is due at this time."""
        assert self.phase == "switching"
        self.phase, self.not_before_ms = "settling", settled_ms

    @property
    def busy(self) -> bool:
        """Are new shards on their way to ``upto``?"""
        return bool(self.waiting) or self.replay is not None

    @property
    def behind(self) -> tuple[ShardId, ...]:
        """New shards that have not come to ``upto``."""
        return tuple(shard for shard, epoch in self.reached.items() if epoch < self.upto)

    @property
    def stands(self) -> Epoch:
        """Where the hindmost new shard stands."""
        return min(self.reached.values())

    def near(self, finished: Epoch) -> bool:
        """Is it time to hold the unit?"""
        gap = finished - self.stands
        return gap <= NEAR_EPOCHS or (self.gap is not None and gap >= self.gap)

    def failed(self, now_ms: int) -> None:
        """This attempt came to nothing; the next begins after a pause."""
        self.failures += 1
        self.not_before_ms = now_ms + PAUSE_MS * 2 ** min(self.failures - 1, 5)
        self.phase, self.checkpoint, self.target, self.replay, self.held_ms = "asked", None, None, None, None
        self.waiting, self.reached, self.gap = set(), {}, None

    def check(self) -> None:
        assert (self.target is not None) == (self.phase not in ("asked", "checkpointing"))
        assert (self.checkpoint is not None) or self.phase != "checkpointing"
        assert not self.waiting or self.phase in ("preparing", "following", "holding")
        assert self.waiting <= self.hosts
        if self.target is not None:
            self.target.check()
            assert self.stands >= self.base
