"""A clock that tests move: the time of epochs, and with it timers, times to live and the rate of generators.

Invariant: it never runs backwards, and nothing but the test moves it. ``app.start(spark, clock=clock)`` gives it to a real
application: only the time of epochs comes from it; heartbeats and leases go on by the machine's own clock.
"""

from __future__ import annotations

import threading

from perseid.duration import Duration
from perseid.errors import SettingsError


class Clock:
    """Milliseconds since the Unix epoch, as far as the test has moved them.

    >>> clock = Clock(1_000)
    >>> clock.advance(seconds=5)
    6000
    >>> clock()
    6000
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = _whole(start_ms, "Clock")
        self._lock = threading.Lock()

    def __call__(self) -> int:
        return self._now_ms

    @property
    def now_ms(self) -> int:
        """What it shows."""
        return self._now_ms

    def advance(self, by: Duration | None = None, *, seconds: float = 0, ms: int = 0) -> int:
        """Move it on: ``advance(every(hours=1))``, ``advance(seconds=5)``, ``advance(ms=20)``. What it shows then."""
        step_ms = (0 if by is None else by.ms) + round(seconds * 1000) + ms
        if step_ms < 0:
            raise SettingsError(
                f"clock.advance: expected a step forward, got {step_ms} ms: time does not run backwards"
            )
        with self._lock:
            self._now_ms += step_ms
            return self._now_ms

    def move_to(self, at_ms: int) -> int:
        """Move it on to this moment."""
        with self._lock:
            if _whole(at_ms, "clock.move_to") < self._now_ms:
                raise SettingsError(
                    f"clock.move_to({at_ms}): the clock shows {self._now_ms} ms already: time does not run backwards"
                )
            self._now_ms = at_ms
            return at_ms

    def __repr__(self) -> str:
        return f"Clock({self._now_ms})"


def _whole(at_ms: int, what: str) -> int:
    if isinstance(at_ms, bool) or not isinstance(at_ms, int) or at_ms < 0:
        raise SettingsError(f"{what}: expected whole milliseconds from 0 on, got {at_ms!r}")
    return at_ms
