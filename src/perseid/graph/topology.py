"""The shape of an application as its machines need it: units, operators, and the streams between units. No functions, no data.

Which shards an operator has at the moment is routing state (``scaling.routing``), not shape.

Invariant: units stand in topological order; every stream leads from an earlier unit to a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from perseid.vocabulary import Keeping, OperatorName, ShardId, SourceName, StreamName, UnitName


@dataclass(frozen=True, slots=True)
class StreamShape:
    """A stream that crosses from one unit into another."""

    name: StreamName
    producer: UnitName
    consumer: UnitName
    preservation: Keeping
    answers: frozenset[OperatorName] = frozenset()  # the producer's operators whose answers it is made of
    through: frozenset[StreamName] = frozenset()  # the producer's own inputs that reach it without passing an operator

    @property
    def durable(self) -> bool:
        return self.preservation == "durable"


@dataclass(frozen=True)
class UnitShape:
    """One unit: its stateful operators with the number of shards each was declared with, and what they stand on."""

    name: UnitName
    sources: tuple[SourceName, ...]
    operators: Mapping[OperatorName, int]
    feeders: Mapping[OperatorName, frozenset[OperatorName]]  # stateful operators above an operator, in the same unit

    @cached_property
    def stood_on(self) -> frozenset[OperatorName]:
        """Operators whose output another one of the unit stands on."""
        return frozenset().union(*self.feeders.values()) if self.feeders else frozenset()


@dataclass(frozen=True)
class Topology:
    """All units and the streams between them. What follows from them is worked out once: it is asked for at every event."""

    units: tuple[UnitShape, ...]
    streams: tuple[StreamShape, ...]

    def unit(self, name: UnitName) -> UnitShape:
        return self._units[name]

    def upstream(self, unit: UnitName) -> frozenset[UnitName]:
        return self._upstream[unit]

    def downstream(self, unit: UnitName) -> frozenset[UnitName]:
        return self._downstream[unit]

    def above(self, unit: UnitName) -> frozenset[UnitName]:
        """All units whose streams reach this one, directly or not."""
        direct = self.upstream(unit)
        return direct.union(*(self.above(u) for u in direct))

    def unit_of(self, operator: OperatorName) -> UnitName:
        return self._unit_of[operator]

    def units_of(self, shards: Iterable[ShardId]) -> set[UnitName]:
        """The units these shards belong to; there may be thousands of them, but few operators."""
        return {self._unit_of[operator] for operator in {shard.operator for shard in shards}}

    @cached_property
    def operators(self) -> Mapping[OperatorName, int]:
        """Every stateful operator, with the number of shards it was declared with."""
        return {operator: count for u in self.units for operator, count in u.operators.items()}

    @cached_property
    def retaining(self) -> frozenset[OperatorName]:
        """Operators whose answers are kept until a checkpoint covers them: others stand on these, also across units (S1, buffer state)."""
        inside = [unit.stood_on for unit in self.units]
        return frozenset().union(*inside, *(s.answers for s in self.streams if s.preservation == "retained"))

    def can_be_had_again(self, stream: StreamShape) -> bool:
        """Are the epochs that a consumer has read since the newest checkpoint still to be had, from the checkpoint or from the producer?"""
        if stream.preservation != "retained":
            return stream.preservation != "transient"
        above = (s for s in self.streams if s.consumer == stream.producer and s.name in stream.through)
        return all(map(self.can_be_had_again, above))

    @cached_property
    def source_units(self) -> tuple[UnitName, ...]:
        return tuple(u.name for u in self.units if u.sources)

    @cached_property
    def _units(self) -> Mapping[UnitName, UnitShape]:
        return {u.name: u for u in self.units}

    @cached_property
    def _unit_of(self) -> Mapping[OperatorName, UnitName]:
        return {operator: u.name for u in self.units for operator in u.operators}

    @cached_property
    def _upstream(self) -> Mapping[UnitName, frozenset[UnitName]]:
        return {u.name: frozenset(s.producer for s in self.streams if s.consumer == u.name) for u in self.units}

    @cached_property
    def _downstream(self) -> Mapping[UnitName, frozenset[UnitName]]:
        return {u.name: frozenset(s.consumer for s in self.streams if s.producer == u.name) for u in self.units}
