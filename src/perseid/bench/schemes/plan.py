"""What is run: every application under every scheme, with so many checkpoints in a window of time (M9).

A run warms up for some periods, which is also when ``adaptive`` learns, and is then measured for a window. A state must rise and fall
at least once in a period of a window with three checkpoints, as in the paper: windows are as long as that takes on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SCHEMES = ("baseline", "source", "parallel", "adaptive")
NO_CHECKPOINTS = "none"
"""Not a scheme: what ``source``, ``parallel`` and ``adaptive`` are alike without a checkpoint."""
JUDGED = 3
"""Of the numbers of checkpoints in a window, the one the paper's figures 14 to 16 and its averages are of."""
PROFILE_PERIODS = 2
LEAST_WARM_S = 5.0


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    app: str
    scale: float
    scheme: str
    checkpoints: int  # in the window
    window_s: float
    killed: bool  # all hosts at its end

    @property
    def period_s(self) -> float:
        """Without checkpoints: longer than any run."""
        return self.window_s / self.checkpoints if self.checkpoints else 24 * 3600.0

    @property
    def profile_periods(self) -> int:
        """A period of a whole window is learnt from once: twice would make the benchmark long."""
        return 1 if self.checkpoints == 1 else PROFILE_PERIODS

    @property
    def warm_s(self) -> float:
        """The same for every scheme: until ``adaptive`` has its profile."""
        return max(LEAST_WARM_S, self.profile_periods * self.period_s if self.checkpoints else 0.0)

    @property
    def name(self) -> str:
        return f"{self.app}_{self.scheme}_{self.checkpoints}"


@dataclass(frozen=True, slots=True)
class AppPlan:
    """How one application is measured."""

    app: str
    scale: float
    window_s: float
    counts: tuple[int, ...]  # checkpoints in a window, besides none
    rounds: int  # of the judged number

    def cases(self) -> Iterator[Case]:
        """Schemes take turns; every round begins with another one. The oracle knows the run without checkpoints."""
        yield self._case(NO_CHECKPOINTS, 0)
        yield self._case("baseline", 0)
        for number in range(self.rounds):
            for scheme in _turned((*SCHEMES, "oracle"), number):
                yield self._case(scheme, JUDGED)
        for number, count in enumerate(c for c in self.counts if c != JUDGED):
            for scheme in _turned(SCHEMES, number + 1):
                yield self._case(scheme, count)

    def _case(self, scheme: str, checkpoints: int) -> Case:
        return Case(self.app, self.scale, scheme, checkpoints, self.window_s, killed=checkpoints == JUDGED)


def _turned(names: tuple[str, ...], by: int) -> tuple[str, ...]:
    return names[by % len(names) :] + names[: by % len(names)]


FULL = (
    AppPlan("tmi", 0.02, 18.0, (1, JUDGED, 8), 1),
    AppPlan("bcp", 0.03, 18.0, (1, JUDGED, 8), 1),
    AppPlan("signalguru", 0.008, 18.0, (1, JUDGED, 8), 1),
)
QUICK = (AppPlan("tmi", 0.01, 9.0, (JUDGED,), 1),)
"""One application, smaller; ``--app`` chooses another."""
QUICK_OTHERS = (
    AppPlan("bcp", 0.016, 9.0, (JUDGED,), 1),
    AppPlan("signalguru", 0.004, 9.0, (JUDGED,), 1),
)


def plans(quick: bool, app: str | None) -> tuple[AppPlan, ...]:
    """What is measured in this run."""
    if app is None:
        return QUICK if quick else FULL
    return tuple(plan for plan in ((*QUICK, *QUICK_OTHERS) if quick else FULL) if plan.app == app)
