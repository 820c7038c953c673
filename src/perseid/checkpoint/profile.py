"""Profiling: from the shards' turning points to the size below which it pays to be alert (M5b; figure 10 of the paper).

"The state size at any time point between two adjacent turning points can be roughly recovered by linear interpolation. The
controller then sums the state sizes of dynamic HAUs": a zigzag polyline. Its minimum in every checkpoint period is the best
moment of that period; the highest of these minima is s_max, the lowest s_min, and the relaxation (s_max - s_min) / s_min is
at least 20 %.

Beyond the paper: a minimum is noticed late, when the size grows again. So a second threshold, for states that have just fallen, allows
for what they have grown by then (``lag_samples``); without it a state that falls to nothing would give a threshold of nothing, never to be
undercut. Nor need a state that is small be seen to grow again: there is a size at which it would have been best, in hindsight, to
checkpoint every time it fell so low, and shards that become as small again say so at once (``lows``). And it is known how far apart
small moments are (``apart_ms``): who missed one may wait for the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from perseid.checkpoint.size_reports import Observed, SizePoint
from perseid.vocabulary import ShardId

RELAXATION = 0.2
"""The least relaxation, relative to s_min."""
LOW = 1.05
"""As small as before is: up to a twentieth more, or up to the relaxation where nothing speaks against it."""


@dataclass(frozen=True, slots=True)
class SizeFunction:
    """The paper's f(x): the total size of some shards over time."""

    points: tuple[SizePoint, ...]  # in the order of time, one per time

    @classmethod
    def summed(cls, shards: Sequence[Sequence[SizePoint]]) -> SizeFunction:
        """The sum of several polylines, over the time that all of them cover."""
        lines = [sorted(points, key=lambda p: p.at_ms) for points in shards if points]
        if not lines:
            return cls(())
        first, last = max(line[0].at_ms for line in lines), min(line[-1].at_ms for line in lines)
        times = sorted({p.at_ms for line in lines for p in line if first <= p.at_ms <= last})
        sums = [0.0] * len(times)
        for line in lines:
            for place, size in enumerate(_along(line, times)):
                sums[place] += size
        return cls(tuple(SizePoint(at_ms, round(size)) for at_ms, size in zip(times, sums, strict=True)))

    def at(self, at_ms: int) -> float:
        """The size at any time; before the first point and after the last, that of the first and the last."""
        return _along(self.points, [at_ms])[0]

    def lows(self) -> list[SizePoint]:
        """The points to which it fell and from which it rose: not where it began, as an empty state does. Where there is none, the last
        point, if it fell: it may go on falling, but nothing better is known."""
        turns = zip(self.points, self.points[1:], self.points[2:], strict=False)
        low = [point for before, point, after in turns if before.bytes > point.bytes <= after.bytes]
        fell = len(self.points) > 1 and self.points[-1].bytes < self.points[-2].bytes
        return low or ([self.points[-1]] if fell else [])

    def steepest(self) -> float:
        """How much it grows in a millisecond, where it grows fastest."""
        slopes = [(b.bytes - a.bytes) / (b.at_ms - a.at_ms) for a, b in pairwise(self.points) if b.at_ms > a.at_ms]
        return max(slopes, default=0.0)

    def minima(self, begin_ms: int, period_ms: int) -> tuple[SizePoint, ...]:
        """The lowest point of every period that begins at ``begin_ms`` or a whole number of periods later.

        Periods are half open. Only those are looked at that the function covers at least by half.
        """
        if not self.points:
            return ()
        first, last = self.points[0].at_ms, self.points[-1].at_ms
        times = [p.at_ms for p in self.points]
        found = []
        for begin in range(begin_ms, last + 1, period_ms):
            end = begin + period_ms
            if 2 * (min(end, last) - max(begin, first)) < period_ms:
                continue
            inside = list(self.points[bisect_right(times, begin - 1) : bisect_right(times, end - 1)])
            inside += [SizePoint(t, round(self.at(t))) for t in (begin, end - 1) if first <= t <= last]
            found.append(min(inside, key=lambda p: (p.bytes, p.at_ms)))
        return tuple(found)


def _along(line: Sequence[SizePoint], times: Sequence[int]) -> list[float]:
    """Linear interpolation at times in ascending order, in one pass."""
    sizes, place = [], 0
    for at_ms in times:
        while place < len(line) and line[place].at_ms <= at_ms:
            place += 1
        if place == 0:
            sizes.append(float(line[0].bytes))
        elif place == len(line):
            sizes.append(float(line[-1].bytes))
        else:
            a, b = line[place - 1], line[place]
            sizes.append(a.bytes + (b.bytes - a.bytes) * (at_ms - a.at_ms) / (b.at_ms - a.at_ms))
    return sizes


