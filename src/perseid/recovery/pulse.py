"""How a process is, as the kernel sees it (H6): alive though it says nothing, or stopped, starved, gone.

A Python process that pickles, restores or runs a long regular expression holds its interpreter, and with it every thread that could say
that it is alive. The kernel knows better: it counts how long the process ran, and how long it was ready to run and had to wait for a
processor. This module judges what was read of ``/proc``; ``host/heart.py`` reads it.

busy      it runs
idle      it waits for something to do
blocked   it waits for a disk and does nothing else
starved   it would run, but others have the processors: as slow as if it were stopped
stopped   it is stopped (SIGSTOP, a debugger, a frozen container that shows itself so)
gone      it has ended, or its number is another process's now

Invariant: a process that ran for its share of the time is alive, however long it said nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

STARVED_SHARE = 0.9  # of the time in which it wanted to run it had to wait
BUSY_SHARE = 0.1  # of the time it ran
WANTED_SHARE = 0.5  # of the time it must have wanted to run, or it is not starved but has little to do
NS_PER_MS = 1_000_000


class Pulse(enum.StrEnum):
    """The judgement."""

    BUSY = "busy"
    IDLE = "idle"
    BLOCKED = "blocked"
    STARVED = "starved"
    STOPPED = "stopped"
    GONE = "gone"

    @property
    def alive(self) -> bool:
        """Does this count as a heartbeat?"""
        return self in (Pulse.BUSY, Pulse.IDLE, Pulse.BLOCKED)


class Used(NamedTuple):
    """What a thread has had since it began."""

    ran_ns: int
    waited_ns: int  # ready to run, without a processor


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What the kernel said of a process at one moment."""

    at_ms: int
    state: str  # of the process: a letter, as in ps
    started: int  # when, in the kernel's own count: tells processes with one number apart
    threads: Mapping[int, Used]


def glimpse(at_ms: int, stat: str, schedstats: Mapping[int, str]) -> Glimpse:
    """What ``/proc/PID/stat`` and the ``schedstat`` of each of its threads say. Raises ``ValueError`` for anything else."""
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    if len(fields) < 20:
        raise ValueError(f"/proc/PID/stat: expected 20 fields or more behind the name, got {stat!r}")
    threads = {}
    for thread, text in schedstats.items():
        ran, waited, *_ = text.split()
        threads[thread] = Used(int(ran), int(waited))
    return Glimpse(at_ms, fields[0], int(fields[19]), threads)


def judge(seen: Sequence[Glimpse | None]) -> Pulse:
    """How the process was between the first glimpse and the last; None is one that found no process."""
    there = [one for one in seen if one is not None]
    if not there or len(there) < len(seen) or there[-1].state in "ZXx" or len({one.started for one in there}) > 1:
        return Pulse.GONE
    first, last = there[0], there[-1]
    stopped = sum(one.state in "Tt" for one in there)
    if last.state in "Tt" or 2 * stopped > len(there):
        return Pulse.STOPPED
    ran, waited = _between(first, last)
    passed = NS_PER_MS * max(1, last.at_ms - first.at_ms)
    if all(one.state == "R" for one in there):
        waited = max(waited, passed - ran)  # the kernel counts a wait when it is over
    if ran + waited >= WANTED_SHARE * passed and waited >= STARVED_SHARE * (ran + waited):
        return Pulse.STARVED
    if all(one.state == "D" for one in there):
        return Pulse.BLOCKED
    return Pulse.BUSY if ran >= BUSY_SHARE * passed else Pulse.IDLE


def _between(first: Glimpse, last: Glimpse) -> Used:
    """What all threads that still live have had meanwhile."""
    none = Used(0, 0)
    pairs = [(first.threads.get(thread, none), used) for thread, used in last.threads.items()]
    return Used(
        sum(now.ran_ns - before.ran_ns for before, now in pairs),
        sum(now.waited_ns - before.waited_ns for before, now in pairs),
    )
