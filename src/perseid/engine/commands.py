"""Commands: what the controller wants done. Frozen, comparable, printable; a shell carries them out.

Each belongs to one group, by who carries it out: ``HostCommand``, ``StandbyCommand``, ``PoolCommand``, ``UnitCommand``, ``StreamCommand``,
``LedgerCommand``, ``StorageCommand``, ``Reply``. A shell matches all of them, so that a new one cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint, SnapshotPart
from perseid.checkpoint.size_reports import AskSizes as AskSizes
from perseid.checkpoint.size_reports import Quieten as Quieten
from perseid.scaling.bottleneck import ScaleProposal
from perseid.scaling.routing import Route, RoutingTable, Shards
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


@dataclass(frozen=True, slots=True)
class StartHost:
    """Ask Spark for one more host."""


@dataclass(frozen=True, slots=True)
class DropHost:
    """This host is dead to us: close its connection, cancel its task, never listen to it again."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseHost:
    """This host has nothing to do any more: let it end."""

    host: HostId


@dataclass(frozen=True, slots=True)
class AdmitEpoch:
    """Look at the sources and write the next epoch's slices into the ledger."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class AbandonAdmission:
    """The application ends: give up the epoch that is waited for. ``NothingToAdmit`` or ``EpochAdmitted`` follows."""


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Run one epoch of one unit as a Spark job under this routing table."""

    unit: UnitName
    epoch: Epoch
    attempt: Attempt
    routing: RoutingTable
    release: Epoch  # hosts may forget the unit's outputs up to here
    release_covered: Epoch  # and those that other operators stand on, up to here
    set_aside: frozenset[OperatorName] = frozenset()  # these have rows of this epoch in the dead letters
    find: bool = False  # or may put them there: those that make them raise
    again: bool = False  # it was tried before: streams from other units may know hosts that are gone


@dataclass(frozen=True, slots=True)
class CancelUnit:
    """Stop the unit's running job; its end is told by UnitFailed or UnitFinished."""

    unit: UnitName
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class CommitEpoch:
    """Write into the ledger that the unit is done with the epoch."""

    unit: UnitName
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class ResetStreams:
    """Forget what is between units; go on from these in-flight epochs of a checkpoint (path by stream and epoch)."""

    inflight: Mapping[tuple[StreamName, Epoch], str]
    finished: Mapping[UnitName, Epoch]


@dataclass(frozen=True, slots=True)
class OfferInflight:
    """Shards go back alone: these in-flight epochs of their checkpoint may be read once more (path by stream and epoch)."""

    inflight: Mapping[tuple[StreamName, Epoch], str]


@dataclass(frozen=True, slots=True)
class RestoreShards:
    """Tell a host to hold these shards, made of these parts of snapshots, under this version."""

    host: HostId
    version: Version
    shards: tuple[tuple[Route, tuple[SnapshotPart, ...], Epoch], ...]  # route, parts (none: fresh), epoch it stands at
    retain_from: Epoch  # outputs of replayed epochs from here on are kept
    upto: Mapping[UnitName, Epoch] = field(default_factory=dict)  # epochs they may apply from input kept on the machine
    before: tuple[Route, ...] = ()  # lost shards that had the slots of these: their kept input will do, too
    beside: bool = False  # others are at work meanwhile, and go first


@dataclass(frozen=True, slots=True)
class CatchUpShards:
    """Tell a host to bring new shards further, with the input that the shards before them keep on its machine."""

    host: HostId
    version: Version
    shards: tuple[Route, ...]
    before: tuple[Route, ...]  # those that work on the same slots now
    upto: Epoch


@dataclass(frozen=True, slots=True)
class DropShards:
    """Tell a host to forget these shards: others have taken over, or they were never needed."""

    host: HostId
    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class SendCopy:
    """Tell a host to send another one the state of these shards (H2)."""

    host: HostId
    to: HostId
    number: int
    shards: Mapping[ShardId, Epoch]  # answers up to here are needed by nobody
    full: bool
    back: bool = False  # to the primary, which was silent
    answers: bool = False  # the copy answers, too (active)


@dataclass(frozen=True, slots=True)
class AnswerShards:
    """Tell a host to answer for these shards, as soon as they stand at these epochs."""

    host: HostId
    upto: Mapping[ShardId, Epoch]
    both: bool = False  # its copy does, too (active)


