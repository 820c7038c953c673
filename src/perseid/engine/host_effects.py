"""All that a host does to the world, as its machine (``engine.host``) sees it: what it asks for, and what comes of it.

``host.effects`` does it for real; ``simulation.host`` in a world of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from perseid.engine.messages import (
    Address,
    ApplyEpoch,
    CopiedShard,
    FromHost,
    KeepBackup,
    Report,
    Restore,
    SendCopy,
    Snapshot,
)
from perseid.vocabulary import Epoch, ShardId, SlotRange


class Counted(Protocol):
    """Rows, which can be counted."""

    @property
    def num_rows(self) -> int: ...


Live = TypeVar("Live")
"""An operator with the state of one shard."""
Rows = TypeVar("Rows", bound=Counted)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[Live]):
    """The shards of a restore, each with its state; how long that took, and which copies were read."""

    shards: Mapping[ShardId, Live]
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done(Generic[Answer]):
    """An epoch was applied."""

    answer: Answer
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The operator raised half-way. A ``mistake`` would be raised again whenever it is tried."""

    message: str
    mistake: bool


@dataclass(frozen=True, slots=True)
class Untouched:
    """Storage is out of reach; nothing has changed."""

    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    """What is told of an applied epoch; its size, if that was found out now."""

    report: Report
    size: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Captured:
    """A shard as it is now, for another host."""

    entry: CopiedShard
    image: object  # its state, or what changed of it, and its answers, as the effects captured them


@dataclass(frozen=True, slots=True)
class Received(Generic[Live, Answer]):
    """A shard as another host had it, or (``entry.since``) what has changed of it since."""

    entry: CopiedShard
    live: Live | None
    changes: object
    answers: Mapping[Epoch, Answer]


class Effects(Protocol[Live, Rows, Answer]):
    """All that a host does to the world."""

    def send(self, message: FromHost) -> None:
        """To the driver."""

    def now_ms(self) -> int:
        """For how long things take."""

    def unexpected(self, error: Exception) -> str:
        """What to tell of an error that nobody foresaw."""

    def stop(self, for_good: bool) -> None:
        """End."""

    # state

    def slowly(self, work: Callable[[], None], *, low_priority: bool) -> None:
        """Do what takes long, before the next message; ``low_priority``: others on the machine go first."""

    def load(self, restore: Restore) -> Loaded[Live]:
        """Raises ``CorruptData``, ``StorageFailed``, or another error of Perseid."""

    def settle(self, shards: Sequence[Live]) -> list[int]:
        """They are restored: how large they are."""

    def let_go(self, shard: Live) -> None:
        """Nobody needs it any more."""

    def save(self, command: Snapshot, shards: Sequence[Live]) -> Callable[[], None]:
        """Take snapshots of them as they are now. What is returned is done without the lock, and tells of it."""

    def give_way(self) -> None:
        """State is about to change: is somebody still reading it?"""

    # epochs

    def apply(self, shard: Live, request: ApplyEpoch, rows: Rows) -> Done[Answer] | Raised | Untouched:
        """One epoch: all of it, or what is returned says otherwise."""

    def finish(self, shard: Live, request: ApplyEpoch, rows: Rows) -> Finished:
        """After it: what is to be told."""

    def forget_answers(self, answers: Iterable[Answer]) -> None:
        """Nobody will ask for them."""

    def shrink(self, answers: dict[Epoch, Answer]) -> Epoch | None:
        """Keep them within their bounds. Returns the newest epoch whose answer there is no room for, if any."""

    # kept input

    def take_over_input(self, shard: ShardId, homes: Sequence[str]) -> Mapping[Epoch, int]:
        """Go on with what the first of these folders keeps that keeps any; bytes by epoch."""

    def write_input(self, request: ApplyEpoch, rows: Rows) -> int | None:
        """Its bytes; None if it cannot be written."""

    def read_input(self, folder: str | None, shard: ShardId, epoch: Epoch) -> tuple[ApplyEpoch, Rows] | None:
        """From the folder of another host, or (None) its own; None if it is missing or damaged."""

    def delete_input(self, shard: ShardId, epochs: Sequence[Epoch]) -> None:
        """What is not there is no error."""

    def forget_input(self, shard: ShardId) -> None:
        """All of a shard's."""

    def divide(self, shard: Live, kept: Mapping[int, tuple[SlotRange, Rows]], slots: SlotRange) -> Rows:
        """The rows of one epoch that were kept for shards before (by number), for these slots."""

    # second copies

    def capture(self, shard: Live, answers: Mapping[Epoch, Answer], before: object) -> tuple[object, object]:
        """Its state as it is now, or what changed since ``before``, and these answers; they share nothing with the shard, which goes on.
        And what to call ``before`` the next time."""

    def change(self, shard: Live, changes: object) -> None:
        """Make the state of a copy what it is now at its primary. If that fails, the copy is worth nothing."""

    def send_copy(self, command: SendCopy, shards: Sequence[Captured]) -> None:
        """To another host, beside all else that is to be done. What goes wrong is told: ``CopyNotSent``."""

    def read_rows(self, shard: ShardId, epoch: Epoch, peers: Sequence[Address]) -> tuple[ApplyEpoch, Rows] | None:
        """Input that a task kept, on this machine or on those of other hosts; None if it is nowhere, or damaged."""

    def forget_rows(self, upto: Mapping[ShardId, Epoch]) -> None:
        """Nobody needs what tasks kept on this machine, up to there."""

    def start_heart(self, beat_ms: int) -> None:
        """Have a process beside this one say how it is."""

    # backups

    def keep_backup(self, command: KeepBackup) -> None:
        """Nothing depends on it: what goes wrong is not even told."""

    def forget_backups(self, paths: Sequence[str]) -> None:
        """Files, or folders of checkpoints."""

    def forget_copies(self, paths: Sequence[str]) -> None:
        """Folders of checkpoints, on the machine's disk."""
