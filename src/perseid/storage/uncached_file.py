"""Large files written past the page cache: through a small buffer straight to the disk, where the file system can do that.

A snapshot is written once and hardly ever read. In the page cache it takes memory as large as the state, which the kernel must find first:
150 MB took 40 to 430 ms by what memory was free, and then 50 to 140 ms to sync; past the cache 130 to 200 ms, with nothing left to sync.
Operating system calls only, so that a forked child may use it.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterable

_DIRECT = getattr(os, "O_DIRECT", 0)  # there is none on some systems
_BLOCK_BYTES = 4096
_BUFFER_BYTES = 4 << 20


def write_past_cache(
    fd: int, chunks: Iterable[bytes | memoryview], written: Callable[[memoryview], None] | None = None
) -> int:
    """Write chunks to a new file; how many bytes they were. ``written`` is told of each chunk that is needed no more.

    What is no whole block, the end, goes through the cache: the file is not durable before it is synced.
    """
    buffer = memoryview(mmap.mmap(-1, _BUFFER_BYTES))  # aligned, as the disk wants it
    size = held = 0
    _switch(fd, on=True)
    for chunk in chunks:
        piece = rest = memoryview(chunk).cast("B")
        while rest.nbytes:
            taken = min(rest.nbytes, _BUFFER_BYTES - held)
            buffer[held : held + taken] = rest[:taken]
            held, rest = held + taken, rest[taken:]
            if held == _BUFFER_BYTES:
                _write(fd, buffer)
                size, held = size + held, 0
        if written is not None:
            written(piece)
    blocks = held // _BLOCK_BYTES * _BLOCK_BYTES
    _write(fd, buffer[:blocks])
    _switch(fd, on=False)
    _write(fd, buffer[blocks:held])
    return size + held


def _write(fd: int, data: memoryview) -> None:
    while data.nbytes:
        try:
            data = data[os.write(fd, data) :]
        except OSError as error:
            if error.errno != errno.EINVAL or not _switch(fd, on=False):
                raise  # else this file system has other blocks, or took a part of one


def _switch(fd: int, *, on: bool) -> bool:
    """Go past the cache, or through it again; whether that changed anything."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    wanted = flags | _DIRECT if on else flags & ~_DIRECT
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, wanted)
    except OSError:
        return False  # not with this file system
    return wanted != flags
