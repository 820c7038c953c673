"""Notices of checkpoints, from the decision to what is let go. What policies tell is in ``checkpoint.notices``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.notices import Notice
from perseid.checkpoint.policy import Decision
from perseid.vocabulary import CheckpointId, Epoch, HostId, ShardId, StreamName, UnitName


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
