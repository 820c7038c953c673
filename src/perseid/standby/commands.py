"""What a pair of primary and copy wants done: the commands of ``switching.Pair``.

A number says which of several attempts at sending state an answer belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

from perseid.vocabulary import HostId


@dataclass(frozen=True, slots=True)
class SendState:
    """One host sends the full state of the pair's shards to another. ``back``: to the primary, which has its own until it has this."""

    host: HostId
    to: HostId
    number: int
    back: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """The copy is there: tasks may turn to it."""

    primary: HostId
    copy: HostId


@dataclass(frozen=True, slots=True)
class Switch:
    """The copy answers from now on. It makes up what it lacks from kept input."""

    primary: HostId
    copy: HostId


@dataclass(frozen=True, slots=True)
class Swap:
    """Both answer, and go on to: the copy is the primary from now on, and the primary its copy (active)."""

    primary: HostId
    copy: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class Return:
    """The primary answers again; the copy is suspended. ``read``: the primary has the copy's state, and need not make everything up."""

    primary: HostId
    copy: HostId
    read: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """This host was silent for too long: it is to be ended. ``HostDied`` follows."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class Promote:
    """The primary is gone for good: this host is the primary now, and answers."""

    old: HostId
    promoted: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class Launch:
    """The primary is gone, and nobody answers until a new host has the state that the copy keeps."""

    old: HostId


@dataclass(frozen=True, slots=True)
class DropCopy:
    """This host forgets its copy."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class Recover:
    """No copy can go on: the shards come back by the usual recovery."""

    reason: str


Command = SendState | Guard | Switch | Swap | Return | GiveUp | Promote | Launch | DropCopy | Recover
