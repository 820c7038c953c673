"""The paper's comparisons, made of what the runs of all schemes gave: flat numbers, and verdicts beside the paper's (M9).

Every comparison is made within one application, between runs that took turns, and then averaged over the applications, as the
paper averages. Where there are several rounds, the median is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from perseid.bench.schemes.plan import JUDGED, NO_CHECKPOINTS, PAPER_STILL, Case
from perseid.bench.schemes.reading import PARTS, RECOVERY_PARTS, Recovery, Window

PAPER_FACTOR = 3.26
"""+226 %: what a checkpointed second costs the baseline against ``adaptive``."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run gave."""

    case: Case
    window: Window
    recovery: Recovery | None
    busy_share: float
    unsynced_ms: float
    taken_per_s: float = 0.0  # rows of the source
    epoch_s: float = 0.0  # how long an epoch took, from one to the next
    window_s: float = 0.0
    epochs: int = 0  # in its window


LOAD_LATENCIES: Mapping[str, Callable[[Window], float]] = {"latency": lambda w: w.latency_ms, "p99": lambda w: w.p99_ms}
"""Under load: of rows on average, and what 99 % of them stay below; by JSON name."""


@dataclass(slots=True)
class Comparison:
    """All runs so far."""

    seen: list[Seen] = field(default_factory=list)

    @property
    def apps(self) -> list[str]:
        return list(dict.fromkeys(s.case.app for s in self.seen))

    def of(self, app: str, scheme: str, checkpoints: int) -> list[Seen]:
        """Without checkpoints all schemes but the baseline are one."""
        if not checkpoints and scheme != "baseline":
            scheme = NO_CHECKPOINTS
        wanted = (app, scheme, checkpoints, None)
        return [s for s in self.seen if (s.case.app, s.case.scheme, s.case.checkpoints, s.case.rate) == wanted]

    def loaded(self, app: str, scheme: str, latency: Callable[[Window], float]) -> float | None:
        """The latency of rows that came at their own time."""
        found = [latency(s.window) for s in self.seen if (s.case.app, s.case.scheme) == (app, scheme) and s.case.rate]
        return median(found) if found else None

    def middle(self, app: str, scheme: str, checkpoints: int, number: Callable[[Seen], float | None]) -> float | None:
        """The median of a number over the rounds; None if it was not measured."""
        found = [n for s in self.of(app, scheme, checkpoints) if (n := number(s)) is not None]
        return median(found) if found else None

    def judged(self, app: str, scheme: str, number: Callable[[Seen], float | None]) -> float | None:
        return self.middle(app, scheme, JUDGED, number)

    def during(self, app: str, scheme: str) -> float | None:
        """Latency of epochs that met a checkpoint, each against those of its place in a cycle of the state that met none, in the same run.

        Another run may have met a faster or slower machine; an epoch of another place has other work. Where a run has no such
        epoch, it is held against the run without checkpoints.
        """
        plain = [s for s in self.of(app, scheme, 0) if s.case.scheme == NO_CHECKPOINTS]
        ratios = []
        for run in self.of(app, scheme, JUDGED):
            for epoch, ms in run.window.during_ms.items():
                calm = _alike(run, epoch) or [c for other in plain for c in _alike(other, epoch)]
                if calm:
                    ratios.append(ms / median(calm))
        return median(ratios) - 1 if ratios else None

    def numbers(self) -> dict[str, float]:
        """Flat, by JSON name."""
        found: dict[str, float] = {}
        for case in dict.fromkeys(s.case for s in self.seen if s.case.rate is None):
            for name, number in _NUMBERS.items():
                value = self.middle(case.app, case.scheme, case.checkpoints, number)
                if value is not None and (case.checkpoints or name in _PLAIN):
                    found[f"{case.name}_{name}"] = round(value, 3)
        for app in self.apps:
            for scheme in dict.fromkeys(s.case.scheme for s in self.seen):
                value = self.during(app, scheme)
                if value is not None:
                    found[f"{app}_{scheme}_{JUDGED}_during_percent"] = round(100 * value, 1)
                for name, latency in LOAD_LATENCIES.items():
                    if (value := self.loaded(app, scheme, latency)) is not None:
                        found[f"{app}_{scheme}_{JUDGED}_load_{name}_ms"] = round(value, 1)
        return found


