"""Connections that tests forbid: a network cut between processes of one machine, where no firewall can be asked for.

Off, unless ``perseid.testing`` has said in the driver's process where cuts are written (``allow``); the driver tells its hosts and tasks.
No setting and no environment variable turns it on. Then a process that opened a connection looks there before it sends: while a file
forbids the pair, the connection is dropped, and no new one is made. One file is one cut:
``{"from": [process ids] or "*", "to": [ports] or "driver"}``; a process counts as its ancestors, too, so an executor stands for all
tasks and hosts in it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

_allowed: str | None = None


def allow(folder: str | None) -> None:
    """From now on connections of this process are cut as the files in this folder say; None: never."""
    global _allowed
    _allowed = folder


def folder() -> str | None:
    """Where cuts are written; None where there are none."""
    return _allowed


def guard(port: int, *, driver: bool) -> Callable[[], bool] | None:
    """Tells whether a connection from here to that port is cut now; None where nothing ever is."""
    if _allowed is None:
        return None
    place = _allowed
    mine = {os.getpid(), *_ancestors(os.getpid())}

    def is_cut() -> bool:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    cut = json.loads(Path(entry.path).read_text())
                    sender, receiver = cut["from"], cut["to"]
                    reached = driver if receiver == "driver" else not driver and port in receiver
                    if reached and (sender == "*" or not mine.isdisjoint(sender)):
                        return True
        return False

    return is_cut


def _ancestors(pid: int) -> list[int]:
    above: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1 and len(above) < 64:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            above.append(pid)
    return above
