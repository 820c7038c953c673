"""What a stream may forget follows from what its consumers have acknowledged (H2, B2).

A consumer acknowledges an epoch when it needs it no more: as soon as it is done with it, or, where input is preserved until then (M2),
when a checkpoint covers it. Acknowledgements are cumulative. An epoch may go when all consumers have acknowledged it and nobody holds it:
a pending checkpoint that has to save it, a scale whose new shards must be fed with it, a recovery that goes back before it.

Durable streams are no part of this: they are trimmed with the oldest checkpoint.

Invariant: no epoch after the least acknowledged one may go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.graph.topology import Topology
from perseid.vocabulary import Epoch, StreamName, UnitName


class Hold(NamedTuple):
    """Somebody needs the epochs of a stream that come after this one."""

    stream: StreamName
    after: Epoch


@dataclass(slots=True)
class Acknowledgements:
    """How far the consumers of every stream are."""

    topology: Topology
    by_consumer: dict[tuple[StreamName, UnitName], Epoch] = field(default_factory=dict)
    _when_done: dict[UnitName, tuple[StreamName, ...]] = field(init=False)
    _when_covered: dict[UnitName, tuple[StreamName, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._when_done, self._when_covered = {}, {}
        for unit in self.topology.units:
            inputs = [s for s in self.topology.streams if s.consumer == unit.name and not s.durable]
            self._when_done[unit.name] = tuple(s.name for s in inputs if s.preservation != "buffered")
            self._when_covered[unit.name] = tuple(s.name for s in inputs if s.preservation == "buffered")
        for stream in self.topology.streams:
            if not stream.durable:
                self.by_consumer[(stream.name, stream.consumer)] = Epoch(0)

    def done(self, unit: UnitName, epoch: Epoch) -> None:
        """A unit is done with an epoch of all its inputs; or was put back to it."""
        for stream in self._when_done[unit]:
            self.by_consumer[(stream, unit)] = epoch

    def covered(self, cuts: Mapping[UnitName, Epoch]) -> None:
        """The newest checkpoint covers units up to here: less than before, if one before it proved corrupt."""
        for unit, epoch in cuts.items():
            for stream in self._when_covered[unit]:
                self.by_consumer[(stream, unit)] = epoch

    def forgettable(self, holds: Iterable[Hold] = ()) -> dict[StreamName, Epoch]:
        """Up to which epoch each stream may be forgotten; streams of which nothing may go are left out."""
        upto: dict[StreamName, Epoch] = {}
        for (stream, _), epoch in self.by_consumer.items():
            upto[stream] = min(epoch, upto.get(stream, epoch))
        for stream, after in holds:
            if stream in upto:
                upto[stream] = min(after, upto[stream])
        return {stream: epoch for stream, epoch in upto.items() if epoch}