def _alike(run: Seen, epoch: int) -> list[float]:
    """Latencies of the epochs of a run that met no checkpoint and have the same place in a cycle of the state."""
    return [ms for e, ms in run.window.calm_ms.items() if (e - epoch) % run.case.parts == 0]


def recovered(number: Callable[[Recovery], float]) -> Callable[[Seen], float | None]:
    """A number of a run's recovery; None if no host was killed."""
    return lambda s: None if s.recovery is None else number(s.recovery)


_NUMBERS: Mapping[str, Callable[[Seen], float | None]] = {
    "window_s": lambda s: s.window_s,
    "cycles": lambda s: s.epochs / s.case.parts,
    "rows_per_s": lambda s: s.window.rows_per_s,
    "latency_ms": lambda s: s.window.latency_ms,
    "busy_percent": lambda s: 100 * s.busy_share,
    "sizing_percent": lambda s: 100 * s.window.sizing_share,
    "checkpoints": lambda s: s.window.rounds,
    "checkpoint_ms": lambda s: s.window.checkpoint_ms,
    **{f"checkpoint_{part}_ms": (lambda s, part=part: s.window.part_ms(part)) for part in PARTS},  # type: ignore[misc]
    "checkpoint_mb": lambda s: s.window.bytes / 1e6,
    "still_ms": lambda s: s.window.still_ms,
    "writing_ms": lambda s: s.window.writing_ms,
    "still_percent": lambda s: 100 * s.window.still_share,
    "writing_percent": lambda s: 100 * s.window.writing_share,
    "unsynced_ms": lambda s: s.unsynced_ms,
    "recovery_ms": recovered(lambda r: r.ms),
    **{f"recovery_{part}_ms": recovered(lambda r, part=part: r.parts_ms[part]) for part in RECOVERY_PARTS},  # type: ignore[misc]
    "recovery_catch_up_ms": recovered(lambda r: r.catch_up_ms),
    "recovery_mb": recovered(lambda r: r.bytes / 1e6),
}
_PLAIN = frozenset({"window_s", "cycles", "rows_per_s", "latency_ms", "busy_percent", "sizing_percent"})


# -- verdicts ---------------------------------------------------------------------------------------------------------

