"""Application-aware checkpointing: one checkpoint in every period, at the moment the state is small (M5; MS-src+ap+aa).

Time is cut into periods of equal length. Shards observe their own sizes all the time, silently. Every ``profile_periods``
periods they are asked what they saw, and the threshold s_max is made anew from it: so it follows a workload that changes.
With a threshold, the controller asks the dynamic shards for their sizes when a period begins and when one of them has more
than halved; a total not above s_max is alert mode, and the summed rate of change turning positive there is the moment.
A period without such a moment is checkpointed at its end (M5e), as is every period while there is no profile.

Invariant: every period gets exactly one checkpoint, unless nothing happened in it or its checkpoint failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.checkpoint.alert import Alert
from perseid.checkpoint.notices import AlertBegan, MomentPassed, Profiled
from perseid.checkpoint.policy import Decision, Reason, Standing
from perseid.checkpoint.profile import LOW, Profile, profile
from perseid.checkpoint.size_reports import (
    AskSizes,
    Observed,
    Quieten,
    SizeCommand,
    SizeHalved,
    SizeReport,
    SizesReported,
    SizeTurned,
)
from perseid.vocabulary import ShardId

PROFILE_PERIODS = 4
LAG_SAMPLES = 2
"""A minimum shows one size later, and the answers to the question come with the next."""
PONDER_MS = 250
"""Answers come within milliseconds of the end of an epoch; sources wait no longer for them."""


@dataclass(slots=True)
class Adaptive:
    """The controller's side of application-aware checkpointing."""

    period_ms: int
    shards: frozenset[ShardId]
    begins_ms: int  # of the current period
    profile_periods: int = PROFILE_PERIODS
    covered: bool = False  # the current period has its checkpoint
    profile: Profile | None = None
    alert: Alert | None = None  # asked, or alert
    observing_ms: int = 0  # since when shards observe for the next profile
    observed: dict[ShardId, Observed] = field(default_factory=dict)  # answers so far
    profiling: int | None = None  # the question for them
    queries: int = 0
    begun: bool = False  # once
    fresh: bool = True  # the current observation began with the application
    asked_ms: int | None = None  # when a fall made the controller ask whether this is the moment

    @property
    def ends_ms(self) -> int:
        return self.begins_ms + self.period_ms

    @property
    def alerted(self) -> bool:
        return self.alert is not None and self.alert.below

    # -- what happens ---------------------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> tuple[SizeCommand, ...]:
        """The application runs, again: what shards that were put back saw before is gone, so all observe anew."""
        self.fresh, self.begun = not self.begun, True
        if self.fresh:  # periods are counted from the first start on, whatever fails later
            self.begins_ms = max(now_ms, self.begins_ms)
        self.alert, self.profiling, self.observed = None, None, {}
        self.observing_ms = self.begins_ms
        if not self.fresh:  # from the next period on: the rest of one is none
            self.observing_ms += ((now_ms - self.begins_ms) // self.period_ms + 1) * self.period_ms
        return (Quieten(anew=True),)

    def take_in(self, report: SizeReport, now_ms: int) -> tuple[SizeCommand, ...]:
        match report:
            case SizesReported(_, query, sizes) if query == self.profiling:
                for size in sizes:
                    if size.observed is not None:
                        self.observed[size.shard] = size.observed
                return self._profiled(now_ms) if self.observed.keys() >= self.shards else ()
            case SizesReported(_, query, sizes) if self.alert is not None and query == self.alert.query:
                self.alert.answered(sizes, now_ms)
                return self._answered(self.alert)
            case SizeHalved(shard) if self.profile is not None and shard in self.profile.dynamic:
                if self.covered or self.alert is not None or now_ms >= self.ends_ms:
                    return ()
                return self._ask(self.profile.threshold, now_ms)
            case SizeTurned(shard, size) if self.alert is not None:
                self.alert.turned(report, now_ms)
                if self.profile is not None and size <= self.profile.lows.get(shard, -1) and now_ms < self.ends_ms:
                    return self._ask(self.alert.threshold, now_ms)  # are the others small, too, at this moment?
                if self.alert.complete and not self.alert.below:
                    self.alert = None  # until one of them falls again
                    return (Quieten(),)
        return ()

    def advance(self, now_ms: int) -> tuple[SizeCommand, ...]:
        if self.alert is not None and self._better_comes(self.alert, now_ms):
            passed, self.alert = MomentPassed(*self.alert.facts), None
            return (Quieten(), passed)
        if now_ms < self.ends_ms or not self.covered:
            return ()
        return self._next_period(now_ms)

    def _better_comes(self, alert: Alert, now_ms: int) -> bool:
        """Is this the moment, but a poor one (the state has grown since, or did not become as small as it does), and will there be
        another before the period ends?"""
        if alert.moment_ms is None or self.profile is None:
            return False
        next_ms = self.profile.next_ms(alert.moment_ms)
        if next_ms is None or next_ms >= self.ends_ms:
            return False
        return alert.size_at(now_ms) > LOW * max(self.profile.usual, alert.low)

    def decide(self, seen: Standing) -> Decision | None:
        if self.covered or not seen.moved:
            return None
        alert = self.alert
        if alert is not None and alert.is_moment and seen.now_ms < self.ends_ms:
            return Decision(Reason.MINIMUM, facts=alert.facts._asdict())
        if seen.now_ms < self.ends_ms:
            return None
        if self.profile is not None and not self.profile.dynamic:
            return Decision(Reason.STATIC)
        if self.profile is None or not self.profile.usable:  # or too little was seen of a state that does change
            return Decision(Reason.PROFILING)
        return Decision(Reason.NO_MINIMUM, facts={"threshold": self.profile.threshold})

    def ponders(self, now_ms: int) -> bool:
        """A shard has fallen, and not all have answered yet whether the whole state is small."""
        asked_ms = self.asked_ms
        if self.alert is None or self.alert.complete or asked_ms is None:
            return False
        return now_ms < asked_ms + PONDER_MS

    def started(self, decision: Decision, now_ms: int) -> tuple[SizeCommand, ...]:
        """The period has its checkpoint; alert mode is dismissed."""
        self.covered = True
        quiet: tuple[SizeCommand, ...] = (Quieten(),) if self.alert is not None else ()
        self.alert = None
        return (*quiet, *self.advance(now_ms))

    def aborted(self, decision: Decision, now_ms: int) -> None:
        """Its checkpoint failed: the period (or the one begun since) needs another."""
        self.covered = False

    def repartitioned(self, shards: frozenset[ShardId], now_ms: int) -> tuple[SizeCommand, ...]:
        """What is known of shards that are gone is of no use: begin with the profile of those there are."""
        self.shards, self.profile = shards, None
        return self.begin(now_ms)

    # -- what follows ---------------------------------------------------------------------------------------------

    def _next_period(self, now_ms: int) -> tuple[SizeCommand, ...]:
        self.begins_ms += (now_ms - self.begins_ms) // self.period_ms * self.period_ms
        self.covered = False
        quiet: tuple[SizeCommand, ...] = (Quieten(),) if self.alert is not None else ()
        self.alert = None
        if self.begins_ms - self.observing_ms >= self.profile_periods * self.period_ms:
            self.profiling, self.observed = self._query(), {}
            return (*quiet, AskSizes(self.profiling, observed=True))  # sizes are asked for with the new threshold
        return (*quiet, *self._ask())

    def _ask(self, threshold: int | None = None, fell_ms: int | None = None) -> tuple[SizeCommand, ...]:
        """Is the state small already? ``fell_ms``: a shard has just fallen, and the moment may be now."""
        found = self.profile
        self.asked_ms = fell_ms
        if found is None or not found.usable:
            return ()
        low = sum(found.lows.values())
        self.alert = Alert(self._query(), threshold or found.s_max, set(found.dynamic), low)
        return (AskSizes(self.alert.query, found.dynamic, watch=True, lows=found.lows),)

    def _answered(self, alert: Alert) -> tuple[SizeCommand, ...]:
        if not alert.complete:
            return ()
        if not alert.below:
            self.alert = None
            return (Quieten(),)
        return (AlertBegan(*alert.facts),)

    def _profiled(self, now_ms: int) -> tuple[SizeCommand, ...]:
        """Every shard has told what it saw: a new threshold."""
        found = profile(self.observed, self.observing_ms, self.period_ms, LAG_SAMPLES, fresh=self.fresh)
        self.profile = found
        self.profiling, self.observed, self.observing_ms, self.fresh = None, {}, self.begins_ms, False
        told = Profiled(found.dynamic, len(self.shards), len(found.minima), found.s_min, found.threshold)
        asked = self._ask() if not self.covered and now_ms < self.ends_ms else ()
        return (told, *asked)

    def _query(self) -> int:
        self.queries += 1
        return self.queries

    def check(self) -> None:
        """Assert the invariants."""
        if self.alert is not None:
            self.alert.check()
            assert not self.covered, "alert mode outlived its checkpoint"
        if self.profile is not None:
            self.profile.check()
