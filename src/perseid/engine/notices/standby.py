"""Notices of standby: second copies of hosts' shards, and who of the two answers (H1 to H5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perseid.checkpoint.notices import Notice
from perseid.vocabulary import Epoch, HostId, OperatorName


@dataclass(frozen=True, slots=True)
class CopyWanted(Notice):
    """A host's shards should have a copy, and no host is free for it: they are as well off as without standby."""

    primary: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class CopyDeploying(Notice):
    """A copy of a host's shards is being made. ``same_fate``: one loss takes both."""

    primary: HostId
    copy: HostId
    same_fate: Literal["machine", "executor"] | None


@dataclass(frozen=True, slots=True)
class CopyDeployed(Notice):
    """The copy is there."""

    primary: HostId
    copy: HostId
    epoch: Epoch
    bytes: int
    ms: int


@dataclass(frozen=True, slots=True)
class CopyRefreshed(Notice):
    """The copy has the state of this epoch; ``full``: it was sent whole, and not what changed."""

    primary: HostId
    copy: HostId
    epoch: Epoch
    bytes: int
    ms: int
    full: bool


@dataclass(frozen=True, slots=True)
class CopyLost(Notice):
    """There is no copy any more; another is made as soon as one can be."""

    primary: HostId
    copy: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class Switched(Notice):
    """The copy answers from now on, for as long as the primary is silent."""

    primary: HostId
    copy: HostId
    epoch: Epoch  # the copy had the state of this one
    silent_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Swapped(Notice):
    """Of two hosts that both answer, the other one is the primary now: snapshots are taken of it."""

    primary: HostId  # as it was, the copy now
    copy: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class RolledBack(Notice):
    """The primary answers again; it has read the state of this epoch back from the copy."""

    primary: HostId
    copy: HostId
    epoch: Epoch
    ms: int  # since it was heard again


@dataclass(frozen=True, slots=True)
class GivenUp(Notice):
    """A host is replaced for good: the other one is the primary now."""

    host: HostId
    promoted: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class StandbyChanged(Notice):
    """An operator has another standby."""

    operator: OperatorName
    mode: str
