"""What happens to a pair of primary and copy: the events of ``switching.Pair``, in the past tense.

An answer to a command repeats the command's version or number, so that a late one is known as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from perseid.standby.modes import Standby
from perseid.vocabulary import Epoch, HostId, Version


@dataclass(frozen=True, slots=True)
class BeatMissed:
    """No sign of life of a host for so many heartbeats in a row."""

    host: HostId
    count: int = 1


@dataclass(frozen=True, slots=True)
class BeatArrived:
    """A host gave a sign of life."""

    host: HostId


@dataclass(frozen=True, slots=True)
class HostDied:
    """A host's process or connection is gone, or the detector has given it up."""

    host: HostId


@dataclass(frozen=True, slots=True)
class PlaceFound:
    """This host can carry the copy (``placement.place_copies``)."""

    host: HostId


@dataclass(frozen=True, slots=True)
class CopyDeployed:
    """The copy has the full state as of this epoch, and is suspended."""

    host: HostId
    number: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class DeployFailed:
    """There will be no copy on this host."""

    host: HostId
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class CopyRefreshed:
    """The copy has the state as of this epoch: it was sent, and applied, under this version."""

    host: HostId
    version: Version
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochAnswered:
    """A task brought a host's answer for an epoch, given under this version."""

    host: HostId
    version: Version
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class StateRead:
    """The primary has read the copy's state as of this epoch."""

    host: HostId
    number: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The primary could not read the copy's state; its own is as it was."""

    host: HostId
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class HostLaunched:
    """A new host holds the state that was kept for a passive standby."""

    host: HostId
    version: Version


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """No new host could be made of the kept state."""

    version: Version
    reason: str


@dataclass(frozen=True, slots=True)
class CatchUpFailed:
    """The input that a host lacks is not kept any more."""

    host: HostId
    version: Version
    reason: str


@dataclass(frozen=True, slots=True)
class ShardsRecovered:
    """The usual recovery has brought the shards back on this host, up to this epoch."""

    host: HostId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class StandbyChanged:
    """Somebody wants another standby for the unit."""

    standby: Standby


Event = (
    BeatMissed
    | BeatArrived
    | HostDied
    | PlaceFound
    | CopyDeployed
    | DeployFailed
    | CopyRefreshed
    | EpochAnswered
    | StateRead
    | ReadFailed
    | HostLaunched
    | LaunchFailed
    | CatchUpFailed
    | ShardsRecovered
    | StandbyChanged
)
