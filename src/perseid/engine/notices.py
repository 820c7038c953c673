"""Notices: all that people and dashboards are told of a run, under Spark and in the simulation.

The controller returns notices beside its commands; ``noticed`` says what the events and commands themselves tell; shells add what only
they know (sizes of files, times, rows). The journal keeps a notice as one line, ``kind`` and ``record()``. Nothing decides by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.notices import AlertBegan as AlertBegan
from perseid.checkpoint.notices import MomentPassed as MomentPassed
from perseid.checkpoint.notices import Notice as Notice
from perseid.checkpoint.notices import PeriodTooShort as PeriodTooShort
from perseid.checkpoint.notices import Profiled as Profiled
from perseid.checkpoint.notices import plain
from perseid.checkpoint.policy import Decision
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.recovery.plan import ApplicationRecovery, RecoveryPlan, replayed_epochs
from perseid.scaling.machine import ScaleRequest
from perseid.vocabulary import (
    Attempt,
    CheckpointId,
    Epoch,
    Generation,
    HostId,
    OperatorName,
    ShardId,
    SourceName,
    StreamName,
    UnitName,
)

Outcome = do.Command | Notice
"""What the controller returns."""


# -- from the controller ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecoveryStarted(Notice):
    """A recovery was planned. Every start of an application is one, too: its reason is ``start``."""

    reason: str
    plan: RecoveryPlan

    def record(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "reason": self.reason,
            "mode": plan.name,
            "shards": [str(shard) for shard in plan.shards],
            "checkpoint": plan.checkpoint,
            "lost_epochs": plan.lost_epochs if isinstance(plan, ApplicationRecovery) else 0,
        }


@dataclass(frozen=True, slots=True)
class RecoveryFinished(Notice):
    """Everything lost is back."""

    plan: RecoveryPlan
    duration_ms: int
    phases_ms: Mapping[str, int]
    start: bool = False  # it was the start of the application

    def record(self) -> dict[str, Any]:
        return {
            "mode": self.plan.name,
            "ms": self.duration_ms,
            "phases": dict(self.phases_ms),
            "replayed_epochs": replayed_epochs(self.plan),
            "start": self.start,
        }


@dataclass(frozen=True, slots=True)
class CheckpointDecided(Notice):
    """A checkpoint was decided on, and why."""

    checkpoint: CheckpointId
    decision: Decision

    def record(self) -> dict[str, Any]:
        decision = self.decision
        units = sorted(decision.units) if decision.units is not None else None
        return {"checkpoint": self.checkpoint, "reason": decision.reason, "units": units, **decision.facts}


@dataclass(frozen=True, slots=True)
class ScaleStarted(Notice):
    """An operator is to be scaled."""

    request: ScaleRequest

    def record(self) -> dict[str, Any]:
        request = self.request
        return {"operator": request.operator, "shards": len(request.slots), "reason": request.reason}


@dataclass(frozen=True, slots=True)
class Scaled(Notice):
    """An operator was scaled; whoever asked for it is told, too."""

    request: ScaleRequest
    before: int  # shards
    pause_ms: int  # so long its unit was held
    duration_ms: int

    def record(self) -> dict[str, Any]:
        return {
            "operator": self.request.operator,
            "before": self.before,
            "shards": len(self.request.slots),
            "pause_ms": self.pause_ms,
            "ms": self.duration_ms,
            "slots": plain(self.request.slots),
        }


@dataclass(frozen=True, slots=True)
class ScaleGivenUp(Notice):
    """The operator has the shards it had; ``again``: another attempt follows. Whoever asked for it is told, too."""

    request: ScaleRequest
    reason: str
    again: bool

    def record(self) -> dict[str, Any]:
        return {"operator": self.request.operator, "reason": self.reason, "again": self.again}


# -- of an application ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AppStarted(Notice):
    """A driver has opened the root."""

    app: str
    generation: Generation
    units: tuple[UnitName, ...]
    operators: Mapping[OperatorName, int]  # with the number of their shards
    hosts: int
    restored: CheckpointId | None
    epoch: Epoch  # the newest that was admitted before
    next_checkpoint: CheckpointId
    graph: Sequence[Mapping[str, Any]] = ()  # its nodes, as ``graph.outline`` tells them
    scheme: str = ""
    period_ms: int = 0


@dataclass(frozen=True, slots=True)
class AppStopped(Notice):
    """It has ended: ``finished``, or the error."""

    reason: str
    unsaved: str | None = None  # why the last checkpoint failed


@dataclass(frozen=True, slots=True)
class Warning(Notice):  # its kind in the journal
    """Something that whoever runs the application should look at."""

    message: str


@dataclass(frozen=True, slots=True)
class Fault(Notice):
    """The simulation did something to the world."""

    what: str


# -- of hosts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostReady(Notice):
    host: HostId
    pid: int | str
    address: str


@dataclass(frozen=True, slots=True)
class HostLost(Notice):
    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class HostReleased(Notice):
    """It has nothing to do any more."""

    host: HostId


@dataclass(frozen=True, slots=True)
class ShardsAssigned(Notice):
    """A host is to restore these shards."""

    host: HostId
    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class ShardsRestored(Notice):
    """A host has read snapshots: how many from where."""

    host: HostId
    copies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RestoreFailed(Notice):
    host: HostId
    error: str


@dataclass(frozen=True, slots=True)
class HostLoad(Notice):
    """What a host had to do since it said so last."""

    host: HostId
    cpu: float  # of one core
    memory: int | None
    shards: Mapping[str, Mapping[str, Any]]  # share of its time, and rows


@dataclass(frozen=True, slots=True)
class HotKey(Notice):
    """One key has much of an operator's rows, and one key is never divided."""

    operator: OperatorName
    key: str
    share: float


