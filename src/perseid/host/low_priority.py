"""Work that can wait, on a machine that has other work: done in a thread that gives way to whatever else wants the cores.

New shards are made beside the old ones (S3): four hosts that read 500 MB leave two cores little time for the epochs of the running
stream. A thread and not the process, for a priority that was given up cannot be had back.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

NICE = 10


def at_low_priority(work: Callable[[], R]) -> R:
    """What ``work`` returns or raises, after it has given way; where the system has no such thing, as fast as ever."""

    def giving_way() -> R:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # on Linux, of this thread alone
        return work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(giving_way).result()
