"""The simulated checkpoint root: ledger, checkpoints, preserved streams, sinks; durable whatever dies.

The ledger is the real one's index (``storage.records``) without the file. Every change is made under a driver's generation and refused
(``Fenced``) once a newer driver has opened the root, as the lease does. Trouble can be put upon it: writes that fail,
that tear (they fail and leave half a file behind), that are slow; files that rot.

Invariants: a reader never sees half a thing as a whole one: what is torn or damaged fails its hash; every snapshot's file is in the
folder of its checkpoint, and a folder has no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.simulation.values import Rows, State
from perseid.storage import layout
from perseid.storage.records import Admitted, Index, Record, Trimmed
from perseid.vocabulary import (
    CheckpointId,
    Epoch,
    Generation,
    OperatorName,
    ShardId,
    SlotRange,
    SourceName,
    StreamName,
    UnitName,
)

SLOWNESS = 20.0  # how many times longer a slow root takes


class Snapshot(NamedTuple):
    """What a manifest says of a shard's snapshot; ``digest`` is of the state. It stands for the file, too."""

    operator: OperatorName
    index: int  # type: ignore[assignment]  # a tuple's own index() is not missed
    slots: SlotRange
    epoch: Epoch
    path: str
    digest: State
    state_bytes: int


class Manifest(CompletedCheckpoint):
    """A committed checkpoint on the root."""

    shards: Mapping[ShardId, Snapshot]

    @property
    def path(self) -> str:
        return layout.manifest(self.id)


def checkpoint_of(path: str) -> CheckpointId:
    """Whose file it is."""
    found = layout.checkpoint_with(path)
    assert found is not None, path
    return found


@dataclass(slots=True)
class Root:
    """All that is durable."""

    generation: Generation = Generation(0)
    ledger: Index = field(default_factory=lambda: Index(Trimmed()))
    manifests: dict[CheckpointId, Manifest] = field(default_factory=dict)
    files: dict[str, Snapshot] = field(default_factory=dict)  # by path, in the order in which they were written
    folders: defaultdict[CheckpointId, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )  # their paths, by checkpoint
    saved: dict[str, Rows] = field(default_factory=dict)  # in-flight epochs of checkpoints, by path
    preserved: dict[tuple[StreamName, Epoch], tuple[str, Rows]] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)  # files of all kinds that fail their hash, by path
    sinks: dict[tuple[UnitName, Epoch], tuple[str, Rows]] = field(default_factory=dict)
    failing_ms: int = 0  # until then every write fails
    torn: bool = False  # and leaves half a file behind
    slow_ms: int = 0
    bytes_written: int = 0

    # -- trouble --------------------------------------------------------------------------------------------------

    def check(self, generation: Generation) -> None:
        if generation != self.generation:
            raise Fenced(f"generation {self.generation} of the driver has taken over from generation {generation}")

    def reach(self, now_ms: int) -> None:
        """Raise ``StorageFailed`` if nothing can be written or read now."""
        if now_ms < self.failing_ms:
            raise StorageFailed("the root is out of reach")

    def pace(self, now_ms: int) -> float:
        return SLOWNESS if now_ms < self.slow_ms else 1.0

    @property
    def slow(self) -> tuple[float, int]:
        """How many times slower than usual it is, and until when (see ``site.lasting``)."""
        return SLOWNESS, self.slow_ms

    # -- what drivers do ------------------------------------------------------------------------------------------

    def open(self) -> Generation:
        """A driver starts here; whoever was here before is fenced from now on."""
        self.generation = Generation(self.generation + 1)
        return self.generation

    def newest_folder(self) -> CheckpointId:
        """The newest checkpoint of which there is anything."""
        begun = {*self.folders, *map(checkpoint_of, self.saved)}
        return CheckpointId(max((*begun, *self.manifests), default=0))

    def readable(self) -> list[Manifest]:
        """Checkpoints whose manifest can be read, the newest first; others are passed over."""
        return [m for id, m in sorted(self.manifests.items(), reverse=True) if m.path not in self.damaged]

    def append(self, generation: Generation, now_ms: int, records: list[Record]) -> None:
        self.check(generation)
        self.reach(now_ms)
        for record in self.ledger.news(records):
            self.ledger.add(record)

    def admitted(self, epoch: Epoch) -> Admitted | None:
        return self.ledger.admitted.get(epoch)

    def commit(self, generation: Generation, now_ms: int, manifest: Manifest) -> None:
        self.check(generation)
        self.reach(now_ms)
        self.manifests[manifest.id] = manifest

    def delete(self, generation: Generation, checkpoint: CheckpointId) -> None:
        self.check(generation)
        self.manifests.pop(checkpoint, None)
        folder = f"{layout.checkpoint(checkpoint)}/"
        for path in self.folders.pop(checkpoint, ()):
            del self.files[path]
        for path in [p for p in self.saved if p.startswith(folder)]:
            del self.saved[path]
        self.damaged = {path for path in self.damaged if not path.startswith(folder)}

    def trim(self, generation: Generation, epoch: Epoch) -> None:
        self.check(generation)
        self.ledger = self.ledger.trimmed(epoch)

    def write_sink(self, generation: Generation, now_ms: int, unit: UnitName, admitted: Admitted, rows: Rows) -> None:
        self.check(generation)
        self.reach(now_ms)
        self.sinks[(unit, admitted.epoch)] = (admitted.digest, rows)

    # -- what hosts do: they know no generation, and must do no harm ----------------------------------------------

    def write_snapshot(self, now_ms: int, saved: Snapshot) -> None:
        """All of a file, under its last name; or nothing; or, where writes tear, half of it."""
        if now_ms < self.failing_ms:
            if self.torn:
                self._put(saved)
                self.damaged.add(saved.path)
            raise StorageFailed("the root is out of reach")
        self._put(saved)
        self.damaged.discard(saved.path)
        self.bytes_written += saved.state_bytes

    def _put(self, saved: Snapshot) -> None:
        path = saved.path
        if path not in self.files:
            self.folders[checkpoint_of(path)].append(path)
        self.files[path] = saved

    def read_snapshot(self, now_ms: int, snapshot: Snapshot) -> State:
        """The state it holds. Raises ``CorruptData`` if it is not what the manifest names."""
        if now_ms < self.failing_ms:
            raise StorageFailed("the root is out of reach")
        file = self.files.get(snapshot.path)
        if file is None or snapshot.path in self.damaged or file.digest != snapshot.digest:
            raise CorruptData(f"snapshot {snapshot.path} is missing or fails its hash")
        return file.digest

    def whole(self, manifest: Manifest) -> bool:
        """Can the application go back to this checkpoint?"""
        if not self.damaged.isdisjoint((manifest.path, *manifest.inflight.values())):
            return False
        for snapshot in manifest.shards.values():
            file = self.files.get(snapshot.path)
            if file is not snapshot and (file is None or file.digest != snapshot.digest):
                return False
        return self.damaged.isdisjoint([s.path for s in manifest.shards.values()]) if self.damaged else True


def slices(admitted: Admitted, sources: tuple[SourceName, ...]) -> list[Rows]:
    """The rows of a unit's sources in an epoch."""
    found = []
    for name in sources:
        start, end = admitted.slices[name]
        found.append(Rows(hash((int(start), int(end), sum(name.encode()))), end - start))
    return found
