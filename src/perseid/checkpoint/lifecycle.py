"""The life of a checkpoint: pending, then completed or aborted. A stage of life is a type, not a flag.

Invariant: a checkpoint is completed only when every shard's snapshot and every in-flight epoch of its cut has been
acknowledged as durable; its manifest names those files and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Protocol

from perseid.checkpoint.acknowledgements import Hold
from perseid.graph.topology import StreamShape, Topology
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, SlotRange, StreamName, UnitName


class SavedShard(Protocol):
    """What a shard's durable snapshot says of itself (``storage.manifest.ShardSnapshot``)."""

    @property
    def operator(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def slots(self) -> SlotRange: ...
    @property
    def epoch(self) -> int: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def path(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """What a shard takes of one snapshot: these slots of it."""

    snapshot: SavedShard
    slots: SlotRange


class Saved:
    """The snapshots of some shards, and how to find what they say of any slots."""

    def __init__(self, shards: Mapping[ShardId, SavedShard]) -> None:
        self._shards = shards
        self._found: dict[str, list[SavedShard]] = {}  # by operator, in the order of slots
        for snapshot in sorted(shards.values(), key=attrgetter("slots")):
            self._found.setdefault(snapshot.operator, []).append(snapshot)

    def parts(self, operator: OperatorName, slots: SlotRange) -> tuple[SnapshotPart, ...]:
        """The parts that make up these slots of an operator, in their order, however its shards were cut then; () if none was saved.

        This is how a shard comes back after a loss, and how it comes to be where there were other shards before (S3, S4).
        """
        low, high = slots
        parts = tuple(
            SnapshotPart(s, (max(s.slots[0], low), min(s.slots[1], high)))
            for s in self._found.get(operator, ())
            if s.slots[0] < high and low < s.slots[1]
        )
        if parts:
            bounds = [low, *(part.slots[1] for part in parts)]
            assert [part.slots[0] for part in parts] == bounds[:-1] and bounds[-1] == high, f"{operator}: {parts}"
        return parts

    def size(self, shards: Mapping[ShardId, SlotRange]) -> int | None:
        """Of the files that these shards, or others in their place, were saved in."""
        files: dict[tuple[str, int], int] = {}
        for shard, slots in shards.items():
            saved = self._shards.get(shard)
            if saved is not None and saved.slots == slots:  # as nearly always: there may be thousands of shards
                files[shard] = saved.state_bytes
            else:
                files.update(_files(self.parts(shard.operator, slots)))
        return sum(files.values()) if files else None


def _files(parts: Iterable[SnapshotPart]) -> dict[tuple[str, int], int]:
    return {(p.snapshot.operator, p.snapshot.index): p.snapshot.state_bytes for p in parts}


def bytes_of(parts: Iterable[SnapshotPart]) -> int:
    """How large the snapshots are that these are parts of: each is read and decoded as a whole, and once."""
    return sum(_files(parts).values())


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint on its way."""

    id: CheckpointId
    started_ms: int
    shards: Mapping[ShardId, UnitName]  # every shard that has to be in it
    streams: tuple[StreamShape, ...]
    cuts: dict[UnitName, Epoch] = field(default_factory=dict)
    saved: dict[ShardId, SavedShard] = field(default_factory=dict)
    wanted_inflight: set[tuple[StreamName, Epoch]] = field(default_factory=set)
    inflight: dict[tuple[StreamName, Epoch], str] = field(default_factory=dict)  # path by stream and epoch
    units: tuple[UnitName, ...] = ()

    def cut_known(self, unit: UnitName, epoch: Epoch) -> tuple[tuple[StreamName, Epoch], ...]:
        """A unit's cut is fixed. Returns the in-flight epochs that must now be saved (M4).

        Between a unit whose snapshot holds epoch s and the unit below whose snapshot holds epoch t <= s lie the
        epochs t+1 … s of their stream: nobody's state has them, no source will send them again.
        """
        self.cuts[unit] = epoch
        fresh: list[tuple[StreamName, Epoch]] = []
        for stream in self.streams:
            if stream.durable or unit not in (stream.producer, stream.consumer):
                continue
            above, below = self.cuts.get(stream.producer), self.cuts.get(stream.consumer)
            if above is not None and below is not None:
                fresh += [(stream.name, Epoch(e)) for e in range(below + 1, above + 1)]
        self.wanted_inflight.update(fresh)
        return tuple(fresh)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Epochs in flight that have not been saved yet."""
        return tuple(Hold(stream, Epoch(epoch - 1)) for stream, epoch in self.wanted_inflight - self.inflight.keys())

    def shard_saved(self, shard: ShardId, snapshot: SavedShard) -> None:
        assert shard in self.shards, f"checkpoint {self.id} does not expect shard {shard}"
        assert snapshot.epoch == self.cuts[self.shards[shard]], f"shard {shard} was saved at the wrong epoch"
        self.saved[shard] = snapshot

    def inflight_saved(self, stream: StreamName, epoch: Epoch, path: str) -> None:
        assert (stream, epoch) in self.wanted_inflight
        self.inflight[(stream, epoch)] = path

    @property
    def complete(self) -> bool:
        return (
            len(self.saved) == len(self.shards)  # it takes no others
            and len(self.cuts) == len(self.units)
            and self.inflight.keys() == self.wanted_inflight
        )

    def check(self) -> None:
        assert self.saved.keys() <= self.shards.keys()
        assert self.inflight.keys() <= self.wanted_inflight


@dataclass(frozen=True)
class UnitSnapshot:
    """One unit's snapshots at one epoch, and the checkpoints they were written for (none: the beginning)."""

    written_for: frozenset[CheckpointId]
    epoch: Epoch
    shards: Mapping[ShardId, SavedShard]

    @cached_property
    def saved(self) -> Saved:
        return Saved(self.shards)


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint whose manifest is durable: recovery may use it."""

    id: CheckpointId
    cuts: Mapping[UnitName, Epoch]
    shards: Mapping[ShardId, SavedShard]
    inflight: Mapping[tuple[StreamName, Epoch], str]
    alone: Mapping[UnitName, tuple[UnitSnapshot, ...]] = field(default_factory=dict)  # baseline: newest first
    needs: frozenset[CheckpointId] = frozenset()  # baseline: checkpoints whose files it stands on

    def part(self, topology: Topology, unit: UnitName) -> UnitSnapshot:
        """What it holds of one unit."""
        shards = {s: saved for s, saved in self.shards.items() if topology.unit_of(s.operator) == unit}
        return UnitSnapshot(self.needs or frozenset({self.id}), self.cuts[unit], shards)

    def own_cut(self, unit: UnitName) -> Epoch:
        """Where a unit goes back to if it alone is lost: its preserved input is kept from there on."""
        return self.alone[unit][0].epoch if self.alone.get(unit) else self.cuts[unit]

    def parts(self, operator: OperatorName, slots: SlotRange) -> tuple[SnapshotPart, ...]:
        """Where these slots of an operator are saved."""
        return self.saved.parts(operator, slots)

    def own_parts(self, unit: UnitName, operator: OperatorName, slots: SlotRange) -> tuple[SnapshotPart, ...]:
        """The same, if its unit alone is lost."""
        return self._own(unit).parts(operator, slots)

    def own_size(self, unit: UnitName, shards: Mapping[ShardId, SlotRange]) -> int | None:
        """How large these shards were, or at most were if they were others then; None if nothing of them is saved."""
        return self._own(unit).size(shards)

    @cached_property
    def saved(self) -> Saved:
        return Saved(self.shards)

    def _own(self, unit: UnitName) -> Saved:
        return self.alone[unit][0].saved if self.alone.get(unit) else self.saved
