"""What somebody asks of a running application's state: to be saved now, to be restored (S2 on a running application).

A wish for a checkpoint is answered by the first one that covers all that had been processed when it was made, whoever started it;
one is started for it as soon as one may be. A wish to restore an operator loses its shards on purpose: the recovery that
follows is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perseid.checkpoint.policy import Decision, Reason
from perseid.engine import commands as do
from perseid.engine.notices import Outcome
from perseid.vocabulary import Epoch, OperatorName, UnitName

if TYPE_CHECKING:
    from perseid.engine.controller import Controller

ATTEMPTS = 3  # at a checkpoint for one wish


@dataclass(slots=True)
class Wish:
    """For a checkpoint."""

    number: int
    covering: Mapping[UnitName, Epoch]  # where the units stood then
    attempts: int = 0


@dataclass(slots=True)
class StateRequestSteps:
    """Wishes that have no answer yet."""

    _of: Controller
    checkpoints: list[Wish] = field(default_factory=list)
    restores: list[int] = field(default_factory=list)

    def checkpoint(self, number: int) -> tuple[Outcome, ...]:
        standing = {unit: state.position for unit, state in self._of.pipeline.units.items()}
        if not any(standing.values()):
            return (do.Answered(number, error="nothing has been processed yet: there is no state to save"),)
        self.checkpoints.append(Wish(number, standing))
        return ()

    def restore(self, number: int, operator: OperatorName) -> list[Outcome]:
        of = self._of
        self.restores.append(number)
        return of.recovery.lose({route.shard for route in of.routing.of(operator)}, f"{operator} is to be restored")

    def advance(self) -> list[Outcome]:
        """Nothing is lost: answer what can be answered, start a checkpoint for the rest."""
        of = self._of
        answers: list[Outcome] = [do.Answered(number) for number in self.restores]
        self.restores.clear()
        if not self.checkpoints or of.checkpoints.pending is not None:
            return answers
        newest = of.checkpoints.newest
        saved = {unit: newest.own_cut(unit) if newest is not None else Epoch(0) for unit in of.pipeline.units}
        for wish in list(self.checkpoints):
            if all(saved[unit] >= epoch for unit, epoch in wish.covering.items()):
                answers.append(do.Answered(wish.number, newest))
            elif wish.attempts >= ATTEMPTS:
                answers.append(do.Answered(wish.number, error=f"{ATTEMPTS} checkpoints failed; see the journal"))
            else:
                continue
            self.checkpoints.remove(wish)
        if of.settings.scheme.individual or of.pipeline.settled:
            answers += self._start(saved)
        return answers

    def _start(self, saved: Mapping[UnitName, Epoch]) -> tuple[Outcome, ...]:
        of, units, state = self._of, None, self._of.pipeline.units
        # After a recovery units may stand before what they are to cover: they will come there again.
        ready = [w for w in self.checkpoints if all(state[u].position >= epoch for u, epoch in w.covering.items())]
        if not ready:
            return ()
        if of.settings.scheme.individual:  # one unit at a time, until all are covered
            late = [u for wish in ready for u, epoch in wish.covering.items() if saved[u] < epoch]
            units = frozenset(late[:1])
        for wish in ready:
            wish.attempts += units is None
        return of.checkpoints.start(of.now_ms, of.pipeline, of.routing, Decision(Reason.ASKED, units))
