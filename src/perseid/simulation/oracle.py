"""The oracle: what every slot and sink must hold, from the admitted slices alone. It knows nothing of hosts, jobs or faults.

It folds epochs in order, unit after unit, as the papers' models do on paper. It shares no code with the engine: only the graph's shape and
the arithmetic of values.

Invariant: an epoch's values are computed once, from the epoch before.
"""

from __future__ import annotations

from collections.abc import Callable

from perseid.graph.topology import Topology, UnitShape
from perseid.simulation.values import FRESH, Rows, State, answers, event_time_ms, grown, together
from perseid.vocabulary import SLOTS, Epoch, OperatorName, SlotRange, UnitName


def in_order(unit: UnitShape) -> list[OperatorName]:
    """A unit's operators, each behind those it stands on."""
    return sorted(unit.operators, key=lambda o: (len(unit.feeders.get(o, ())), o))


def outlets(unit: UnitShape) -> list[OperatorName]:
    """Operators no other one stands on: what leaves the unit is what they say."""
    below = frozenset().union(*unit.feeders.values()) if unit.feeders else frozenset[OperatorName]()
    return [o for o in in_order(unit) if o not in below]


class Oracle:
    """Answers: what does a unit give for an epoch, what is the state of some slots after it? It knows of no shards."""

    def __init__(self, topology: Topology, sources: Callable[[UnitName, Epoch], list[Rows]]) -> None:
        self._sources = sources
        self._outputs: dict[tuple[UnitName, int], Rows] = {}
        self._after: dict[int, dict[OperatorName, int]] = {}  # the number of an operator's slots, by epoch
        self._order = [(u, in_order(u), outlets(u)) for u in topology.units]
        self._after[0] = dict.fromkeys(topology.operators, FRESH)
        self._inputs = {u.name: [s.producer for s in topology.streams if s.consumer == u.name] for u in topology.units}
        self._newest_ms: dict[int, dict[OperatorName, int]] = {0: {}}  # event times seen up to and including an epoch
        self.epochs = 0

    def output(self, unit: UnitName, epoch: Epoch) -> Rows:
        """What leaves a unit in an epoch."""
        self._fold(epoch)
        return self._outputs[(unit, epoch)]

    def state(self, operator: OperatorName, slots: SlotRange, epoch: Epoch) -> State:
        """The state of these slots after an epoch (0: at the beginning)."""
        self._fold(epoch)
        return ((*slots, self._after[epoch][operator]),)

    def event_times_ms(self, epoch: int) -> dict[OperatorName, int]:
        """The newest event time every operator has seen up to and including an epoch."""
        self._fold(epoch)
        return self._newest_ms[epoch]

    def forget(self, epoch: Epoch) -> None:
        """Nobody asks for epochs before this one again."""
        self._fold(epoch)
        for old in [e for e in self._after if e < epoch]:
            del self._after[old], self._newest_ms[old]
        for key in [k for k in self._outputs if k[1] < epoch]:
            del self._outputs[key]

    def _fold(self, epoch: int) -> None:
        while self.epochs < epoch:
            self.epochs += 1
            self._after[self.epochs] = {}
            self._newest_ms[self.epochs] = dict(self._newest_ms[self.epochs - 1])
            for unit, order, last in self._order:
                self._unit(unit, order, last, Epoch(self.epochs))

    def _unit(self, unit: UnitShape, order: list[OperatorName], last: list[OperatorName], epoch: Epoch) -> None:
        rows = [*self._sources(unit.name, epoch), *(self._outputs[(u, epoch)] for u in self._inputs[unit.name])]
        whole = together(rows)
        said: dict[OperatorName, Rows] = {}
        before, after, newest = self._after[epoch - 1], self._after[epoch], self._newest_ms[epoch]
        for operator in order:
            above = unit.feeders.get(operator)
            mine = together([said[o] for o in sorted(above)]) if above else whole
            number = after[operator] = grown(before[operator], epoch, mine)
            said[operator] = answers([((0, SLOTS, number),)], mine)
            newest[operator] = max(newest.get(operator, 0), event_time_ms(said[operator]))
        self._outputs[(unit.name, epoch)] = together([said[o] for o in last]) if last else whole
