"""What driver, tasks and hosts say to each other. Frozen and comparable; ``channel.codec`` derives from these types how they travel.

The driver tells hosts what to do (``ToHost``), hosts tell the driver what they did (``FromHost``); the task of a shard asks the shard's
host (``Request``) and is answered with ``RowsFollow`` and rows, or with a ``Refusal``.

Invariant: a message holds nothing but numbers, texts and other messages, so it means the same to whoever reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perseid.checkpoint.lifecycle import SavedShard
from perseid.checkpoint.size_reports import AskSizes, Quieten, ShardSize, SizeHalved, SizeTurned
from perseid.engine.shard import Refusal
from perseid.recovery.pulse import Pulse
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, SlotRange, UnitName, Version


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer listens: TCP always, and a Unix socket for peers on the same machine."""

    host: str
    port: int
    unix: str = ""
    machine: str = ""
    name: str = ""  # of the server, which nobody else has: a peer that answers for it proves that it is this one

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


# -- to a host --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartToRead:
    """Some slots of a snapshot, and the host that keeps a backup of the file, if any does."""

    snapshot: SavedShard
    slots: SlotRange
    backup: Address | None = None


@dataclass(frozen=True, slots=True)
class ShardBefore:
    """A shard that has, or had, slots of a new one, and the folder of its host if the new one's host can read it."""

    shard: ShardId
    slots: SlotRange
    folder: str | None


@dataclass(frozen=True, slots=True)
class ShardToRestore:
    """One shard, made of parts of snapshots (none: fresh), that stands at ``epoch`` then."""

    shard: ShardId
    slots: SlotRange
    epoch: Epoch
    parts: tuple[PartToRead, ...]
    upto: Epoch  # so far it may go on with input that was kept on the machine
    homes: tuple[str, ...] = ()  # folders in which earlier homes on the machine kept it, the newest first


@dataclass(frozen=True, slots=True)
class Restore:
    """Hold these shards from now on."""

    version: Version
    retain_from: Epoch  # answers to replayed epochs from here on are kept
    shards: tuple[ShardToRestore, ...]
    before: tuple[ShardBefore, ...] = ()  # lost shards that had their slots
    beside: bool = False  # others are at work meanwhile, and go first


@dataclass(frozen=True, slots=True)
class ShardToCatchUp:
    shard: ShardId
    slots: SlotRange


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Bring new shards further, with the input that the shards before them keep on this machine."""

    version: Version
    upto: Epoch
    shards: tuple[ShardToCatchUp, ...]
    before: tuple[ShardBefore, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget these shards, with their input and answers: others have taken over."""

    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class ShardToSave:
    shard: ShardId
    slots: SlotRange
    path: str  # of its snapshot, under the root


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Save these shards, which stand at ``epoch``."""

    checkpoint: CheckpointId
    unit: UnitName
    epoch: Epoch
    shards: tuple[ShardToSave, ...]
    synchronous: bool


@dataclass(frozen=True, slots=True)
class Covered:
    """A checkpoint was committed: kept input up to it is needed no more."""

    cuts: Mapping[OperatorName, Epoch]


@dataclass(frozen=True, slots=True)
class KeepBackup:
    """Fetch another host's snapshot and keep it."""

    path: str
    source: Address


@dataclass(frozen=True, slots=True)
class ReleaseBackup:
    """This snapshot need not be kept any more."""

    path: str


