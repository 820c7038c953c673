"""What happens to a pair of primary and copy: the events of ``switching.Pair``, in the past tense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perseid.vocabulary import Epoch, HostId


@dataclass(frozen=True, slots=True)
class HostSilent:
    """A host missed so many heartbeats in a row: it was stopped, it got no processor, or nothing was heard of it."""

    host: HostId
    misses: int = 1
    why: Literal["stopped", "starved", "unheard"] = "unheard"


@dataclass(frozen=True, slots=True)
class HostHeard:
    """A host that was silent gave a sign of life."""

    host: HostId


@dataclass(frozen=True, slots=True)
class HostDied:
    """A host's process or connection is gone, or it was given up."""

    host: HostId


@dataclass(frozen=True, slots=True)
class PlaceFound:
    """This host can carry the copy (``placement.place_copies``)."""

    host: HostId


@dataclass(frozen=True, slots=True)
class CopyTaken:
    """A host has taken the state that was sent with this number, as of this epoch."""

    number: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class CopyNotTaken:
    """It could not be sent, or not be taken. Whoever was to get it has what it had."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerDiffered:
    """A host's answer was not the one that counted: the operator is not deterministic (active)."""

    host: HostId


@dataclass(frozen=True, slots=True)
class HostLaunched:
    """A new host is there, for a passive standby."""

    host: HostId


Event = HostSilent | HostHeard | HostDied | PlaceFound | CopyTaken | CopyNotTaken | AnswerDiffered | HostLaunched
