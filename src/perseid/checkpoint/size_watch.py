"""A shard's own watch over its size: what to tell the controller, and when to stay silent (M5c, M5d).

One per shard, in its host. It is fed a size after an epoch, and answers when the controller asks.

Beyond the paper: a shard that was told how small it becomes (``low``) tells when it is so small again, once in every fall. It need
not wait for the turning point, which is known only one size later, when the state has grown again.

Invariant: a shard that is not watched tells of nothing but a fall by more than half, or to its low.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.checkpoint.size_reports import AskSizes, Observed, ShardSize, SizeHalved, SizePoint, SizeTurned
from perseid.checkpoint.turning_points import TurningPoints
from perseid.vocabulary import ShardId

POINTS = 256
"""How many turning points one observation keeps: the newest. A state that turns oftener is not worth waiting for."""


@dataclass(slots=True)
class SizeWatch:
    """What one shard knows of its size."""

    shard: ShardId
    turning: TurningPoints = field(default_factory=TurningPoints)
    asked: bool = False  # ever: a controller that decides by sizes listens
    watched: bool = False
    told: int = 0  # the sign of the rate the controller was last told
    low: int | None = None  # how small it becomes, as the controller knows from a profile
    told_low: bool = False  # in this fall
    first: SizePoint | None = None  # of the observation
    points: list[SizePoint] = field(default_factory=list)
    lowest: int = 0
    total: int = 0
    samples: int = 0

    def sized(self, at_ms: int, size: int) -> tuple[SizeHalved | SizeTurned, ...]:
        """The size after an epoch; what the controller must know of it."""
        turned = self.turning.sized(at_ms, size)
        if not self.asked:
            return ()
        if self.first is None:
            self.first = SizePoint(at_ms, size)
        self.lowest = min(size, self.lowest) if self.samples else size
        self.total, self.samples = self.total + size, self.samples + 1
        if turned is not None:
            self._keep(turned.level_since)
            self._keep(turned.point)
        fell_low = self.low is not None and self._fell_low(size, self.low)
        if self.watched:
            sign = _sign(self.turning.rate)
            if sign == self.told and not fell_low:
                return ()
            self.told = sign
            return (SizeTurned(self.shard, size, self.turning.rate),)
        if fell_low:
            return (SizeHalved(self.shard, self.turning.extreme, size),)
        if turned is not None and turned.kind == "minimum" and turned.point.bytes * 2 < turned.before.bytes:
            return (SizeHalved(self.shard, turned.before.bytes, turned.point.bytes),)
        return ()

    def _fell_low(self, size: int, low: int) -> bool:
        """Has it just become as small as it ever does? It must have been twice as large before."""
        if size > low:
            self.told_low = self.told_low and size <= 2 * low
            return False
        new = not self.told_low and self.turning.rate < 0
        self.told_low = True
        return new

    def _keep(self, point: SizePoint) -> None:
        if self.first is not None and point.at_ms > self.first.at_ms and point not in self.points[-1:]:
            self.points = [*self.points[-POINTS + 1 :], point]

    def answer(self, ask: AskSizes) -> ShardSize:
        """The controller wants to know."""
        self.asked, self.watched = True, ask.watch
        self.low = ask.lows.get(self.shard, self.low)
        self.told = _sign(self.turning.rate)
        observed = None
        if ask.observed:
            observed = self._observed()
            self._observe()
        last = self.turning.last
        return ShardSize(self.shard, last.bytes if last else 0, self.turning.rate, observed)

    def quieten(self, anew: bool = False) -> None:
        self.watched = False
        if anew:
            self.asked = True
            self._observe()

    def _observe(self) -> None:
        """From here on, anew."""
        self.first = self.turning.last
        self.points, self.lowest, self.total, self.samples = [], 0, 0, 0
        if self.first is not None:
            self.lowest = self.total = self.first.bytes
            self.samples = 1

    def _observed(self) -> Observed:
        ends = [p for p in (self.first, self.turning.last) if p is not None]
        points = tuple(sorted({*ends, *self.points}))
        return Observed(self.lowest, self.total / self.samples if self.samples else 0.0, self.samples, points)

    def check(self) -> None:
        """Assert the invariants."""
        self.turning.check()
        assert len(self.points) <= POINTS
        assert self.asked or not (self.watched or self.points)
        times = [p.at_ms for p in self.points]
        assert times == sorted(times)


def _sign(rate: float) -> int:
    return (rate > 0) - (rate < 0)
