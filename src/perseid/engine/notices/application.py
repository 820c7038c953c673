"""Notices of an application, of its hosts and of what went wrong around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.notices import Notice, plain
from perseid.vocabulary import CheckpointId, Epoch, Generation, HostId, OperatorName, ShardId, UnitName


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
class JournalContinues(Notice):
    """Another file of the journal begins. What was told before may be read later, or be gone: so this is what still holds of it."""

    started: AppStarted
    alive: tuple[HostReady, ...]
    shards: Mapping[ShardId, HostId]

    def record(self) -> dict[str, Any]:
        alive = [host.record() for host in self.alive]
        return {**self.started.record(), "alive": alive, "shards": plain(self.shards)}


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


@dataclass(frozen=True, slots=True)
class StorageFailed(Notice):
    """Something could not be written, and is tried again."""

    command: str
    error: str


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
