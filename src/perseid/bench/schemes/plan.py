"""What is run: every application under every scheme, with so many checkpoints in a window of time (M9).

In the paper a state rises and falls at least once between two of three checkpoints. So a window is as long as the machine needs for
five cycles of the state. How long that is, the last run tells that stood still for nothing (at first, the warm-up): a machine's pace
changes from run to run. With one checkpoint the period is a whole window; eight come eight times as often, and three of their periods
are enough to tell.

How slow a storage is says nothing by itself: what matters is how long it holds an application up. In the paper throughput rises by 28 %, on
average, if an application need not stand still for its three checkpoints (from ``source`` to ``parallel``): so it stood still for 22 %
of the window. A storage as the paper's is one that takes the state in 22 % of a period (``Case.storage_bytes_per_s``).

Rows come as fast as they are taken: that shows throughput. But then nobody waits while an application stands still, but for one epoch.
So latency is also measured under load: rows come at a rate of their own, the same for all schemes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

SCHEMES = ("baseline", "source", "parallel", "adaptive")
NO_CHECKPOINTS = "none"
"""Not a scheme: what ``source``, ``parallel`` and ``adaptive`` are alike without a checkpoint."""
JUDGED = 3
"""Of the numbers of checkpoints in a window, the one the paper's figures 14 to 16 and its averages are of."""
OFTEN = 3
"""Of more checkpoints than are judged, so many periods are measured."""
PROFILE_PERIODS = 1
"""What ``adaptive`` learns from, again and again: more would make the benchmark long."""
LEARNING = 2
"""Profiles that are made before the window. The first is of an application that begins: its state fills, its epochs are slow, and its first
checkpoint, large and at no chosen time, is still being written when the next period has begun."""
KILLS, QUICK_KILLS = 3, 1
"""How often all hosts are killed at the end of a run whose recovery is compared: how fast Spark starts new ones differs much."""
STANDING_STILL = ("baseline", "source")
"""Schemes whose epochs take longer than the machine needs for them."""
RECOVERED = ("parallel", "adaptive", "oracle")
"""The schemes whose recovery the paper compares; under the others hosts are killed once."""
LEAST_WARM_S, QUICK_LEAST_WARM_S = 5.0, 2.0
TURNS = 2
"""How often each scheme is run with the judged number of checkpoints: the second time in reverse order, so that a machine which becomes
faster or slower meanwhile favours none."""
CYCLES = 5 / 3
"""Of the state, in a period: so three checkpoints at even times meet it at three different heights, and none is lucky. Where an
application stands still for 22 % of the time a period has 1.3 cycles, which meet it at three heights, too."""
PAPER_STILL = 1 - 1 / 1.28
"""How much of a window the paper's ``source`` stands still for three checkpoints, at least: ``parallel`` has 28 % more throughput."""
LOADED = ("baseline", "parallel", "adaptive")
LOAD = 0.75
"""Of what the baseline takes without checkpoints: the rate at which rows come under load. With more, an application is at its limit
whenever it has more to do than on average, and latency shows that and nothing of checkpoints."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    app: str
    scale: float
    minutes: float
    parts: int  # epochs in a cycle of the state
    queue: int  # how many epochs may wait between two units
    scheme: str
    checkpoints: int  # in a window
    window_s: float = 12.0  # until the machine's pace is known
    state_bytes: float = 0.0  # on average
    rate: float | None = None  # rows a second, under load
    quick: bool = False

    @property
    def storage_bytes_per_s(self) -> float:
        """How fast the storage is that holds an application up for as long as the paper's did, at three checkpoints."""
        return self.state_bytes / (PAPER_STILL * self.window_s / JUDGED)

    @property
    def kills(self) -> int:
        """How often all hosts are killed at its end."""
        if self.checkpoints != JUDGED or self.rate is not None:
            return 0
        return KILLS if self.scheme in RECOVERED and not self.quick else QUICK_KILLS

    @property
    def period_s(self) -> float:
        """Without checkpoints: longer than any run."""
        return self.window_s / self.checkpoints if self.checkpoints else 24 * 3600.0

    @property
    def warm_s(self) -> float:
        """Until ``adaptive`` has its profiles; as long for the others, but for the whole windows it needs for one checkpoint.

        And a quarter of a period more: a checkpoint at the very end of the last period is none of the window's.
        """
        least_s = QUICK_LEAST_WARM_S if self.quick else LEAST_WARM_S
        if self.checkpoints == 1 and self.scheme != "adaptive":
            return least_s
        return max(least_s, (LEARNING * PROFILE_PERIODS + 0.25) * self.window_s / (self.checkpoints or JUDGED))

    @property
    def measured_s(self) -> float:
        return self.period_s * OFTEN if self.checkpoints > JUDGED else self.window_s

    @property
    def recorded_s(self) -> float:
        """The run the oracle knows goes on after its window: under the oracle more epochs may pass in the same time, and it must know
        when to checkpoint until all hosts were killed for the last time."""
        return (0.4 if self.quick else 1.3) * self.window_s if self.scheme == NO_CHECKPOINTS else 0.0

    @property
    def name(self) -> str:
        return f"{self.app}_{self.scheme}_{self.checkpoints}{'' if self.rate is None else '_load'}"


