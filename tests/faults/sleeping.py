"""A driver that falls asleep (SIGSTOP) before the n-th change that it makes to storage while it commits an epoch.

It counts by itself: whatever the engine does there one day is a step, too. Two steps have names: ``staged``, when all rows are written,
and ``publish``, which gives the epoch its name.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
EPOCH = 4


def fall_asleep_before(step: str, base: str, mark: Path) -> None:
    """From the first look at the epoch on until it looks at the next one. ``mark`` is made when it falls asleep."""
    mine, after = f"epoch={EPOCH}", f"epoch={EPOCH + 1}"
    lock = threading.Lock()
    count, over = -1, False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count, over
        paths = [os.fspath(arg) for arg in args[:2] if isinstance(arg, str | os.PathLike)]
        if over or not paths or not str(paths[0]).startswith(base):
            return
        names = "/".join(str(path) for path in paths).split("/")
        with lock:
            if mine in names and count < 0:
                count = 0
            over = after in names
            writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
            if count < 0 or over or not (writes or event in CHANGES) or "journal" in names:
                return
            count += 1
            named = {"os.rmdir": ".attempts-" in names[-1] and "staged", "os.rename": names[-1] == mine and "publish"}
            asleep = step in (str(count), named.get(event))
            if asleep:
                over = True
        if asleep:
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY))
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(hook)