@dataclass(frozen=True, slots=True)
class Profile:
    """What profiling found out."""

    dynamic: frozenset[ShardId]  # whose size changes significantly over time
    minima: tuple[SizePoint, ...]  # the best moment of each period
    s_min: int
    s_max: int  # the threshold for alert mode
    fallen: int = 0  # the threshold for a state that has fallen and may have grown a little since
    lows: Mapping[ShardId, int] = field(default_factory=dict)  # how small dynamic shards are when they are small enough
    usual: int = 0  # how large the state was at its small moments, on average, had each been met as well as it can be
    apart_ms: int | None = None  # from one moment as small as the threshold to the next; None: there was none
    only_ms: int | None = None  # when the only one was: then ``apart_ms`` is the least it can be

    def next_ms(self, moment_ms: int) -> int | None:
        """When the moment after this one is to be expected; None: nothing is known of that."""
        if self.apart_ms is None:
            return None
        return moment_ms + (self.apart_ms if self.only_ms is None else max(self.apart_ms, moment_ms - self.only_ms))

    @property
    def threshold(self) -> int:
        return max(self.s_max, self.fallen)

    @property
    def relaxation(self) -> float:
        """The paper's relaxation factor."""
        return (self.s_max - self.s_min) / self.s_min if self.s_min else float("inf") if self.s_max else RELAXATION

    @property
    def usable(self) -> bool:
        """Is there a size to wait for?"""
        return bool(self.dynamic and self.minima)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.s_min <= self.s_max
        assert not self.s_min or self.relaxation >= RELAXATION - 1 / self.s_min


def profile(
    observed: Mapping[ShardId, Observed], begin_ms: int, period_ms: int, lag_samples: int = 0, *, fresh: bool = False
) -> Profile:
    """The threshold for alert mode, from what all shards observed since ``begin_ms``.

    A minimum of a shard is noticed ``lag_samples`` of its sizes later. ``fresh``: the application began then. An empty state that fills
    for the first time is small for once, and no moment to wait for.
    """
    dynamic = frozenset(shard for shard, seen in observed.items() if seen.dynamic)
    lines = {shard: _filled(observed[shard].points) if fresh else observed[shard].points for shard in dynamic}
    total = SizeFunction.summed(list(lines.values()))
    minima = total.minima(begin_ms, period_ms)
    if not minima or (fresh and not total.lows()):
        return Profile(dynamic, (), 0, 0)
    s_min = min(p.bytes for p in minima)
    s_max = max(p.bytes for p in minima)
    by_shard = {shard: SizeFunction(tuple(sorted(lines[shard]))) for shard in dynamic}

    def around(at_ms: int, samples: int) -> float:
        """The total so many sizes of each shard later, or earlier. What came after the end is not known: it may have grown."""
        size = 0.0
        for shard, f in by_shard.items():
            then_ms = at_ms + round(samples * observed[shard].interval_ms)
            size += f.at(then_ms) + max(0.0, f.steepest() * (then_ms - f.points[-1].at_ms))
        return size

    fallen = max(round(around(p.at_ms, lag_samples)) for p in minima)
    threshold = max(s_max, round(s_min * (1 + RELAXATION)))
    moments = [p for p in total.lows() if p.bytes <= max(threshold, fallen)]
    if not moments:
        return Profile(dynamic, minima, s_min, threshold, fallen)
    lowest = min(moments, key=lambda p: p.bytes)
    small, usual = _small([(around(p.at_ms, -1), p.bytes, around(p.at_ms, 1)) for p in moments])
    share = small / lowest.bytes if lowest.bytes else 0.0
    lows = {shard: round(share * f.at(lowest.at_ms)) for shard, f in by_shard.items()}
    first_ms, last_ms = moments[0].at_ms, moments[-1].at_ms
    if len(moments) > 1:
        apart_ms, only_ms = round((last_ms - first_ms) / (len(moments) - 1)), None
    else:  # had they been closer, there would have been another
        apart_ms, only_ms = max(first_ms - total.points[0].at_ms, total.points[-1].at_ms - first_ms), first_ms
    return Profile(dynamic, minima, s_min, threshold, fallen, lows, round(usual), apart_ms, only_ms)


def _small(falls: Sequence[tuple[float, int, float]]) -> tuple[float, float]:
    """The size to checkpoint at when a state falls to it, for the least bytes in all the falls that were seen: to what it fell in the end,
    how large it was one size before, and one after. Too small a size is not reached, and the state is seen when it grows again; too
    large a one is passed on the way down. And how many bytes that would have been on average. A state of nothing is not waited for."""

    def bytes_at(size: float) -> float:
        return fmean(size if size >= before else low if 0 < low <= size else after for before, low, after in falls)

    sizes = {more * low for _, low, _ in falls for more in (LOW, 1 + RELAXATION)}
    small = min(sizes, key=lambda size: (bytes_at(size), -size))
    return small, bytes_at(small)


def _filled(points: tuple[SizePoint, ...]) -> tuple[SizePoint, ...]:
    """As if the state had begun as large as it was before it fell for the first time."""
    full = next((n for n, (a, b) in enumerate(pairwise(points)) if b.bytes < a.bytes), len(points) - 1)
    return tuple(SizePoint(p.at_ms, points[full].bytes) if n < full else p for n, p in enumerate(points))
