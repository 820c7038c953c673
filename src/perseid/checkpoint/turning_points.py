"""Turning points of one shard's state size: its local extrema, found by the shard itself (M5b; figure 10 of the paper).

"Each dynamic HAU records its recent few state sizes and detects the turning points (local extrema) of the state size."
An extremum is known only when the size has moved away from it, one size later. Moves of less than ``noise`` of the last
swing are not taken for a turn: sizes are estimates.

Invariant: turning points alternate between maxima and minima.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perseid.checkpoint.size_reports import SizePoint

NOISE = 0.005


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """A local extremum."""

    point: SizePoint
    kind: Literal["maximum", "minimum"]
    before: SizePoint  # the extremum before it, or the first size of all
    level_since: SizePoint  # where a plateau began, if the extremum is one; else the point itself


@dataclass(slots=True)
class TurningPoints:
    """Sizes in, turning points out."""

    noise: float = NOISE
    last: SizePoint | None = None
    rate: float = 0.0  # bytes per second, between the last two sizes; 0 within the noise
    _before: SizePoint | None = None  # the last turning point, or the first size
    _extreme: SizePoint | None = None  # the furthest since then: the next turning point, if it turns
    _level: SizePoint | None = None  # where the plateau that ends with ``_extreme`` began
    _direction: int = 0  # 1 growing, -1 shrinking, 0 not known yet

    @property
    def extreme(self) -> int:
        """The last turning point's size: of a state that falls, from where."""
        return self._before.bytes if self._before is not None else 0

    def sized(self, at_ms: int, size: int) -> TurningPoint | None:
        """A new size; the turning point it reveals, if any."""
        point = SizePoint(at_ms, size)
        previous, self.last = self.last, point
        if previous is None or self._extreme is None or self._before is None or self._level is None:
            self._before = self._extreme = self._level = point
            return None
        band = self.noise * abs(self._extreme.bytes - self._before.bytes)
        self.rate = self._slope(previous, point, band) if size != previous.bytes else 0.0
        moved = size - self._extreme.bytes
        if self._direction == 0 and moved:
            self._direction = 1 if moved > 0 else -1
        if moved * self._direction >= 0:  # further on, or level
            if moved:
                self._level = point
            self._extreme = point
            return None
        if abs(moved) <= band:
            return None
        turned = TurningPoint(self._extreme, "maximum" if self._direction > 0 else "minimum", self._before, self._level)
        self._before, self._extreme, self._level = self._extreme, point, point
        self._direction = -self._direction
        return turned

    @staticmethod
    def _slope(earlier: SizePoint, later: SizePoint, band: float) -> float:
        change, ms = later.bytes - earlier.bytes, later.at_ms - earlier.at_ms
        return 0.0 if abs(change) <= band or ms <= 0 else change * 1000 / ms

    def check(self) -> None:
        """Assert the invariants."""
        if self._extreme is not None and self._before is not None and self._direction:
            assert (self._extreme.bytes - self._before.bytes) * self._direction >= 0
