"""Windows as users write them: by event time, by sessions, by a number of rows (L3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from perseid.duration import Duration
from perseid.duration import every as _every
from perseid.errors import GraphError, SettingsError


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Windows of event time, each ``size`` long; one begins ``every`` so often. Made by ``tumbling`` and ``sliding``."""

    size: Duration
    every: Duration

    @property
    def pane_ms(self) -> int:
        """The longest pieces of time of which all windows are made up, so that they share what they have in common."""
        return math.gcd(self.size.ms, self.every.ms)


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Windows of rows that follow each other in less than ``gap`` of event time. Made by ``session``."""

    gap: Duration


@dataclass(frozen=True, slots=True)
class CountWindow:
    """The last ``size`` rows of a key, whenever ``slide`` rows have come. Made by ``count_window``."""

    size: int
    slide: int

    @property
    def pane(self) -> int:
        """The most rows of which all windows are made up."""
        return math.gcd(self.size, self.slide)


Window = TimeWindow | SessionWindow | CountWindow


def tumbling(*, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0) -> TimeWindow:
    """Windows of event time one after the other: ``perseid.tumbling(seconds=10)``. They begin at multiples of their length since 1970."""
    size = _length("tumbling", hours, minutes, seconds, milliseconds)
    return TimeWindow(size, size)


def sliding(
    *, every: Duration, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
) -> TimeWindow:
    """Windows of event time that overlap: ``perseid.sliding(minutes=1, every=every(seconds=10))``, the last minute every ten seconds."""
    size = _length("sliding", hours, minutes, seconds, milliseconds)
    if not isinstance(every, Duration):
        raise GraphError(f"sliding(every={every!r}): expected a duration such as every(seconds=10)")
    if not 1 <= every.ms <= size.ms:
        raise GraphError(
            f"sliding(every={every!r}): expected at least a millisecond and at most the length of the window, {size};"
            " rows between two windows would be in none"
        )
    return TimeWindow(size, every)


def session(*, gap: Duration) -> SessionWindow:
    """Windows of rows that follow each other in less than ``gap`` of event time: ``perseid.session(gap=every(minutes=5))``."""
    if not isinstance(gap, Duration) or gap.ms < 1:
        raise GraphError(
            f"session(gap={gap!r}): expected a duration of at least a millisecond, such as every(minutes=5)"
        )
    return SessionWindow(gap)


def count_window(size: int, *, slide: int | None = None) -> CountWindow:
    """Windows of a number of rows of a key: ``perseid.count_window(100, slide=10)``, the last 100 rows after every tenth.

    Without ``slide`` one window follows the other. The first windows of a key that slides have fewer rows.
    """
    if not _is_number(size):
        raise GraphError(f"count_window({size!r}): expected a number of rows, 1 or more")
    slide = size if slide is None else slide
    if not _is_number(slide) or slide > size:
        raise GraphError(f"count_window({size}, slide={slide!r}): expected a number of rows from 1 to {size}")
    return CountWindow(size, slide)


def _length(name: str, hours: float, minutes: float, seconds: float, milliseconds: float) -> Duration:
    try:
        size = _every(hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    except SettingsError:
        size = None
    if size is None or size.ms < 1:
        raise GraphError(f"{name}(...): expected a window of at least a millisecond, such as {name}(seconds=10)")
    return size


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