@dataclass(frozen=True, slots=True)
class SuspendShards:
    """Tell a host not to answer for these shards: another one does."""

    host: HostId
    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class ForgetRows:
    """Tell all hosts that the input which tasks keep of these shards is not needed up to these epochs."""

    upto: Mapping[ShardId, Epoch]


@dataclass(frozen=True, slots=True)
class StartHeart:
    """Tell a host to have a process beside it say how it is (H6)."""

    host: HostId
    beat_ms: int


@dataclass(frozen=True, slots=True)
class WritePartition:
    """Write into the ledger how an operator's slots are divided from now on."""

    operator: OperatorName
    declared: int
    shards: Shards
    version: Version


@dataclass(frozen=True, slots=True)
class AskToScale:
    """An operator should have other shards: ask for it as a user would, with the split points that fit its keys."""

    proposal: ScaleProposal


@dataclass(frozen=True, slots=True)
class Answered:
    """For whoever asked for a checkpoint, or for a restore: it is done, or why it was not."""

    number: int  # of the request
    checkpoint: CompletedCheckpoint | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayShards:
    """Feed restored shards the epochs they missed; nothing reaches sinks."""

    unit: UnitName
    attempt: Attempt
    first: Epoch
    last: Epoch
    shards: tuple[ShardId, ...]
    routing: RoutingTable
    release: Epoch
    set_aside: Mapping[Epoch, frozenset[OperatorName]] = field(default_factory=dict)  # with rows in the dead letters
    again: bool = False  # a replay failed before: streams from other units may know hosts that are gone
    beside: bool = False  # for shards that are nobody's yet: the unit goes on with its epochs meanwhile


@dataclass(frozen=True, slots=True)
class TakeSnapshots:
    """Tell a host to snapshot these shards, which stand at ``epoch``."""

    host: HostId
    checkpoint: CheckpointId
    unit: UnitName
    epoch: Epoch
    shards: tuple[Route, ...]
    synchronous: bool


@dataclass(frozen=True, slots=True)
class SaveInflight:
    """Make one epoch of a stream durable as part of a checkpoint."""

    checkpoint: CheckpointId
    stream: StreamName
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class CommitCheckpoint:
    """Everything it needs is durable: write its manifest."""

    pending: PendingCheckpoint
    scheme: str
    covered: Mapping[UnitName, Epoch] = field(default_factory=dict)  # what a unit alone would go back to, if it differs


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Throw away what a checkpoint has written so far."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseStream:
    """A stream's epochs up to here are needed no more."""

    stream: StreamName
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Trim:
    """A newer checkpoint covers these: delete old checkpoints, trim ledger, sources and durable streams."""

    delete: tuple[CheckpointId, ...]
    oldest: CompletedCheckpoint  # the oldest one kept


@dataclass(frozen=True, slots=True)
class StopApplication:
    """Everything is done, or cannot go on (``error``): end hosts and threads."""

    error: str | None
    unsaved: str | None = None  # everything is committed, but the last checkpoint failed: why


HostCommand = RestoreShards | CatchUpShards | DropShards | TakeSnapshots | AskSizes | Quieten
"""Told to a host."""

StandbyCommand = SendCopy | AnswerShards | SuspendShards | ForgetRows | StartHeart
"""Told to a host about second copies."""

PoolCommand = StartHost | DropHost | ReleaseHost
"""Which hosts there are."""

UnitCommand = RunEpoch | ReplayShards | CancelUnit
"""A unit's jobs."""

StreamCommand = ResetStreams | OfferInflight | ReleaseStream
"""What is kept between units."""

LedgerCommand = AdmitEpoch | AbandonAdmission | CommitEpoch
"""Epochs: which there are, and which are done."""

StorageCommand = SaveInflight | CommitCheckpoint | AbortCheckpoint | WritePartition | Trim
"""Slow work on the root, carried out in the order of the commands."""

Reply = Answered | AskToScale
"""To whoever asked for something, or will ask for it."""

Command = (
    HostCommand
    | StandbyCommand
    | PoolCommand
    | UnitCommand
    | StreamCommand
    | LedgerCommand
    | StorageCommand
    | Reply
    | StopApplication
)
