"""Processes of this machine as Linux shows them: who started whom, who belongs to a session, what is an executor of Spark.

Invariant: nothing is signalled that is not Spark's or Perseid's own, so a process id that was given to somebody else is safe.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

from perseid.errors import FaultError

_OURS = (b"pyspark", b"perseid", b"org.apache.spark")
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_LOOKS = 20  # something may be started while we look for what to kill; so many looks are plenty


def parent(pid: int) -> int | None:
    """Who started the process; None if it is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def is_alive(pid: int) -> bool:
    """Whether it is there and no zombie."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def ancestors(pid: int) -> list[int]:
    """The process, who started it, and so on."""
    line = [pid]
    while (above := parent(line[-1])) is not None and above > 1 and above not in line:
        line.append(above)
    return line


def session_members(session: int) -> list[int]:
    """Every live process of a session. Spark's Python daemon makes a process group of its own, but no session."""
    members = []
    for pid in _all():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session and is_alive(pid):
                members.append(pid)
    return members


def executors(driver: int) -> list[int]:
    """The executors' JVMs below a driver, oldest first. None in local mode, where the driver's own JVM is the executor."""
    return sorted(pid for pid in _all() if _EXECUTOR in _command(pid) and driver in ancestors(pid))


def tree(pid: int) -> list[int]:
    """The process and all below it, those above first."""
    return sorted((p for p in _all() if pid in ancestors(p)), key=lambda p: len(ancestors(p)))


def executor_of(pid: int) -> int | None:
    """The executor a host or task runs in; None in local mode."""
    return next((above for above in ancestors(pid) if _EXECUTOR in _command(above)), None)


def send(pids: Iterable[int], number: int) -> list[int]:
    """Signal processes of Spark or Perseid; those that were still there. Refuses any other process."""
    struck = []
    for pid in pids:
        command = _command(pid)
        if not command:
            continue  # gone already
        if not any(word in command for word in _OURS):
            raise FaultError(
                f"process {pid} is none of Spark's or Perseid's on this machine; faults are for masters local[…] and"
                " local-cluster[…]"
            )
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            struck.append(pid)
    return struck


def kill_session(session: int) -> int:
    """SIGKILL to every process of a session: driver, JVMs, Python workers, hosts. How many there were."""
    killed: set[int] = set()
    for _ in range(_LOOKS):
        alive = [pid for pid in session_members(session) if pid not in killed]
        if not alive:
            break
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(alive)
    return len(killed)


def _all() -> list[int]:
    folder = Path("/proc")
    if not (folder / "self").exists():
        raise FaultError("faults on processes need Linux: there is no /proc here")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """State, parent, group, session, …"""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
