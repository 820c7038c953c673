"""Events: what has happened, told to the controller. Past tense, frozen; the time comes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perseid.checkpoint.lifecycle import SavedShard
from perseid.checkpoint.size_reports import SizeHalved as SizeHalved
from perseid.checkpoint.size_reports import SizesReported as SizesReported
from perseid.checkpoint.size_reports import SizeTurned as SizeTurned
from perseid.scaling.bottleneck import HostLoad
from perseid.scaling.machine import ScaleRequest
from perseid.standby.events import HostHeard as HostHeard
from perseid.standby.events import HostSilent as HostSilent
from perseid.standby.modes import Standby
from perseid.vocabulary import (
    Attempt,
    CheckpointId,
    Epoch,
    HostId,
    OperatorName,
    ShardId,
    StreamName,
    UnitName,
    Version,
)

FailureKind = Literal[
    "host", "operator", "mistake", "poisoned", "released", "storage", "corrupt", "unreported", "fenced", "cancelled", "other"
]  # fmt: skip
"""A ``mistake`` is in the user's code or data: the same comes of every try, so there is no other."""


@dataclass(frozen=True, slots=True)
class HostRegistered:
    host: HostId
    machine: str = ""
    executor: str = ""


@dataclass(frozen=True, slots=True)
class HostStartFailed:
    """Spark could not run the task of a host. ``hopeless`` says why no other try will help, where that is known."""

    reason: str
    hopeless: str | None = None


@dataclass(frozen=True, slots=True)
class HostDisconnected:
    """Its connection broke, or it gave itself up."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class HeartbeatArrived:
    host: HostId


@dataclass(frozen=True, slots=True)
class HeartbeatsArrived:
    """Those of all hosts but these, at once."""

    silent: frozenset[HostId]


@dataclass(frozen=True, slots=True)
class Ticked:
    """A moment has passed with nothing else to say."""


@dataclass(frozen=True, slots=True)
class EpochAdmitted:
    """Source slices of this epoch are in the ledger."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class NothingToAdmit:
    """Sources have nothing new; ``finished`` when they never will again."""

    finished: bool


@dataclass(frozen=True, slots=True)
class UnitFinished:
    """A unit has worked on an epoch: every shard has applied it, its sinks and streams have it."""

    unit: UnitName
    epoch: Epoch
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class UnitFailed:
    unit: UnitName
    epoch: Epoch
    attempt: Attempt
    kind: FailureKind
    message: str
    hosts: tuple[HostId, ...] = ()  # that could not be reached
    shards: tuple[ShardId, ...] = ()  # whose operator raised


@dataclass(frozen=True, slots=True)
class ShardsRestored:
    """A host holds shards again; some came further than their snapshot (``reached``), by input that was kept on its machine."""

    host: HostId
    version: Version
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[ShardId, Epoch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestoreFailed:
    """A host could not restore shards: a file of the checkpoint is corrupt or gone (``corrupt``), storage is out of its reach
    for now (``storage``), or something else is wrong."""

    host: HostId
    version: Version
    message: str
    corrupt: bool
    storage: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody wants all that has been processed by now to be durable."""

    number: int


@dataclass(frozen=True, slots=True)
class RestoreRequested:
    """Somebody wants an operator's shards to be made anew from the newest checkpoint."""

    number: int
    operator: OperatorName


@dataclass(frozen=True, slots=True)
class ScaleRequested:
    request: ScaleRequest


@dataclass(frozen=True, slots=True)
class StandbyRequested:
    """Somebody wants another standby for an operator. Answered as soon as it holds."""

    number: int
    operator: OperatorName
    standby: Standby


@dataclass(frozen=True, slots=True)
class CopyTaken:
    """A host has the state of shards that another one sent, as of these epochs."""

    host: HostId
    number: int
    epochs: Mapping[ShardId, Epoch]
    bytes: int
    ms: int
    full: bool


@dataclass(frozen=True, slots=True)
class CopyNotTaken:
    """The state of shards could not be sent, or was not taken."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class CopyMissing:
    """A host was told to answer for shards that it has no copy of, or lacks input for."""

    host: HostId
    shards: tuple[ShardId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CopiesStand:
    """Where shards of a host stand: those for which it answers from now on, or two hosts do (active standby)."""

    host: HostId
    epochs: Mapping[ShardId, Epoch]


@dataclass(frozen=True, slots=True)
class AnswerDiffered:
    """A host's answer for a shard was not the one that counts: its other host's (active standby)."""

    host: HostId
    shard: ShardId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class LoadReported:
    """What a host had to do (S5)."""

    load: HostLoad


@dataclass(frozen=True, slots=True)
class ShardsCaughtUp:
    """A host has brought new shards as far as kept input goes."""

    host: HostId
    version: Version
    reached: Mapping[ShardId, Epoch]


@dataclass(frozen=True, slots=True)
class PartitionWritten:
    """The ledger says how an operator's slots are divided; or could not be written (``error``), and may say so or not."""

    operator: OperatorName
    version: Version
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayFinished:
    unit: UnitName
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SnapshotsForked:
    """A host has begun to write its snapshots of this unit aside (or has written them, when synchronous)."""

    host: HostId
    checkpoint: CheckpointId
    unit: UnitName


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    checkpoint: CheckpointId
    shard: ShardId
    snapshot: SavedShard


@dataclass(frozen=True, slots=True)
class InflightSaved:
    checkpoint: CheckpointId
    stream: StreamName
    epoch: Epoch
    path: str


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """A part of a checkpoint could not be made durable; ``host`` if it was a host that could not write."""

    checkpoint: CheckpointId
    message: str
    host: HostId | None = None


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """Its manifest is durable."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody asked for the end, after everything admitted."""


@dataclass(frozen=True, slots=True)
class FatalError:
    """The shell met an error that nothing can be done about (for instance: fenced)."""

    message: str


StandbyEvent = (
    HostSilent | HostHeard | CopyTaken | CopyNotTaken | CopyMissing | CopiesStand | AnswerDiffered | StandbyRequested
)
"""Of second copies."""

FrequentEvent = HeartbeatArrived | HeartbeatsArrived | SnapshotWritten | SnapshotsForked | SizesReported | LoadReported
"""Those of which every host, or every shard, has its own."""

RareEvent = (
    HostRegistered
    | HostStartFailed
    | HostDisconnected
    | Ticked
    | EpochAdmitted
    | NothingToAdmit
    | UnitFinished
    | UnitFailed
    | ShardsRestored
    | RestoreFailed
    | ReplayFinished
    | CheckpointRequested
    | RestoreRequested
    | ScaleRequested
    | StandbyEvent
    | ShardsCaughtUp
    | PartitionWritten
    | InflightSaved
    | CheckpointFailed
    | CheckpointCommitted
    | SizeHalved
    | SizeTurned
    | StopRequested
    | FatalError
)

Event = FrequentEvent | RareEvent
