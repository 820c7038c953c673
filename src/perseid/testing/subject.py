"""What faults are injected into: a running application, in this process or in one of its own.

Anything with these members will do. ``InProcess`` wraps what ``app.start`` returns; ``Driver`` is a process that can be crashed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from perseid.engine.progress import HostStatus, Progress
from perseid.errors import FaultError
from perseid.testing.faults import NotNow, Target
from perseid.testing.processes import is_alive

if TYPE_CHECKING:
    import random

    from perseid.driver.running import Running


@runtime_checkable
class Subject(Protocol):
    """A running application."""

    @property
    def root(self) -> str:
        """Its checkpoint root."""

    @property
    def pid(self) -> int:
        """The process of its driver."""

    def progress(self) -> Progress | None:
        """The newest picture of it, if there is one."""

    def ended(self) -> bool:
        """Whether it came to its end. Raises if that was a bad one."""

    def crash(self) -> str:
        """Kill all of it at once and start it again; what was hit. ``FaultError`` where that cannot be."""


class InProcess:
    """An application that this process drives."""

    def __init__(self, running: Running) -> None:
        self._running = running

    @property
    def root(self) -> str:
        return self._running.root

    @property
    def pid(self) -> int:
        return os.getpid()

    def progress(self) -> Progress | None:
        return self._running.progress()

    def ended(self) -> bool:
        return self._running.wait(0)

    def crash(self) -> str:
        raise FaultError(
            "crash_driver: the driver is this very process; run the application in its own: run('app.py', plan) or Driver"
        )


def subject_of(running: Running | Subject) -> Subject:
    """What was given, as something to inject faults into."""
    if isinstance(running, Subject):
        return running
    return InProcess(running)


def working(subject: Subject) -> list[HostStatus]:
    """The hosts that hold shards and are alive, by their ids: place 0, 1, …"""
    picture = subject.progress()
    hosts = picture.hosts if picture is not None else ()
    return sorted((h for h in hosts if h.alive and h.shards and is_alive(h.pid)), key=lambda host: host.host)


def chosen_hosts(subject: Subject, target: Target, chance: random.Random, what: str) -> list[HostStatus]:
    """The hosts a target means now. ``FaultError`` if there is none such."""
    hosts = working(subject)
    if target == "all":
        picture = subject.progress()
        found = [host for host in (picture.hosts if picture else ()) if host.alive and is_alive(host.pid)]
    elif target == "spare":
        picture = subject.progress()
        found = [h for h in (picture.hosts if picture else ()) if h.alive and not h.shards and is_alive(h.pid)][:1]
    elif target == "any":
        found = [chance.choice(hosts)] if hosts else []
    elif isinstance(target, int):
        found = hosts[target : target + 1]
    else:
        found = [host for host in hosts if target in host.shards]
    if not found:
        raise NotNow(f"{what}: there is no such host now; {_there(hosts)}")
    return found


def require_target(subject: Subject, target: Target, what: str) -> None:
    """``FaultError`` for a host that a healthy application of this size never has. To be asked while nothing is broken."""
    hosts = working(subject)
    if isinstance(target, int) and target >= len(hosts):
        raise FaultError(f"{what}: there is no host {target}; {_there(hosts)}")
    if isinstance(target, str) and "/" in target and not any(target in host.shards for host in hosts):
        raise FaultError(f"{what}: no host holds the shard {target}; {_there(hosts)}")


def _there(hosts: list[HostStatus]) -> str:
    if not hosts:
        return "no host holds shards"
    return "hosts with shards are " + ", ".join(f"{place} ({', '.join(h.shards)})" for place, h in enumerate(hosts))
