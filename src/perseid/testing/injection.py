"""Faults become real: signals to processes, cuts between them, damage on the disk.

``inject(fault, running)`` strikes at once and returns; what passes by itself (a pause, a cut, a full disk) is undone by a thread when
its time is over, at ``hit.heal()``, or at the latest when this process ends. Every fault that struck is counted.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from perseid.engine.progress import HostStatus
from perseid.errors import FaultError
from perseid.testing import processes, storage
from perseid.testing.counter import count_fault
from perseid.testing.faults import (
    Corrupt,
    CrashDriver,
    FailStorage,
    Fault,
    Kill,
    NotNow,
    Overload,
    Partition,
    Pause,
    Slow,
    Target,
    kind_of,
)
from perseid.testing.network import Cut
from perseid.testing.subject import Subject, chosen_hosts, subject_of

if TYPE_CHECKING:
    from perseid.driver.running import Running

SLOW_PERIOD_S = 0.1
_BURN = "import os, time\ntry: os.nice(-10)\nexcept OSError: pass\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"

_healing: set[Hit] = set()


class Hit:
    """A fault that has struck."""

    def __init__(self, fault: Fault, what: str, heal: Callable[[], None] | None = None, seconds: float = 0.0) -> None:
        self.fault, self.what, self.at_s = fault, what, time.monotonic()
        self._heal, self._lock = heal, threading.Lock()
        self._healed = threading.Event()
        count_fault(kind_of(fault))
        if heal is None:
            self._healed.set()
        else:
            _healing.add(self)
            threading.Thread(target=self._later, args=(seconds,), name="perseid-heal", daemon=True).start()

    def heal(self) -> None:
        """Undo it now, if it can be undone and is not yet."""
        with self._lock:
            if self._healed.is_set() or self._heal is None:
                return
            self._heal()
            self._healed.set()
            _healing.discard(self)

    @property
    def healed(self) -> bool:
        """Whether it is over."""
        return self._healed.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it is over."""
        return self._healed.wait(timeout_s)

    def _later(self, seconds: float) -> None:
        if not self._healed.wait(seconds):
            self.heal()

    def __repr__(self) -> str:
        return f"Hit({self.what})"


@atexit.register
def heal_everything() -> None:
    """Nothing stays stopped, cut or full behind a test that failed."""
    for hit in list(_healing):
        hit.heal()


def inject(fault: Fault, running: Running | Subject, chance: random.Random | None = None) -> Hit:
    """Strike now. Raises ``FaultError`` if what it names is not there."""
    subject = subject_of(running)
    chance = chance or random.Random()
    match fault:
        case Kill(host=None, executor=target) if target is not None:
            struck = _executors(fault, target, subject, chance)
            processes.send(struck, signal.SIGKILL)
            return Hit(fault, f"killed {_numbered(struck)}")
        case Pause(host=None, executor=target) if target is not None:
            struck = _executors(fault, target, subject, chance)
            asleep = [pid for executor in struck for pid in processes.tree(executor)]
            processes.send(asleep, signal.SIGSTOP)
            what = f"paused {_numbered(struck)} and all in it for {fault.seconds:g} s"
            return Hit(fault, what, lambda: _wake(asleep), fault.seconds)
        case Kill(host=target) if target is not None:
            hosts = chosen_hosts(subject, target, chance, str(fault))
            _send(hosts, signal.SIGKILL, fault)
            return Hit(fault, f"killed {_named(hosts)}")
        case Pause(host=target, seconds=seconds) if target is not None:
            hosts = chosen_hosts(subject, target, chance, str(fault))
            _send(hosts, signal.SIGSTOP, fault)
            asleep = [host.pid for host in hosts]
            return Hit(fault, f"paused {_named(hosts)} for {seconds:g} s", lambda: _wake(asleep), seconds)
        case Slow(target, seconds, percent):
            hosts = chosen_hosts(subject, target, chance, str(fault))
            brake = _Brake(hosts, percent)
            return Hit(fault, f"slowed {_named(hosts)} by {percent} % for {seconds:g} s", brake.release, seconds)
        case Overload(seconds, wanted):
            count = wanted or 2 * (os.cpu_count() or 1)
            burners = [subprocess.Popen([sys.executable, "-c", _BURN.format(seconds)]) for _ in range(count)]
            return Hit(fault, f"{count} processes burn the cores for {seconds:g} s", lambda: _end(burners), seconds)
        case Partition(_, _, seconds):
            cuts, what = _cut(fault, subject, chance)
            return Hit(fault, f"{what} for {seconds:g} s", lambda: _join(cuts), seconds)
        case Corrupt():
            files = storage.corrupt(subject.root, fault)
            return Hit(fault, f"corrupted ({fault.how}) " + ", ".join(f"{f.parent.name}/{f.name}" for f in files))
        case FailStorage(how, seconds):
            made = storage.fail(how, subject.root, seconds)
            return Hit(fault, f"storage {how} for {seconds:g} s", made.heal, seconds)
        case CrashDriver():
            return Hit(fault, subject.crash())
    raise FaultError(f"{fault!r}: no such fault")


