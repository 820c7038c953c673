"""What is run: applications under every scheme, with so many checkpoints in a window (M9).

A window is a number of epochs, so that every machine sees the state rise and fall as often in it: four cycles for three checkpoints. The
period of checkpoints is a time, so it follows from how long an epoch takes on this machine now. The last run that stood still for
nothing tells that (at first, the warm-up).

How slow a storage is says nothing by itself: what matters is how long it holds an application up. In the paper throughput rises by 28 %, on
average, if an application need not stand still for its three checkpoints (from ``source`` to ``parallel``): so it stood still for 22 %
of the window. A storage as the paper's is one that takes the state in 22 % of a period (``Case.storage_bytes_per_s``).

Rows come as fast as they are taken: that shows throughput. But then nobody waits while an application stands still, but for one epoch.
So latency is also measured under load: rows come at a rate of their own, the same for all schemes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perseid.bench.schemes import pool

SCHEMES = ("baseline", "source", "parallel", "adaptive")
NO_CHECKPOINTS = "none"
"""Not a scheme: what ``source``, ``parallel`` and ``adaptive`` are alike without a checkpoint."""
JUDGED = 3
"""Of the numbers of checkpoints in a window, the one the paper's figures 14 to 16 and its averages are of."""
OFTEN = 8
"""Checkpoints in a window that come so often that three of their periods are enough to tell."""
PROFILE_PERIODS = 1
"""What ``adaptive`` learns from, again and again: more would make the benchmark long."""
LEARNING = 2
"""Profiles that ``adaptive`` makes before its window. The first is of an application that begins: its state fills, its epochs are slow, and
its first checkpoint, large and at no chosen time, is still being written when the next period has begun."""
SETTLING = 0.25
"""Of a period, before a window: a checkpoint that ends the period before is none of the window's."""
KILLS = 2
"""How often all hosts are killed at the end of a run whose recovery is compared: how fast Spark starts new ones differs much."""
STANDING_STILL = ("baseline", "source")
"""Schemes whose epochs take longer than the machine needs for them."""
RECOVERED = ("parallel", "adaptive", "oracle")
"""The schemes whose recovery the paper compares."""
LEAST_WARM_S = 2.0
CYCLES = 4 / 3
"""Of the state, in a period: so three checkpoints at even times meet it at three different heights, and none is lucky."""
MOST = 2.5
"""A window ends after so many times what was expected of it, even if its epochs are not done: a scheme that stands still most of
the time needs no more."""
RECORDED = 1.2
"""Of a window: the run that the oracle knows has more epochs than the oracle's own, up to when its hosts are killed."""
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
    epoch_s: float = 0.2  # until the machine's pace is known
    state_bytes: float = 0.0  # on average
    rate: float | None = None  # rows a second, under load
    quick: bool = False

    @property
    def cycles(self) -> float:
        """Of the state, in its window."""
        return CYCLES * JUDGED * (JUDGED / OFTEN if self.checkpoints == OFTEN else 1)

    @property
    def epochs(self) -> int:
        """In its window."""
        return round(self.cycles * self.parts)

    @property
    def window_s(self) -> float:
        """How long the epochs of a whole window take, if none waits for a checkpoint."""
        return CYCLES * JUDGED * self.parts * self.epoch_s

    @property
    def measured_s(self) -> float:
        """How long its window takes, if no epoch waits for a checkpoint."""
        return self.epochs * self.epoch_s

    @property
    def storage_bytes_per_s(self) -> float:
        """How fast the storage is that holds an application up for as long as the paper's did, at three checkpoints."""
        return self.state_bytes / (PAPER_STILL * self.window_s / JUDGED)

    @property
    def kills(self) -> int:
        """How often all hosts are killed at its end."""
        if self.checkpoints != JUDGED or self.rate is not None or self.scheme not in RECOVERED:
            return 0
        return (self.scheme != "oracle") if self.quick else KILLS

    @property
    def period_s(self) -> float:
        """Without checkpoints: longer than any run."""
        return self.window_s / self.checkpoints if self.checkpoints else 24 * 3600.0

    @property
    def warm_s(self) -> float:
        """From its start until its window begins: ``adaptive`` has its profiles then."""
        periods = SETTLING + (LEARNING * PROFILE_PERIODS if self.scheme == "adaptive" else 0)
        return max(LEAST_WARM_S, periods * self.window_s / (self.checkpoints or JUDGED))

    @property
    def recorded_epochs(self) -> int:
        """Of the run that the oracle knows."""
        return round(RECORDED * self.epochs) if self.scheme == NO_CHECKPOINTS else 0

    @property
    def expected_s(self) -> float:
        """How long the run takes, but for starting, coming back and stopping."""
        stands_still = 1.3 if self.scheme in STANDING_STILL else 1
        window_s = max(self.epochs, self.recorded_epochs) * self.epoch_s * stands_still
        return self.warm_s + window_s + (0 if self.quick else (self.kills + 0.5) * self.period_s if self.kills else 0)

    @property
    def name(self) -> str:
        return f"{self.app}_{self.scheme}_{self.checkpoints}{'' if self.rate is None else '_load'}"


