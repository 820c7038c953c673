"""When to checkpoint: a policy sees what happens and decides, and gives its reason.

A scheme (``schemes.py``) makes one policy for a run. The policy has no clock and no I/O: time and observations are handed
in, ``decide`` looks at them and changes nothing; ``started`` and ``aborted`` tell what became of a decision.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from perseid.checkpoint.size_reports import SizeCommand, SizeReport
from perseid.vocabulary import Epoch, ShardId, UnitName


class Reason(enum.StrEnum):
    """Why a checkpoint happens when it does."""

    PERIOD = "period"  # source, parallel: one period since the last
    PROFILING = "profiling"  # adaptive, no profile yet: the period has ended
    STATIC = "static"  # adaptive, no state rises and falls: the period has ended
    MINIMUM = "minimum"  # adaptive: the state is small and about to grow (M5d)
    NO_MINIMUM = "no_minimum"  # adaptive: the period has ended without such a moment (M5e)
    RECORDED = "recorded"  # oracle: the minimum of this period in the recording
    UNRECORDED = "unrecorded"  # oracle: the recording has nothing for this period
    OWN_PERIOD = "own_period"  # baseline: one period since this unit's last (M2)
    SCALE = "scale"  # an operator is scaled: its new shards begin here (S3), or have just begun
    ASKED = "asked"  # somebody wants one now
    FINAL = "final"  # the application ends


@dataclass(frozen=True, slots=True)
class Decision:
    """Checkpoint now: these units alone (None: the application), for this reason."""

    reason: Reason
    units: frozenset[UnitName] | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the application stands when a policy is asked."""

    now_ms: int
    moved: frozenset[UnitName]  # units that have something new since their last checkpoint
    epoch: Epoch  # the newest one that all source units have finished or work on: where their tokens would lie


class Policy(Protocol):
    """Decides when to checkpoint."""

    def begin(self, now_ms: int) -> tuple[SizeCommand, ...]:
        """The application runs (again): after its start, and after every recovery."""
        ...

    def take_in(self, report: SizeReport, now_ms: int) -> tuple[SizeCommand, ...]:
        """A shard said something of its size."""
        ...

    def advance(self, now_ms: int) -> tuple[SizeCommand, ...]:
        """Time has passed."""
        ...

    def decide(self, seen: Standing) -> Decision | None:
        """Is this the moment?"""
        ...

    def ponders(self, now_ms: int) -> bool:
        """Is a question open whose answer may make this the moment? Then sources had better not go further meanwhile."""
        ...

    def started(self, decision: Decision, now_ms: int) -> tuple[SizeCommand, ...]:
        """What was decided is being done."""
        ...

    def aborted(self, decision: Decision, now_ms: int) -> None:
        """It came to nothing."""
        ...

    def repartitioned(self, shards: frozenset[ShardId], now_ms: int) -> tuple[SizeCommand, ...]:
        """From now on the application has these shards."""
        ...

    def check(self) -> None:
        """Assert the invariants."""
        ...


class Sizeless:
    """A policy that does not look at sizes: what it need not say."""

    def begin(self, now_ms: int) -> tuple[SizeCommand, ...]:
        return ()

    def take_in(self, report: SizeReport, now_ms: int) -> tuple[SizeCommand, ...]:
        return ()

    def advance(self, now_ms: int) -> tuple[SizeCommand, ...]:
        return ()

    def ponders(self, now_ms: int) -> bool:
        return False

    def aborted(self, decision: Decision, now_ms: int) -> None:
        return None

    def repartitioned(self, shards: frozenset[ShardId], now_ms: int) -> tuple[SizeCommand, ...]:
        return ()


@dataclass(slots=True)
class FixedPeriod(Sizeless):
    """One period after the last checkpoint began (M3, M4)."""

    period_ms: int
    last_ms: int

    def decide(self, seen: Standing) -> Decision | None:
        if not seen.moved or seen.now_ms - self.last_ms < self.period_ms:
            return None
        return Decision(Reason.PERIOD)

    def started(self, decision: Decision, now_ms: int) -> tuple[SizeCommand, ...]:
        self.last_ms = now_ms
        return ()

    def check(self) -> None:
        assert self.period_ms > 0


@dataclass(slots=True)
class Never(Sizeless):
    """No checkpoint but those that something else needs: a scale, and the end of the application."""

    def decide(self, seen: Standing) -> Decision | None:
        return None

    def started(self, decision: Decision, now_ms: int) -> tuple[SizeCommand, ...]:
        return ()

    def check(self) -> None:
        return None
