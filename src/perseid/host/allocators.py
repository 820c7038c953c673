"""Allocator settings that keep a host's memory small: a host lives long, and its memory should be that of its state.

Arrow's own allocator keeps what a thread used after that thread has ended, and the C library keeps large pieces in the arena of every
thread. A host has a thread for each connection: together they held up to 70 MB beside 150 MB of state, all of it free. So Arrow's
own allocator is not used in workers (``perseid.spark.session``), and in a host the C library takes large pieces from the system one by
one and gives them back at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # names of the GNU C library (malloc.h)
_LARGE = 256 << 10
_LARGEST = 32 << 20
"""What the C library takes for large by itself in the end, in a process that uses large pieces again and again."""
_ARENAS = 2


@contextlib.contextmanager
def sparing() -> Iterator[None]:
    """While a host lives in this process. Spark lets the worker live on for other tasks, and for hosts of other applications: it is left
    as empty as it was, and as fast. Tasks use large pieces again and again, and take a third longer where each is the system's to give
    and to clear; the C library, once told, no longer finds that out by itself."""
    _trim()  # what the worker held for tasks before
    _tell((_MMAP_THRESHOLD, _LARGE), (_ARENA_MAX, _ARENAS))
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as the daemon did: Spark collects garbage after every task, and would look at every module each time
        gc.set_threshold(*usual)
        _trim()
        _tell((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, 2 * _LARGEST))


def _tell(*settings: tuple[int, int]) -> None:
    """Settings of the C library; other systems' have none."""
    with contextlib.suppress(AttributeError):
        for name, value in settings:
            ctypes.CDLL(None).mallopt(name, value)


def _trim() -> None:
    """Give the system what allocators hold and nobody uses."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
