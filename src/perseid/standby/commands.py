"""What a pair of primary and copy wants done: the commands of ``switching.Pair``.

A version says whose answers count: a host answers, and is believed, only under the version it was told last. A number says
which of several attempts at the same thing an answer belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

from perseid.vocabulary import Epoch, HostId, Version


@dataclass(frozen=True, slots=True)
class DeployCopy:
    """Send the primary's full state to this host, which suspends the copy (hybrid) or stores the state (passive)."""

    primary: HostId
    to: HostId
    number: int


@dataclass(frozen=True, slots=True)
class DropCopy:
    """This host forgets its copy."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class Switch:
    """The copy applies the kept input after ``since``, gives out nothing up to ``upto``, and answers from then on."""

    version: Version
    old: HostId
    to: HostId
    since: Epoch
    upto: Epoch


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a host of the state that ``at`` keeps: it applies the kept input after ``since``, and answers what follows ``upto``."""

    version: Version
    old: HostId
    at: HostId
    since: Epoch
    upto: Epoch


@dataclass(frozen=True, slots=True)
class ReadBack:
    """The primary reads the copy's state, beside its own, which it keeps until it has all of the other."""

    host: HostId
    source: HostId
    number: int


@dataclass(frozen=True, slots=True)
class Return:
    """The primary applies the kept input after ``since`` and answers what follows ``upto``; the copy, if there is one, is suspended."""

    version: Version
    old: HostId
    to: HostId
    since: Epoch
    upto: Epoch


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The old primary is ended, and may be killed. The promoted host is the primary now and answers under this version."""

    version: Version
    host: HostId
    promoted: HostId
    since: Epoch
    upto: Epoch
    reason: str


@dataclass(frozen=True, slots=True)
class Recover:
    """No copy can go on: the shards come back by the usual recovery, and these hosts forget what they have of them."""

    version: Version
    hosts: tuple[HostId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """This answer does not count: it was given under an old version, or by a host that may not answer."""

    host: HostId
    version: Version
    epoch: Epoch


Command = DeployCopy | DropCopy | Switch | Launch | ReadBack | Return | GiveUp | Recover | Refuse