def _executors(fault: Kill | Pause, target: Target, subject: Subject, chance: random.Random) -> list[int]:
    """The executors a target means now."""
    found = processes.executors(subject.pid)
    if not found:
        picture = subject.progress()
        if picture is None or not any(subject.pid in processes.ancestors(host.pid) for host in picture.hosts):
            raise NotNow(f"{fault}: there are no executors now, nor hosts in them")  # a host outlives its executor
        raise FaultError(f"{fault}: there are no executors of their own: use a master such as local-cluster[2,3,1024]")
    if target == "all":
        return found
    if target == "any":
        return [chance.choice(found)]
    if isinstance(target, str):
        near = processes.executor_of(chosen_hosts(subject, target, chance, str(fault))[0].pid)
        return [near] if near is not None else []
    if target >= len(found):
        raise NotNow(f"{fault}: there are {len(found)} executors now, from 0 to {len(found) - 1}")
    return [found[target]]


def _numbered(executors: list[int]) -> str:
    name = "executor" if len(executors) == 1 else f"{len(executors)} executors"
    return f"{name} (process {', '.join(map(str, executors))})"


def _send(hosts: list[HostStatus], number: int, fault: Fault) -> None:
    if not processes.send([host.pid for host in hosts], number):
        raise NotNow(f"{fault}: {_named(hosts)} was gone already")


def _wake(pids: list[int]) -> None:
    """Those that were put to rest meanwhile are gone: nothing to wake."""
    processes.send(filter(processes.is_alive, pids), signal.SIGCONT)


class _Brake:
    """Stops hosts for a part of every period."""

    def __init__(self, hosts: list[HostStatus], percent: int) -> None:
        self._pids, self._stopped_s = [host.pid for host in hosts], SLOW_PERIOD_S * percent / 100
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="perseid-slow", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._ended.is_set() and processes.send(filter(processes.is_alive, self._pids), signal.SIGSTOP):
            self._ended.wait(self._stopped_s)
            _wake(self._pids)
            self._ended.wait(SLOW_PERIOD_S - self._stopped_s)

    def release(self) -> None:
        self._ended.set()
        self._thread.join(5)
        _wake(self._pids)


def _cut(fault: Partition, subject: Subject, chance: random.Random) -> tuple[list[Cut], str]:
    ends = [fault.one, fault.other]
    others = [end for end in ends if end in ("driver", "tasks")]
    hosts = [chosen_hosts(subject, end, chance, str(fault))[0] for end in ends if end not in others]
    if others == ["driver"]:
        return [Cut([hosts[0].pid], "driver")], f"cut {_named(hosts)} off from the driver"
    if others == ["tasks"]:
        return [Cut("*", [_port(hosts[0])])], f"cut {_named(hosts)} off from the tasks of epochs"
    near = [processes.executor_of(host.pid) for host in hosts]
    if None in near or near[0] == near[1]:
        raise FaultError(
            f"{fault}: hosts of one executor have no network between them; use 'driver' or 'tasks', or a master such as"
            " local-cluster[2,3,1024]"
        )
    cuts = [Cut([near[0] or 0], [_port(hosts[1])]), Cut([near[1] or 0], [_port(hosts[0])])]
    return cuts, f"cut host {hosts[0].host} and host {hosts[1].host} with their executors off from each other"


def _join(cuts: list[Cut]) -> None:
    for cut in cuts:
        cut.heal()


def _port(host: HostStatus) -> int:
    return int(host.address.rpartition(":")[2])


def _named(hosts: list[HostStatus]) -> str:
    told = [f"{h.host} ({', '.join(h.shards) or 'spare'}; process {h.pid})" for h in hosts]
    return ("host " if len(hosts) == 1 else f"{len(hosts)} hosts: ") + ", ".join(told)


def _end(burners: list[subprocess.Popen[bytes]]) -> None:
    for burner in burners:
        burner.kill()
        burner.wait()
