"""What somebody asks of a running application's state: to be saved now, to be restored (S2 on a running application).

A request for a checkpoint is answered by the first one that covers all that had been processed when it was made, whoever started it;
one is started for it as soon as one may be. A request to restore an operator loses its shards on purpose: the recovery that
follows is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perseid.checkpoint.policy import Decision, Reason
from perseid.engine import commands as do
from perseid.engine.changes import CheckpointWanted, ShardsLost, Step
from perseid.engine.view import View
from perseid.vocabulary import Epoch, OperatorName, UnitName

ATTEMPTS = 3  # at a checkpoint for one request


@dataclass(slots=True)
class CheckpointRequest:
    """For a checkpoint."""

    number: int
    covering: Mapping[UnitName, Epoch]  # where the units stood then
    attempts: int = 0


@dataclass(slots=True)
class StateRequestSteps:
    """Requests that have no answer yet."""

    checkpoints: list[CheckpointRequest] = field(default_factory=list)
    restores: list[int] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Does anybody wait?"""
        return bool(self.checkpoints or self.restores)

    def checkpoint(self, number: int, seen: View) -> list[Step]:
        standing = {unit: state.position for unit, state in seen.pipeline.units.items()}
        if not any(standing.values()):
            return [do.Answered(number, error="nothing has been processed yet: there is no state to save")]
        self.checkpoints.append(CheckpointRequest(number, standing))
        return []

    def restore(self, number: int, operator: OperatorName, seen: View) -> list[Step]:
        self.restores.append(number)
        shards = frozenset(route.shard for route in seen.routing.of(operator))
        return [ShardsLost(shards, f"{operator} is to be restored")]

    def advance(self, seen: View) -> list[Step]:
        """Nothing is lost: answer what can be answered, start a checkpoint for the rest."""
        steps: list[Step] = [do.Answered(number) for number in self.restores]
        self.restores.clear()
        if not self.checkpoints or seen.checkpoints.busy:
            return steps
        newest = seen.checkpoints.newest
        saved = {unit: seen.own_cut(unit) for unit in seen.pipeline.units}
        for request in list(self.checkpoints):
            if all(saved[unit] >= epoch for unit, epoch in request.covering.items()):
                steps.append(do.Answered(request.number, newest))
            elif request.attempts >= ATTEMPTS:
                steps.append(do.Answered(request.number, error=f"{ATTEMPTS} checkpoints failed; see the journal"))
            else:
                continue
            self.checkpoints.remove(request)
        if seen.settings.scheme.individual or seen.pipeline.settled:
            steps += self._wanted(saved, seen)
        return steps

    def _wanted(self, saved: Mapping[UnitName, Epoch], seen: View) -> list[Step]:
        units, state = None, seen.pipeline.units
        # After a recovery units may stand before what they are to cover: they will come there again.
        ready = [w for w in self.checkpoints if all(state[u].position >= epoch for u, epoch in w.covering.items())]
        if not ready:
            return []
        if seen.settings.scheme.individual:  # one unit at a time, until all are covered
            late = [u for request in ready for u, epoch in request.covering.items() if saved[u] < epoch]
            units = frozenset(late[:1])
        for request in ready:
            request.attempts += units is None
        return [CheckpointWanted(Decision(Reason.ASKED, units))]
