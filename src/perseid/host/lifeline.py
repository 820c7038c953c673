"""A host lives as long as its executor, not only as long as the daemon that forked it.

Spark gives its Python daemon up, and with it every worker of an executor, when a task is taken back just as it waits for a new worker:
the interrupted wait looks like one that timed out (``PythonWorkerFactory.createThroughDaemon``). A lost host makes Perseid take an
epoch back, so every ninth loss of one host was the loss of all that lived beside it. A host needs no daemon: it does not listen to its
farewell, and goes down, as if killed, with the executor itself.

Invariant: no host outlives its executor. Where the system cannot tell when that is gone, the daemon's farewell counts.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

_watched: set[int] = set()


def executor() -> int | None:
    """The process of the executor that this worker belongs to: it started the daemon, which forked the worker. None where nobody tells."""
    try:
        return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


@contextlib.contextmanager
def outliving_daemon() -> Iterator[None]:
    """While a host lives in this worker."""
    process = executor()
    if process is None or not _goes_down_with(process):
        yield
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Spark may use the worker for other tasks


def _goes_down_with(process: int) -> bool:
    """See to it that this worker is killed as soon as that process has ended; False where it cannot be seen to."""
    if process in _watched:
        return True
    try:
        watch = os.pidfd_open(process)
    except (OSError, AttributeError):  # it is gone; another system than Linux
        return False
    if executor() != process:  # the number may have been given to somebody else
        os.close(watch)
        return False
    _watched.add(process)
    threading.Thread(target=_go_down_with, args=(watch,), name="perseid-lifeline", daemon=True).start()
    return True


def _go_down_with(watch: int) -> None:
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.poll()
    os.kill(os.getpid(), signal.SIGKILL)  # what it has on disk is left to whoever takes over
