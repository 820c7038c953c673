"""The baseline: every unit checkpoints alone, synchronously, with input preservation (M2; the paper's section II-B3).

"Each HAU selects randomly the time for its first checkpoint. After that, each HAU checkpoints its state periodically. For all
HAUs, the checkpoint period is the same, but the time for the first checkpoint is different." An HAU suspends its processing
until its snapshot is durable; its upstream neighbours then discard the tuples it has told them are covered.

This module decides when; ``recovery_line.py`` says what fits together when all is lost, ``recovery/plan.py`` brings back one unit
from its own snapshot and its preserved input.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from perseid.checkpoint.policy import Decision, Reason, Sizeless, Standing
from perseid.checkpoint.size_reports import SizeCommand
from perseid.vocabulary import UnitName


@dataclass(slots=True)
class Independent(Sizeless):
    """Each unit at its own time."""

    periods_ms: Mapping[UnitName, int]
    due_ms: dict[UnitName, int]

    @classmethod
    def made(cls, periods_ms: Mapping[UnitName, int], seed: int, now_ms: int) -> Independent:
        """First phases are drawn at random, one per unit, the same for the same seed."""
        phases = {unit: random.Random(f"{seed}/{unit}").randrange(ms) for unit, ms in periods_ms.items()}
        return cls(periods_ms, {unit: now_ms + phase for unit, phase in phases.items()})

    def decide(self, seen: Standing) -> Decision | None:
        """The unit that has been due for longest, of those that have something to save."""
        due = [(at_ms, unit) for unit, at_ms in self.due_ms.items() if at_ms <= seen.now_ms and unit in seen.moved]
        return Decision(Reason.OWN_PERIOD, frozenset({min(due)[1]})) if due else None

    def started(self, decision: Decision, now_ms: int) -> tuple[SizeCommand, ...]:
        """The next ones keep the unit's phase; a period that was missed is not made up for."""
        for unit in decision.units or ():
            at_ms, period_ms = self.due_ms[unit], self.periods_ms[unit]
            missed = max(0, now_ms - at_ms) // period_ms
            self.due_ms[unit] = at_ms + (missed + 1) * period_ms
        return ()

    def check(self) -> None:
        """Assert the invariants."""
        assert all(ms > 0 for ms in self.periods_ms.values())