@dataclass(frozen=True, slots=True)
class AppPlan:
    """How one application is measured."""

    app: str
    scale: float
    minutes: float
    parts: tuple[int, ...]  # epochs in which its state rises and falls: a whole number, or no two cycles are alike
    queue: int  # how many may wait between two units: where the second one falls, the first must not be ahead of it
    budget_s: float  # what is not begun by then is left out, but for what is needed
    quick: bool = False

    def fitted(self, epoch_s: float) -> AppPlan:
        """On a slow machine with few epochs in a cycle, on a fast one with many; where a cycle takes too long, with fewer rows in it."""
        fitting = [parts for parts in self.parts if parts * epoch_s <= CYCLE_S]
        rows = 1.0 if self.quick else min(1.0, CYCLE_S / (self.parts[0] * epoch_s))
        return replace(self, parts=(max(fitting, default=min(self.parts)),), scale=self.scale * rows)

    def expected_s(self, epoch_s: float, around_s: float) -> tuple[float, float]:
        """How long its runs take on a machine that needs so long for an epoch: those that are needed, and all."""
        cases = [self.at_pace(case, epoch_s, 0.0) for case in (*self.cases(), *self.often())]
        loaded = () if self.quick else [self.at_pace(case, epoch_s / LOAD, 0.0) for case in self.loaded(0.0)]
        needed_s = sum(case.expected_s + around_s for case in cases if self.needed(case))
        return needed_s, sum(case.expected_s + around_s for case in (*cases, *loaded))

    def at_pace(self, case: Case, epoch_s: float, state_bytes: float) -> Case:
        """With periods as this machine needs them, at so many seconds an epoch; its state is so large on average."""
        return replace(case, epoch_s=epoch_s, state_bytes=state_bytes)

    def cases(self) -> Iterator[Case]:
        """What matters most comes first. The oracle knows the run without checkpoints."""
        yield self._case(NO_CHECKPOINTS, 0)
        if self.quick:
            for scheme in ("adaptive", "parallel", "source", "oracle"):
                yield self._case(scheme, JUDGED)
            return
        yield self._case("baseline", 0)
        for scheme in (*reversed(SCHEMES), "oracle"):
            yield self._case(scheme, JUDGED)

    def often(self) -> Iterator[Case]:
        """Eight checkpoints in a window: periods are shorter than a cycle of the state."""
        if not self.quick:
            for scheme in reversed(SCHEMES):
                yield self._case(scheme, OFTEN)

    def needed(self, case: Case) -> bool:
        """Without these runs there is nothing to compare."""
        return (
            case.scheme in (NO_CHECKPOINTS, "adaptive", "parallel")
            and case.checkpoints in (0, JUDGED)
            and case.rate is None
        )

    def loaded(self, most_rows_per_s: float) -> Iterator[Case]:
        """Under load: a part of what the baseline takes at most. A cycle of the state takes so much longer than under it."""
        for scheme in reversed(LOADED):
            yield replace(self._case(scheme, JUDGED), rate=LOAD * most_rows_per_s)

    def _case(self, scheme: str, checkpoints: int) -> Case:
        about = self.app, self.scale, self.minutes, self.parts[0], self.queue
        return Case(*about, scheme, checkpoints, quick=self.quick)


CYCLE_S = 5.0
"""How long a cycle of the state should take, where there is a choice."""
MINUTES, QUICK_MINUTES = 20, 3
"""How long the benchmark should take."""
QUICK_BUDGET_S = 60.0 * QUICK_MINUTES + 15
"""After this no run begins that can be left out."""
FULL = (
    AppPlan("tmi", 0.15, 10.0, (12, 10, 8, 6), 1, 400.0),
    AppPlan("bcp", 0.2, 10.0, (15, 10, 6), 2, 400.0),
    AppPlan("signalguru", 0.05, 1.0, (12, 10, 8, 6), 2, 400.0),
)
"""A cycle has the first number of epochs, or fewer where the machine is slow. Three times 400 s are 20 minutes."""
AROUND_S = 6.0
"""What starting, coming back and stopping take in a run, until one has told."""
QUICK = (
    AppPlan(pool.NAME, 1.0, 1.0, (8, 10, 12, 15, 16, 20, 24, 30, 40), 2, QUICK_BUDGET_S, quick=True),
    AppPlan("tmi", 0.05, 1.0, (12,), 1, QUICK_BUDGET_S, quick=True),
    AppPlan("bcp", 0.03, 1.0, (15,), 2, QUICK_BUDGET_S, quick=True),
    AppPlan("signalguru", 0.004, 1.0, (12,), 2, QUICK_BUDGET_S, quick=True),
)
"""Smaller, and only the first, unless another is asked for."""


def plans(quick: bool, app: str | None) -> tuple[AppPlan, ...]:
    """What is measured in this run."""
    if app is None:
        return QUICK[:1] if quick else FULL
    return tuple(plan for plan in (QUICK if quick else FULL) if plan.app == app)
