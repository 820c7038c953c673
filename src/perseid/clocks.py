"""Two clocks. ``steady_ms`` measures: detection, periods, pauses, polling, limits. ``wall_ms`` is what people and rows see: the time of
epochs, journal entries, leases.

The wall clock may be put forward or back at any moment, by a person or by a time server; nothing that has to happen after a while may
depend on it. The steady clock begins with the wall clock's time when the process starts, and goes on by itself.

Invariant: ``steady_ms`` and ``EpochTime`` never run backwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_BEGAN_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, as the machine believes."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Milliseconds that pass evenly, whatever is done to the machine's clock."""
    return _BEGAN_MS + time.monotonic_ns() // 1_000_000


class EpochTime:
    """The time of epochs, which rows, timers and times to live see.

    It is the wall clock's. Where that was put back behind the newest epoch, time goes on at half its pace until the clock has caught
    up: it neither runs backwards nor stands still, so timers still fire. A clock that was given (``clock=``) is followed as it is.
    """

    def __init__(self, given: Callable[[], int] | None) -> None:
        self._given = given
        self._ahead: tuple[int, int] | None = None  # the newest epoch's time, and since when the clock is behind it

    def now_ms(self, newest_ms: int) -> int:
        """The time of an epoch that begins now; ``newest_ms``: the newest one's."""
        shown_ms = wall_ms() if self._given is None else self._given()
        if shown_ms >= newest_ms or self._given is not None:
            self._ahead = None
            return max(shown_ms, newest_ms)
        if self._ahead is None:
            self._ahead = (newest_ms, steady_ms())
        began_ms, since_ms = self._ahead
        return max(newest_ms, began_ms + (steady_ms() - since_ms) // 2)

    def source_ms(self) -> int:
        """For sources: how much time has passed, for instance to make rows at a rate."""
        return steady_ms() if self._given is None else self._given()