Relation = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One of the paper's comparisons: a change in percent, or a ratio, by application and on average."""

    what: str
    change: Callable[[Comparison, str], float | None]  # of one application
    paper: float | None
    wanted: float | None
    relation: Relation = "at least"
    unit: str = "%"
    least: float | None = None  # less than this, in any application, cannot be: the machine was too unquiet to tell


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it."""

    claim: Claim
    by_app: Mapping[str, float | None]
    average: float | None
    reached: bool | None  # None: nothing was wanted
    noise: bool = False


def judge(comparison: Comparison, claims: Sequence[Claim] | None = None) -> list[Verdict]:
    """Every claim, by application and on average. What one application did not give is not reached."""
    return [_verdict(claim, comparison) for claim in (CLAIMS if claims is None else claims)]


def _verdict(claim: Claim, comparison: Comparison) -> Verdict:
    by_app = {app: claim.change(comparison, app) for app in comparison.apps}
    there = [value for value in by_app.values() if value is not None]
    average = fmean(there) if there and len(there) == len(by_app) else None
    if claim.wanted is None:
        return Verdict(claim, by_app, average, None)
    noise = claim.least is not None and any(value < claim.least for value in there)
    good = average is not None and (
        average >= claim.wanted if claim.relation == "at least" else average <= claim.wanted
    )
    return Verdict(claim, by_app, average, good and not noise, noise)


def _more(
    number: Callable[[Seen], float | None], ours: str, theirs: str, checkpoints: int = JUDGED, sign: int = 1
) -> Callable[[Comparison, str], float | None]:
    """By how many percent ours is more (or with ``sign`` -1, less) than theirs."""

    def change(comparison: Comparison, app: str) -> float | None:
        a = comparison.middle(app, ours, checkpoints, number)
        b = comparison.middle(app, theirs, checkpoints, number)
        return None if a is None or not b else sign * 100 * (a / b - 1)

    return change


def _times(number: Callable[[Seen], float | None], theirs: str, ours: str) -> Callable[[Comparison, str], float | None]:
    """How many times as much theirs is."""

    def ratio(comparison: Comparison, app: str) -> float | None:
        a, b = comparison.judged(app, theirs, number), comparison.judged(app, ours, number)
        return None if a is None or not b else a / b

    return ratio


def _below(ours: str, theirs: str, latency: str) -> Callable[[Comparison, str], float | None]:
    """By how many percent latency under load is less than theirs."""
    number = LOAD_LATENCIES[latency]

    def change(comparison: Comparison, app: str) -> float | None:
        a, b = comparison.loaded(app, ours, number), comparison.loaded(app, theirs, number)
        return None if a is None or not b else 100 * (1 - a / b)

    return change


def _during(scheme: str) -> Callable[[Comparison, str], float | None]:
    def change(comparison: Comparison, app: str) -> float | None:
        value = comparison.during(app, scheme)
        return None if value is None else 100 * value

    return change


_ROWS = _NUMBERS["rows_per_s"]
_LATENCY = _NUMBERS["latency_ms"]
_TIME = _NUMBERS["checkpoint_ms"]
_BYTES = _NUMBERS["checkpoint_mb"]
_STILL = _NUMBERS["still_ms"]
_RECOVERY = _NUMBERS["recovery_ms"]

CLAIMS = (
    Claim("throughput, adaptive over baseline", _more(_ROWS, "adaptive", "baseline"), 226, 226),
    Claim("units stand still, baseline against adaptive", _times(_STILL, "baseline", "adaptive"), None, PAPER_FACTOR, unit="x"),
    Claim("bytes written, baseline against adaptive", _times(_BYTES, "baseline", "adaptive"), None, PAPER_FACTOR, unit="x"),
    Claim("source stands still, of the window", lambda c, app: c.judged(app, "source", _NUMBERS["still_percent"]), 100 * PAPER_STILL, None),
    Claim("throughput, no checkpoints, source over baseline", _more(_ROWS, "source", "baseline", 0), 35, None),
    Claim("throughput, parallel over source", _more(_ROWS, "parallel", "source"), 28, None),
    Claim("throughput, adaptive over parallel", _more(_ROWS, "adaptive", "parallel"), 14, None),
    Claim("latency under load, adaptive below baseline", _below("adaptive", "baseline", "latency"), 57, 57),
    Claim("latency under load, parallel below baseline", _below("parallel", "baseline", "latency"), 43, None),
    Claim("99 % of rows under load, adaptive below baseline", _below("adaptive", "baseline", "p99"), None, None),
    Claim("latency of epochs, adaptive below baseline", _more(_LATENCY, "adaptive", "baseline", sign=-1), None, None),
    Claim("latency, no checkpoints, source below baseline", _more(_LATENCY, "source", "baseline", 0, sign=-1), 9, None),
    Claim("checkpoint time, parallel below source", _more(_TIME, "parallel", "source", sign=-1), 36, None),
    Claim("checkpoint time, adaptive below parallel", _more(_TIME, "adaptive", "parallel", sign=-1), 66, None),
    Claim("bytes per checkpoint, adaptive below parallel", _more(_BYTES, "adaptive", "parallel", sign=-1), None, 66),
    Claim("bytes per checkpoint, oracle below parallel", _more(_BYTES, "oracle", "parallel", sign=-1), None, None),
    Claim("bytes per checkpoint, adaptive over oracle", _more(_BYTES, "adaptive", "oracle"), None, 10, "at most", least=-5),
    Claim("latency during a checkpoint, source", _during("source"), 400, None, "at most"),
    Claim("latency during a checkpoint, adaptive", _during("adaptive"), 47, 47, "at most", least=-10),
    Claim("recovery, adaptive below parallel", _more(_RECOVERY, "adaptive", "parallel", sign=-1), 59, 59),
    Claim("recovery, oracle below parallel", _more(_RECOVERY, "oracle", "parallel", sign=-1), 63, None),
    Claim("state sizes, of hosts' work", lambda c, app: c.judged(app, "adaptive", _NUMBERS["sizing_percent"]), None, 1, "at most"),
)  # fmt: skip
