"""Pages that the child of a fork has written are let go, so that the parent may change them without a copy.

After a fork both processes have the same pages, and the first to change one is given a copy of it: time, and memory twice. The child
of a snapshot reads every page of the state once. When it lets a page go after that, the page is the parent's alone again. What a
host holds while a snapshot is written thus falls back to its state as the file grows, however long the child takes.

Invariant: a page is let go only when nothing in this process will read it again. Memory that two buffers share is kept: the second
one still has to be written. What is let go reads as zeros afterwards.
"""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right
from collections.abc import Iterable

import pyarrow as pa

_DONTNEED = getattr(mmap, "MADV_DONTNEED", None)
_madvise = getattr(ctypes.CDLL(None), "madvise", None) if _DONTNEED is not None else None
if _madvise is not None:
    _madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class OwnPages:
    """The memory of buffers that are each written once, and of nobody else's."""

    def __init__(self, buffers: Iterable[memoryview | bytes]) -> None:
        spans = sorted((at, at + size) for at, size in map(_span, buffers) if size)
        shared: set[tuple[int, int]] = set()
        furthest = (0, 0)
        for span in spans:
            if span[0] < furthest[1]:
                shared |= {span, furthest}
            furthest = max(furthest, span, key=lambda s: s[1])
        self._spans = [span for span in spans if span not in shared]
        self._starts = [start for start, _ in self._spans]

    def let_go(self, piece: memoryview) -> None:
        """This piece was written, and all pieces of its buffer before it."""
        at, size = _span(piece)
        index = bisect_right(self._starts, at) - 1
        if _madvise is None or index < 0 or at + size > self._spans[index][1]:
            return
        start = max(-(-self._spans[index][0] // mmap.PAGESIZE), at // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (at + size) // mmap.PAGESIZE * mmap.PAGESIZE
        if start < end:
            _madvise(start, end - start, _DONTNEED)  # refused for some kinds of memory, which is then kept


def _span(buffer: memoryview | bytes) -> tuple[int, int]:
    found = pa.py_buffer(buffer)
    return found.address, found.size
