"""The recovery line: which of the units' own snapshots fit together (M2).

Under ``baseline`` every unit is saved alone, when its own time comes. The loss of one unit is made good from its newest snapshot
and the input that was preserved since. When everything is lost, so is preserved input in memory and on local disks: then
every unit must go back to a snapshot so old that the unit above can send again all that came later. A unit above must
stand at the same epoch as the one below, or before it; what it sends a second time the one below has already, and skips.

Units form no cycles, so going up from the sinks such a line always exists, and no unit lies more than one of its own periods
behind the units below it: there is no domino effect. The beginning of the streams is the last resort, and only as long as
sources still have it.

Invariant: a line never goes back; along every stream that is not durable, no epoch is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perseid.checkpoint.lifecycle import CompletedCheckpoint, SavedShard, UnitSnapshot
from perseid.graph.topology import StreamShape, Topology
from perseid.vocabulary import CheckpointId, Epoch, ShardId, StreamName, UnitName

Inflight = Mapping[tuple[StreamName, Epoch], str]

BEGINNING = UnitSnapshot(frozenset(), Epoch(0), {})


@dataclass(frozen=True, slots=True)
class RecoveryLine:
    """One snapshot of every unit, that fit together."""

    snapshots: Mapping[UnitName, UnitSnapshot]
    inflight: Inflight = field(default_factory=dict)  # of a coordinated checkpoint before, where units still stand

    @property
    def cuts(self) -> dict[UnitName, Epoch]:
        return {unit: snapshot.epoch for unit, snapshot in self.snapshots.items()}

    @property
    def shards(self) -> dict[ShardId, SavedShard]:
        return {shard: saved for s in self.snapshots.values() for shard, saved in s.shards.items()}


def recovery_line(
    topology: Topology, history: Mapping[UnitName, Sequence[UnitSnapshot]], inflight: Inflight
) -> RecoveryLine:
    """The newest line."""
    line: dict[UnitName, UnitSnapshot] = {}
    for unit in reversed(topology.units):
        below = [s for s in topology.streams if s.producer == unit.name and not s.durable]
        fitting = [
            snapshot
            for snapshot in history.get(unit.name, ())
            if all(_joins(stream, snapshot.epoch, line[stream.consumer].epoch, inflight) for stream in below)
        ]
        line[unit.name] = max(fitting, key=lambda s: s.epoch, default=BEGINNING)
    needed = {
        (stream.name, Epoch(epoch)): inflight[(stream.name, Epoch(epoch))]
        for stream in topology.streams
        if not stream.durable
        for epoch in range(line[stream.consumer].epoch + 1, line[stream.producer].epoch + 1)
    }
    return RecoveryLine({unit.name: line[unit.name] for unit in topology.units}, needed)


def _joins(stream: StreamShape, above: Epoch, below: Epoch, inflight: Inflight) -> bool:
    """Can the unit above, put back to ``above``, give the one below all that follows ``below``?"""
    return all((stream.name, Epoch(epoch)) in inflight for epoch in range(below + 1, above + 1))


def with_snapshot(
    topology: Topology, newest: CompletedCheckpoint | None, checkpoint: CheckpointId, unit: UnitName, own: UnitSnapshot
) -> CompletedCheckpoint:
    """What there is once ``unit`` has a new snapshot of its own: the newest line, and what is newer than it."""
    history = history_of(topology, newest)
    history[unit] = (own, *(s for s in history[unit] if s.epoch < own.epoch))
    line = recovery_line(topology, history, newest.inflight if newest is not None else {})
    later = {u: tuple(s for s in snapshots if s.epoch >= line.cuts[u]) for u, snapshots in history.items()}
    needs = _needs(checkpoint, line, later, newest)
    return CompletedCheckpoint(checkpoint, line.cuts, line.shards, line.inflight, later, needs)


def history_of(topology: Topology, newest: CompletedCheckpoint | None) -> dict[UnitName, tuple[UnitSnapshot, ...]]:
    """Every unit's own snapshots, newest first."""
    if newest is None:
        return {unit.name: () for unit in topology.units}
    return {unit.name: newest.alone.get(unit.name) or (newest.part(topology, unit.name),) for unit in topology.units}


def _needs(
    checkpoint: CheckpointId,
    line: RecoveryLine,
    later: Mapping[UnitName, Sequence[UnitSnapshot]],
    newest: CompletedCheckpoint | None,
) -> frozenset[CheckpointId]:
    """The checkpoints whose files it stands on."""
    used = (*line.snapshots.values(), *(s for snapshots in later.values() for s in snapshots))
    known = frozenset({checkpoint}).union(*(s.written_for for s in used))
    return known | newest.needs | {newest.id} if newest is not None and line.inflight else known
