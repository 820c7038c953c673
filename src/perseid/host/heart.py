"""A host's heart: a small process beside it that says how the host is, whatever holds the host up (H6).

A thread of the host beats late or not at all while another holds the interpreter: a long regular expression, a pickle, a fork of a large
state, a restore. This process shares nothing with the host after it was forked, and asks the kernel (``recovery.pulse``). The last of its
beats says ``gone``. A connection that ends without that lost its heart, not its host.

Invariants: it ends when its host has ended, or nobody listens any more; it keeps nothing open but its connection, so that whatever the host
had open is closed with the host.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from perseid.channel.connection import Connection
from perseid.engine.messages import Beat
from perseid.errors import ChannelError
from perseid.recovery.pulse import Glimpse, Pulse, glimpse, judge

GLIMPSES = 2  # for every beat
MOST_FILES = 1 << 16
SEND_S = 5.0  # who does not take a beat for so long does not listen


@dataclass(frozen=True, slots=True)
class Heart:
    """The process that beats for this one."""

    process: int

    def stop(self) -> None:
        """End it: the host has ended well, and its process may go on as something else."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.process, 0)


def start_heart(connection: Connection, beat_ms: int) -> Heart | None:
    """Fork a process that beats for this one on a connection. None where the system does not tell how processes are.

    The connection is the heart's alone afterwards: it is closed here.
    """
    host = os.getpid()
    if look(host, 0) is None or not hasattr(os, "pidfd_open"):
        return None
    process = os.fork()
    if process:
        connection.close()
        return Heart(process)
    try:
        _beat(host, connection, beat_ms)
    finally:
        os._exit(0)


def look(process: int, at_ms: int, *, threads: bool = True) -> Glimpse | None:
    """What the kernel says of a process now, and of its threads, which takes longer; None: there is no such process."""
    folder = Path("/proc") / str(process)
    try:
        stat = (folder / "stat").read_text()
        schedstats = {}
        for thread in os.listdir(folder / "task") if threads else ():  # noqa: PTH208  a heart has no time for paths
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                schedstats[int(thread)] = (folder / "task" / thread / "schedstat").read_text()
        return glimpse(at_ms, stat, schedstats)
    except (OSError, ValueError):
        return None


def _beat(host: int, connection: Connection, beat_ms: int) -> None:
    """The life of the heart."""
    for stray in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(stray, signal.SIG_IGN)  # meant for the host, whose end it tells
    _close_all_but(connection.fileno())
    connection.deadline(SEND_S)
    watch = os.pidfd_open(host)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(connection, select.POLLRDHUP)
    seen = [look(host, _now_ms())]
    number, next_ms = 0, _now_ms() + beat_ms
    while True:
        events = dict(poll.poll(max(0, min(beat_ms // GLIMPSES, next_ms - _now_ms()))))
        if connection.fileno() in events:
            return  # nobody listens
        now_ms = _now_ms()
        ended = watch in events or os.getppid() != host
        seen.append(None if ended else look(host, now_ms, threads=now_ms >= next_ms))
        pulse = judge(seen)
        if pulse is not Pulse.GONE and now_ms < next_ms:
            continue
        number += 1
        try:
            connection.tell(Beat(number, pulse))
        except ChannelError:
            return
        if pulse is Pulse.GONE:
            return
        seen, next_ms = seen[-1:], max(next_ms + beat_ms, now_ms)


def _close_all_but(file: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, file)
    os.closerange(file + 1, MOST_FILES)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
