"""What a host does about garbage: objects are put aside before every fork, and looked through when memory has grown.

As long as the child of a fork lives, every page that the parent changes is copied, and Python's collector changes the header of every
object it looks at. So before a fork all objects are put aside (``gc.freeze``), where the collector does not come. But cyclic garbage
that is put aside stays for good. So now and then everything is taken back and looked through.

A look through a large state holds the whole process up, its heart too. It is done just before a fork, when the controller knows that
the host is at work and allows for silence by the size of the state; not while a child lives; and only when the process has grown by
a quarter since the last look. So garbage is never more than about a quarter of what is in use, and a state that grows is looked
through a number of times that depends on the logarithm of its size.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path

GROWTH = 1.25
URGENT_GROWTH = 2.0  # then children do not count
SLACK_BLOCKS = 50_000
SLACK_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a process holds: small objects are counted, large ones weigh."""

    blocks: int
    resident: int  # bytes; 0 where the system does not tell

    @classmethod
    def now(cls) -> Footprint:
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            pages = 0
        return cls(sys.getallocatedblocks(), pages * os.sysconf("SC_PAGE_SIZE"))

    def beyond(self, before: Footprint, growth: float) -> bool:
        blocks = self.blocks > growth * before.blocks + SLACK_BLOCKS
        return blocks or self.resident > growth * before.resident + SLACK_BYTES


class Garbage:
    """Of one process that forks."""

    def __init__(self) -> None:
        self._before: Footprint | None = None  # when everything was last looked through

    def put_aside(self, *, children: bool) -> None:
        """Before a fork. ``children``: some of earlier forks are still alive."""
        if self._before is None:  # the host has just restored its shards, and collected what that left behind
            gc.collect(0)
            self._before = Footprint.now()
        elif Footprint.now().beyond(self._before, URGENT_GROWTH if children else GROWTH):
            gc.unfreeze()
            gc.collect()
            self._before = Footprint.now()
        else:
            gc.collect(0)
        gc.freeze()