# -- of epochs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EpochAdmitted(Notice):
    """The slices of an epoch are in the ledger."""

    epoch: Epoch
    slices: Mapping[SourceName, tuple[int, int]]
    rows: int | None  # where the sources know it
    time_ms: int
    ms: float  # so long it took
    last: bool = False  # there is no epoch after it

    def record(self) -> dict[str, Any]:
        slices = {name: list(bounds) for name, bounds in self.slices.items()}
        last = {"last": True} if self.last else {}
        return {
            "epoch": self.epoch,
            "slices": slices,
            "rows": self.rows,
            "time_ms": self.time_ms,
            "ms": self.ms,
            **last,
        }


@dataclass(frozen=True, slots=True)
class EpochCommitted(Notice):
    """All units are done with an epoch."""

    epoch: Epoch
    ms: float | None  # since its admission
    rows_in: int
    rows_out: int
    state_bytes: int
    worked_ms: int  # of operators, in all shards
    sizing_ms: float  # of estimating how large states are
    time_ms: int
    parts_ms: Mapping[str, float]  # where its time went (``metrics.epoch_parts``)
    operators: Mapping[OperatorName, Mapping[str, Any]]  # what each did in it


@dataclass(frozen=True, slots=True)
class EpochFailed(Notice):
    """An attempt of a unit at an epoch came to nothing."""

    epoch: Epoch
    unit: UnitName
    attempt: Attempt
    error: str


@dataclass(frozen=True, slots=True)
class OperatorFailed(Notice):
    """An operator raised."""

    operator: OperatorName
    shard: int
    epoch: Epoch
    error: str


@dataclass(frozen=True, slots=True)
class DeadLetters(Notice):
    """Rows that an operator raised on were put aside."""

    operator: OperatorName
    shard: int
    epoch: Epoch
    rows: int
    timers: int
    error: str


@dataclass(frozen=True, slots=True)
class MalformedLines(Notice):
    """Lines of a source that do not fit its schema were put aside."""

    source: str
    epoch: Epoch
    lines: int
    files: tuple[str, ...]
    first: str


# -- of checkpoints ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointStarted(Notice):
    """The first snapshots of a checkpoint are ordered."""

    checkpoint: CheckpointId
    epochs: Mapping[UnitName, Epoch]


@dataclass(frozen=True, slots=True)
class SnapshotsOrdered(Notice):
    checkpoint: CheckpointId
    host: HostId
    unit: UnitName
    epoch: Epoch
    synchronous: bool


@dataclass(frozen=True, slots=True)
class SnapshotsForked(Notice):
    """A host goes on, its snapshots are on their way."""

    checkpoint: CheckpointId
    host: HostId
    unit: UnitName


@dataclass(frozen=True, slots=True)
class SnapshotAwaited(Notice):
    """An epoch waited for the snapshots of a host."""

    host: HostId
    checkpoint: CheckpointId
    ms: float


@dataclass(frozen=True, slots=True)
class SnapshotWritten(Notice):
    checkpoint: CheckpointId
    shard: ShardId
    bytes: int
    ms: float
    serialise_ms: float
    sync_ms: float | None


@dataclass(frozen=True, slots=True)
class InflightSaved(Notice):
    """An epoch of a stream is in the checkpoint."""

    checkpoint: CheckpointId
    stream: StreamName
    epoch: Epoch
    bytes: int


@dataclass(frozen=True, slots=True)
class BackedUp(Notice):
    """A host keeps a copy of a snapshot."""

    host: HostId
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointCommitted(Notice):
    checkpoint: CheckpointId
    bytes: int
    ms: int


@dataclass(frozen=True, slots=True)
class CheckpointFailed(Notice):
    checkpoint: CheckpointId
    error: str


@dataclass(frozen=True, slots=True)
class Trimmed(Notice):
    """Everything up to this epoch is covered by checkpoints and was let go."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class StorageFailed(Notice):
    """Something could not be written, and is tried again."""

    command: str
    error: str


# -- what events and commands tell ------------------------------------------------------------------------------------


def noticed(said: on.Event | Outcome) -> Iterator[Notice]:
    """What people are told of an event or of what the controller returned."""
    match said:
        case Notice():
            yield said
        case do.DropHost(host, reason):
            yield HostLost(host, reason)
        case do.ReleaseHost(host):
            yield HostReleased(host)
        case do.RestoreShards(host, _, shards):
            yield ShardsAssigned(host, tuple(route.shard for route, _, _ in shards))
        case do.TakeSnapshots(host, checkpoint, unit, epoch, synchronous=synchronous):
            yield SnapshotsOrdered(checkpoint, host, unit, epoch, synchronous)
        case do.AbortCheckpoint(checkpoint, reason):
            yield CheckpointFailed(checkpoint, reason)
        case do.Trim(_, oldest):
            yield Trimmed(min(oldest.cuts.values()))
        case on.UnitFailed(kind="cancelled"):
            pass
        case on.UnitFailed(unit, epoch, attempt, kind, message, _, shards):
            yield EpochFailed(epoch, unit, attempt, message)
            for shard in shards if kind in ("operator", "mistake") else ():
                yield OperatorFailed(shard.operator, shard.index, epoch, message)
        case on.SnapshotsForked(host, checkpoint, unit):
            yield SnapshotsForked(checkpoint, host, unit)
        case on.CheckpointFailed(checkpoint, message):
            yield CheckpointFailed(checkpoint, message)
        case on.RestoreFailed(host, _, message):
            yield RestoreFailed(host, message)
