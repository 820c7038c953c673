"""What a run of Linear Road comes to: how late answers were, and whether they were right."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from perseid.apps.linear_road.latency import LIMIT_S, Lateness
from perseid.bench.road.judging import Verdict
from perseid.bench.road.running import Driven
from perseid.bench.road.traffic import PEAK_RATE, Road

WITHIN_PERCENT = 99.0
"""Of the answers must be there within the benchmark's 5 s."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One second of the road: how many answers belong to it, and when half and nearly all of them were there."""

    second: int
    answers: int
    median_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class RoadResult:
    """One run. Latencies are of all its answers, from the first on; those of the peak stand beside them."""

    l: int  # noqa: E741  as the benchmark calls it
    ramp_s: int
    peak_s: int
    reports: int
    peak_reports_per_s: int
    answers: int
    within_5s_percent: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    worst_ms: float
    peak_within_5s_percent: float
    peak_median_ms: float
    peak_p95_ms: float
    peak_p99_ms: float
    wrong: int
    missing: int
    such_as: tuple[str, ...]
    busy_share: float
    epochs: int
    checkpoints: int
    seconds: dict[str, float]  # that running and checking took
    moments: tuple[Moment, ...]

    @property
    def holds(self) -> bool:
        """Is this a rating? Every answer right, and 99 % of them in time."""
        return not self.wrong and not self.missing and self.within_5s_percent >= WITHIN_PERCENT

    def __str__(self) -> str:
        right = f"all {self.answers:,} as the oracle says"
        if self.wrong or self.missing:
            right = f"{self.wrong:,} of {self.answers:,} wrong, {self.missing:,} missing: {'; '.join(self.such_as)}"
        return (
            f"L = {self.l}, {self.peak_reports_per_s:,} reports/s at the peak: {self.within_5s_percent:.2f} % within"
            f" {LIMIT_S:g} s, median {self.median_ms:,.0f} ms, 95 % {self.p95_ms:,.0f} ms, 99 % {self.p99_ms:,.0f} ms; {right}"
        )

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps({**asdict(self), "holds": self.holds}, indent=1) + "\n")


def result_of(
    road: Road, reports: int, driven: Driven, late: Lateness, verdict: Verdict, seconds: dict[str, float]
) -> RoadResult:
    """Put together what was measured."""
    whole, peak = late.summary(), late.since(road.ramp_s).summary()
    assert whole is not None and peak is not None, "the run gave no answers"
    return RoadResult(
        l=road.xways,
        ramp_s=road.ramp_s,
        peak_s=road.peak_s,
        reports=reports,
        peak_reports_per_s=round(road.xways * PEAK_RATE),
        answers=whole.answers,
        within_5s_percent=whole.within_limit * 100,
        median_ms=whole.median_s * 1000,
        p95_ms=whole.p95_s * 1000,
        p99_ms=whole.p99_s * 1000,
        worst_ms=whole.worst_s * 1000,
        peak_within_5s_percent=peak.within_limit * 100,
        peak_median_ms=peak.median_s * 1000,
        peak_p95_ms=peak.p95_s * 1000,
        peak_p99_ms=peak.p99_s * 1000,
        wrong=verdict.wrong,
        missing=verdict.missing,
        such_as=verdict.such_as,
        busy_share=driven.busy_share,
        epochs=driven.epochs,
        checkpoints=driven.checkpoints,
        seconds=seconds,
        moments=_moments(late),
    )


def _moments(late: Lateness) -> tuple[Moment, ...]:
    order = np.argsort(late.second, kind="stable")
    second, ms = late.second[order], late.late_s[order] * 1000
    found = []
    for group in np.split(np.arange(len(ms)), np.flatnonzero(np.diff(second)) + 1):
        median, p99 = np.percentile(ms[group], (50, 99))
        found.append(Moment(int(second[group[0]]), len(group), round(float(median), 1), round(float(p99), 1)))
    return tuple(found)
