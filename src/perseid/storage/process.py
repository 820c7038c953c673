"""Which process is it, and is it dead? A process id alone is given out again, so a process is known by more than that.

Invariant: ``is_dead`` says True only for a process of this very machine, boot and process namespace that is gone for
good; when in doubt it says False, and the lease's timeout decides. Spec: design 8, *Two writers*.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Process:
    """One process, for good. What the operating system does not tell is None."""

    host: str
    pid: int
    start: int | None  # in clock ticks after boot: /proc/<pid>/stat, field 22
    boot: str | None
    namespace: str | None  # of process ids: two containers may share a machine and even a host name

    @classmethod
    def this(cls) -> Process:
        state = _state_and_start(os.getpid())
        return cls(socket.gethostname(), os.getpid(), state and state[1], _boot(), _namespace())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Process:
        return cls(data["host"], data["pid"], data["start"], data["boot"], data["namespace"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def is_dead(self) -> bool:
        """Certainly gone? False for a process of another machine, boot or container, whatever became of it."""
        if (self.host, self.boot, self.namespace) != (socket.gethostname(), _boot(), _namespace()):
            return False
        state = _state_and_start(self.pid)
        if state is not None:
            return state[0] in "ZX" or (self.start is not None and state[1] != self.start)
        return not _answers(self.pid)


def _state_and_start(pid: int) -> tuple[str, int] | None:
    try:
        # The second field, the name, stands in parentheses and may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None
