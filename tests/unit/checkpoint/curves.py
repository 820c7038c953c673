"""State size curves, and a small loop that runs the shards' watches and a policy over them, epoch by epoch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from perseid.checkpoint.adaptive import Adaptive
from perseid.checkpoint.notices import Notice
from perseid.checkpoint.policy import Decision, Policy, Standing
from perseid.checkpoint.size_reports import AskSizes, Quieten, SizeCommand, SizeReport, SizesReported
from perseid.checkpoint.size_watch import SizeWatch
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName

Curve = Callable[[int], float]  # size by time in ms


def shard(number: int) -> ShardId:
    return ShardId(OperatorName("o"), number)


def polyline(*points: tuple[float, float], unit_ms: int = 1000) -> Curve:
    """Through (time, size) points; level before the first and after the last."""

    def size(at_ms: int) -> float:
        at = at_ms / unit_ms
        for (t0, s0), (t1, s1) in pairwise(points):
            if t0 <= at <= t1:
                return s0 + (s1 - s0) * (at - t0) / (t1 - t0)
        return points[0][1] if at < points[0][0] else points[-1][1]

    return size


def sawtooth(cycle_ms: int, high: float, *, low: float = 0.0, phase_ms: int = 0) -> Curve:
    """Grows evenly, then is dropped at once: TMI's pools, a closing window."""
    return lambda at_ms: low + (high - low) * ((at_ms + phase_ms) % cycle_ms) / cycle_ms


def random_sawteeth(seed: int, count: int = 3, period_ms: int = 30_000) -> list[Curve]:
    """Several states that are dropped at their own times, at least once in a period; each drop is uneven."""
    choose = random.Random(seed)
    curves: list[Curve] = []
    for _ in range(count):
        cycle = choose.randint(period_ms // 3, period_ms * 9 // 10)
        high = choose.uniform(50e6, 500e6)
        curves.append(sawtooth(cycle, high, low=high * choose.uniform(0, 0.1), phase_ms=choose.randrange(cycle)))
    return curves


@dataclass
class Run:
    """What came of it."""

    taken: list[tuple[int, Decision, int]] = field(default_factory=list)  # time, why, bytes
    notes: list[tuple[int, Notice]] = field(default_factory=list)
    told: list[tuple[int, SizeReport]] = field(default_factory=list)
    commands: list[tuple[int, SizeCommand]] = field(default_factory=list)
    story: list[SizeReport | SizeCommand] = field(default_factory=list)  # both, in order

    @property
    def mean_bytes(self) -> float:
        return sum(size for _, _, size in self.taken) / len(self.taken)


def drive(
    policy: Policy,
    curves: Sequence[Curve],
    until_ms: int,
    epoch_ms: int = 500,
    bytes_per_s: float = math.inf,
    times_ms: Sequence[int] | None = None,
) -> Run:
    """Every epoch each shard sees its size; what it says reaches the policy, and answers come, before the next epoch.

    While a checkpoint is being written, the policy is not asked for another. ``times_ms``: when epochs end, if not evenly.
    """
    run = Run()
    written_ms = 0.0
    watches = [SizeWatch(shard(n)) for n in range(len(curves))]

    def carry_out(commands: tuple[SizeCommand, ...], now_ms: int) -> None:
        for command in commands:
            run.commands.append((now_ms, command))
            run.story.append(command)
            match command:
                case AskSizes(query, asked):
                    sizes = tuple(w.answer(command) for w in watches if asked is None or w.shard in asked)
                    hear(SizesReported(HostId(1), query, sizes), now_ms)
                case Quieten(anew):
                    for watch in watches:
                        watch.quieten(anew)
                case Notice():
                    run.notes.append((now_ms, command))

    def hear(report: SizeReport, now_ms: int) -> None:
        run.told.append((now_ms, report))
        run.story.append(report)
        carry_out(policy.take_in(report, now_ms), now_ms)

    carry_out(policy.begin(0), 0)
    for number, now_ms in enumerate(times_ms or range(0, until_ms, epoch_ms), start=1):
        for watch, curve in zip(watches, curves, strict=True):
            for notice in watch.sized(now_ms, round(curve(now_ms))):
                hear(notice, now_ms)
            watch.check()
        carry_out(policy.advance(now_ms), now_ms)
        decision = None
        if now_ms >= written_ms:
            decision = policy.decide(Standing(now_ms, frozenset({UnitName("u")}), Epoch(number)))
        if decision is not None:
            size = sum(round(curve(now_ms)) for curve in curves)
            written_ms = now_ms + 1000 * size / bytes_per_s
            run.taken.append((now_ms, decision, size))
            carry_out(policy.started(decision, now_ms), now_ms)
        policy.check()
    return run


def adaptive(curves: Sequence[Curve], period_ms: int = 30_000, profile_periods: int = 4) -> Adaptive:
    return Adaptive(period_ms, frozenset(shard(n) for n in range(len(curves))), 0, profile_periods)