@dataclass(frozen=True, slots=True)
class ForgetCheckpoints:
    """These folders of checkpoints are deleted, everywhere."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShardToCopy:
    """A shard whose copy another host is to have; answers up to ``consumed`` are needed by nobody."""

    shard: ShardId
    consumed: Epoch


@dataclass(frozen=True, slots=True)
class SendCopy:
    """Send another host the state of these shards, as it is now (H2). ``back``: it is their primary, and was silent for a while."""

    number: int
    shards: tuple[ShardToCopy, ...]
    to: Address
    full: bool  # all of the state; else what changed since it was sent there last
    back: bool = False
    answers: bool = False  # whoever gets it answers at once, beside the primary (active standby)


@dataclass(frozen=True, slots=True)
class AnswerShards:
    """Answer for these shards from now on, when they stand at these epochs: what they lack is in the input that tasks keep, on this
    machine or on those of ``peers``."""

    upto: Mapping[ShardId, Epoch]
    peers: tuple[Address, ...] = ()
    both: bool = False  # the other host answers, too


@dataclass(frozen=True, slots=True)
class SuspendShards:
    """Keep these shards as a copy: another host answers for them, or (active) both do."""

    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class ForgetRows:
    """Both hosts of these shards have the state of these epochs: the input that tasks kept on this machine up to there may go."""

    upto: Mapping[ShardId, Epoch]


@dataclass(frozen=True, slots=True)
class StartHeart:
    """Let a process beside the host say every so often how the host is (H6)."""

    beat_ms: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End; ``for_good``: the application does."""

    for_good: bool


ToHost = (
    Restore
    | CatchUp
    | Drop
    | Snapshot
    | Covered
    | KeepBackup
    | ReleaseBackup
    | ForgetCheckpoints
    | AskSizes
    | Quieten
    | SendCopy
    | AnswerShards
    | SuspendShards
    | ForgetRows
    | StartHeart
    | Stop
)


# -- from a host ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """It lives."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one shard says of the last epoch it applied."""

    shard: ShardId
    epoch: Epoch
    rows_in: int
    rows_out: int
    late_rows: int = 0
    event_times_ms: Mapping[str, int] = field(default_factory=dict)  # newest, by input
    next_timer_ms: int | None = None
    next_event_timer_ms: int | None = None
    state_bytes: int = 0
    dead_letters: int = 0  # rows of this epoch
    timers_aside: int = 0
    dead_letter_error: str = ""
    ms: int = 0
    worked_ms: float = 0.0  # on all epochs since it was restored
    sizing_ms: float = 0.0  # and of them, to know its size (M5a)
    heard_s: float = 0.0  # when it came, on the driver's steady clock: set by the driver


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """What a shard had to do since the report before, and what was seen of its keys."""

    shard: ShardId
    busy_ms: int
    slots: Mapping[int, float]  # rows
    hot: tuple[str, float] | None  # the heaviest key, and its share of the shard's rows
    rows: int


@dataclass(frozen=True, slots=True)
class LoadMeasured:
    """What a host had to do in the last ``ms`` (S5)."""

    cpu: float  # of one core
    ms: int
    memory: int | None  # resident, in bytes, where the system says
    shards: tuple[ShardLoad, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """The shards of a ``Restore`` are held; some came further than their snapshot (``reached``), by kept input."""

    version: Version
    reached: Mapping[ShardId, Epoch]
    sizes: Mapping[ShardId, int] = field(default_factory=dict)
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, int] = field(
        default_factory=dict
    )  # so many snapshots were read from the root, this disk, a backup


@dataclass(frozen=True, slots=True)
class NotRestored:
    """A file is corrupt or gone (``corrupt``), storage is out of reach for now (``storage``), or something else is wrong."""

    version: Version
    message: str
    corrupt: bool
    storage: bool


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """So far kept input has brought new shards."""

    version: Version
    reached: Mapping[ShardId, Epoch]


@dataclass(frozen=True, slots=True)
class Forked:
    """A unit's snapshots are being written aside (or are written, when synchronous): its state may change."""

    checkpoint: CheckpointId
    unit: UnitName
    ms: int = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """A shard's snapshot is durable."""

    checkpoint: CheckpointId
    snapshot: SavedShard
    ms: int = 0
    serialise_ms: int = 0
    sync_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NotSaved:
    """A snapshot could not be made."""

    checkpoint: CheckpointId
    message: str


@dataclass(frozen=True, slots=True)
class GaveWay:
    """An epoch waited for the process that writes a snapshot."""

    checkpoint: CheckpointId
    ms: int