@dataclass(frozen=True, slots=True)
class AppPlan:
    """How one application is measured."""

    app: str
    scale: float
    minutes: float
    parts: int  # epochs in which its state rises and falls: a whole number, or no two cycles are alike
    queue: int  # how many may wait between two units: where the second one falls, the first must not be ahead of it
    counts: tuple[int, ...]  # checkpoints in a window, besides none
    most_s: float  # a window is no longer, however slow the machine
    quick: bool = False

    def at_pace(self, case: Case, epoch_s: float, state_bytes: float) -> Case:
        """With a window as long as this machine needs, at so many seconds an epoch; its state is so large on average."""
        window_s = round(min(self.most_s, self.needed_s(epoch_s)), 1)
        return replace(case, window_s=window_s, state_bytes=state_bytes)

    def needed_s(self, epoch_s: float) -> float:
        """Less is too short: some periods have no moment when the state is small."""
        return JUDGED * CYCLES * self.parts * epoch_s

    def cases(self) -> Iterator[Case]:
        """Schemes take turns, there and back. The oracle knows the run without checkpoints."""
        yield self._case(NO_CHECKPOINTS, 0)
        yield self._case("baseline", 0)
        schemes = (*reversed(SCHEMES), "oracle")
        for turn in range(1 if self.quick else TURNS):
            for scheme in reversed(schemes) if turn % 2 else schemes:
                yield self._case(scheme, JUDGED)
        for number, count in enumerate(c for c in self.counts if c != JUDGED):
            for scheme in _turned(SCHEMES, number + 1):
                yield self._case(scheme, count)

    def loaded(self, most_rows_per_s: float) -> Iterator[Case]:
        """Under load: a part of what the baseline takes at most. A cycle of the state takes so much longer than under it."""
        for scheme in reversed(LOADED):
            yield replace(self._case(scheme, JUDGED), rate=LOAD * most_rows_per_s)

    def _case(self, scheme: str, checkpoints: int) -> Case:
        about = self.app, self.scale, self.minutes, self.parts, self.queue
        return Case(*about, scheme, checkpoints, quick=self.quick)


def _turned(names: tuple[str, ...], by: int) -> tuple[str, ...]:
    return names[by % len(names) :] + names[: by % len(names)]


FULL = (
    AppPlan("tmi", 0.25, 10.0, 20, 1, (JUDGED, 1, 8), 75.0),
    AppPlan("bcp", 0.3, 10.0, 25, 2, (JUDGED, 1, 8), 75.0),
    AppPlan("signalguru", 0.07, 1.0, 20, 2, (JUDGED, 1, 8), 75.0),
)
QUICK = (
    AppPlan("bcp", 0.03, 1.0, 15, 2, (JUDGED,), 6.0, quick=True),
    AppPlan("tmi", 0.1, 1.0, 12, 1, (JUDGED,), 6.0, quick=True),
    AppPlan("signalguru", 0.004, 1.0, 12, 2, (JUDGED,), 6.0, quick=True),
)
"""Smaller, and only the first, unless another is asked for."""


def plans(quick: bool, app: str | None) -> tuple[AppPlan, ...]:
    """What is measured in this run."""
    if app is None:
        return QUICK[:1] if quick else FULL
    return tuple(plan for plan in (QUICK if quick else FULL) if plan.app == app)
