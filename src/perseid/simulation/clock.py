"""Virtual time: a heap of things to do, one after the other. Nothing waits, so a year passes in minutes.

Invariant: time never goes back, and what is due at the same moment is done in the order in which it was asked for. So a seed
gives the same run on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Clock:
    """What happens when."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._due: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._count = 0

    def after(self, ms: float, action: Callable[..., Any], *args: Any) -> None:
        """Do this in so many milliseconds."""
        self._count += 1
        at_ms = self.now_ms + int(ms)
        heappush(self._due, (at_ms if at_ms > self.now_ms else self.now_ms, self._count, action, args))

    def at(self, at_ms: int, action: Callable[..., Any], *args: Any) -> None:
        """Do this at that moment, or now if it is over."""
        self.after(at_ms - self.now_ms, action, *args)

    @property
    def next_ms(self) -> int | None:
        """When the next thing is due."""
        return self._due[0][0] if self._due else None

    def step(self) -> bool:
        """Do the next thing; False if there is none."""
        if not self._due:
            return False
        self.now_ms, _, action, args = heappop(self._due)
        action(*args)
        return True