@dataclass(frozen=True, slots=True)
class BackedUp:
    """The host keeps a copy of this snapshot."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The answer to ``AskSizes``."""

    query: int
    sizes: tuple[ShardSize, ...]


@dataclass(frozen=True, slots=True)
class CopyTaken:
    """It has taken the state of shards that another host sent, as of these epochs."""

    number: int
    epochs: Mapping[ShardId, Epoch]
    bytes: int
    ms: int
    full: bool


@dataclass(frozen=True, slots=True)
class CopyNotSent:
    """The state of shards could not be sent, or was not taken."""

    number: int
    message: str


@dataclass(frozen=True, slots=True)
class CopyMissing:
    """It was told to answer for shards that it has no copy of, or lacks input for."""

    shards: tuple[ShardId, ...]
    message: str


@dataclass(frozen=True, slots=True)
class CopiesStand:
    """Where its shards stand: those for which it answers from now on, or two hosts do (active standby)."""

    epochs: Mapping[ShardId, Epoch]


@dataclass(frozen=True, slots=True)
class AnswerDiffered:
    """A shard's answer was not the one of its other host, which came first and counts. A task tells the host, and the host its driver."""

    shard: ShardId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Warned:
    """Something is not as it should be, and the application goes on."""

    message: str


@dataclass(frozen=True, slots=True)
class Advised:
    """Something in the user's operator may not do what it is meant to."""

    message: str


FromHost = (
    Heartbeat
    | Report
    | LoadMeasured
    | Restored
    | NotRestored
    | CaughtUp
    | Forked
    | Saved
    | NotSaved
    | GaveWay
    | BackedUp
    | Sizes
    | SizeHalved
    | SizeTurned
    | CopyTaken
    | CopyNotSent
    | CopyMissing
    | CopiesStand
    | AnswerDiffered
    | Warned
    | Advised
)


# -- between a task and a host ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApplyEpoch:
    """Apply this epoch of a shard, whose rows follow, or give the answer you gave; with all that a shard must know of the epoch."""

    shard: ShardId
    epoch: Epoch
    version: Version  # of the routing under which the task was planned
    release: Epoch  # answers up to here are needed no more
    time_ms: int
    watermark_ms: int | None = None
    at_ms: int | None = None  # when it was sent, by the driver's steady clock; None: in the past
    last: bool = False  # the input has ended
    aside: Literal["read", "find"] | None = None  # dead letters: leave out what is there, or put aside what raises
    wanted: bool = True  # does anybody look at the answer?


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """Give the answer that was kept, apply nothing. No rows follow."""

    shard: ShardId
    epoch: Epoch
    version: Version


Request = ApplyEpoch | RecallAnswer
FromTask = Request | AnswerDiffered  # the last has no answer


@dataclass(frozen=True, slots=True)
class RowsFollow:
    """The answer is the rows that come next."""


Reply = RowsFollow | Refusal


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """One host asks another for a snapshot, as a backup."""

    path: str


# -- between two hosts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopiedShard:
    """What a host must know of a shard to have a copy of it; its state and answers follow as so many bytes each."""

    shard: ShardId
    slots: SlotRange
    version: Version  # under which it was restored
    epoch: Epoch
    since: Epoch | None  # only what changed after this epoch follows; None: all of the state
    retain_from: Epoch  # answers before this one are not kept
    rows: Mapping[Epoch, int]  # applied, of these epochs
    report: Report | None  # of the last one
    state: tuple[int, ...] = ()
    answers: Mapping[Epoch, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CopyShards:
    """Take the state of these shards, all of it or nothing."""

    number: int
    shards: tuple[CopiedShard, ...]
    back: bool
    answers: bool

    @property
    def full(self) -> bool:
        return all(entry.since is None for entry in self.shards)


@dataclass(frozen=True, slots=True)
class FetchRows:
    """Send the input of an epoch that a task kept on your machine."""

    shard: ShardId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to ``CopyShards``; ``refusal``: why nothing was taken."""

    refusal: str = ""


# -- from a heart -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beat:
    """How a host has been since the beat before, as the kernel says."""

    number: int
    pulse: Pulse
