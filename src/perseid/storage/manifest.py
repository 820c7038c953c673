"""Checkpoints: the manifest names all that belongs to one, and makes it one by being there.

Invariant: a manifest is created only after everything it names is durable, and deleted before anything it names is. A
folder without a manifest is no checkpoint. An unreadable manifest is skipped and reported: the recovery takes the
checkpoint before. Spec: L4; design 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from perseid.errors import CorruptData, Fenced, PerseidError, StorageFailed
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.sealed import seal, unseal
from perseid.storage.snapshots import SnapshotFile
from perseid.storage.store import Store, is_medium_error
from perseid.vocabulary import CheckpointId, Epoch, Generation, OperatorName, StreamName, UnitName


@dataclass(frozen=True, slots=True)
class ShardSnapshot:
    """One shard's part of a checkpoint."""

    operator: OperatorName
    index: int
    slots: tuple[int, int]  # half open
    epoch: Epoch
    file: SnapshotFile
    state_bytes: int

    @property
    def path(self) -> str:
        """Of its file, under the root."""
        return self.file.path


@dataclass(frozen=True, slots=True)
class InflightEpoch:
    """An epoch of a stream between two units that lies between their snapshots, saved with them."""

    stream: StreamName
    epoch: Epoch
    path: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A complete checkpoint."""

    id: CheckpointId
    graph: str  # its fingerprint
    created_ms: int
    units: Mapping[UnitName, Epoch]
    shards: tuple[ShardSnapshot, ...]
    inflight: tuple[InflightEpoch, ...]
    event_times_ms: Mapping[OperatorName, int]
    scheme: str

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "graph": self.graph,
            "created_ms": self.created_ms,
            "units": dict(self.units),
            "shards": [asdict(shard) for shard in self.shards],
            "inflight": [asdict(epoch) for epoch in self.inflight],
            "event_times_ms": {name: int(at_ms) for name, at_ms in self.event_times_ms.items()},
            "scheme": self.scheme,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        shards = (
            ShardSnapshot(
                **{**shard, "slots": (shard["slots"][0], shard["slots"][1]), "file": SnapshotFile(**shard["file"])}
            )
            for shard in data["shards"]
        )
        return cls(**{**data, "shards": tuple(shards), "inflight": tuple(InflightEpoch(**i) for i in data["inflight"])})


class Checkpoints:
    """The checkpoints of a root. With a lease, a driver that was taken over from changes none."""

    def __init__(
        self,
        store: Store,
        on_unreadable: Callable[[CheckpointId, PerseidError], None] | None = None,
        *,
        lease: Lease | None = None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._on_unreadable = on_unreadable
        self._last_id: CheckpointId | None = None  # given out by this driver

    def next_id(self) -> CheckpointId:
        """An id that no checkpoint has, complete or not. The next ones after it are free as well."""
        newest = max(self._ids(), default=0)
        if self._last_id is not None:
            self._last_id = CheckpointId(max(newest, self._last_id) + 1)
        else:
            generation = self._lease.generation if self._lease is not None else Generation(1)
            self._last_id = layout.first_checkpoint(CheckpointId(newest), generation)
        return self._last_id

    def commit(self, manifest: Manifest) -> None:
        """Make a checkpoint one, once everything it names is durable. Raises ``Fenced`` if a newer driver took over."""
        self._check()
        path, data = layout.manifest(manifest.id), seal(manifest.to_json())
        if not self._store.create(path, data) and self._store.read(path) != data:
            raise Fenced(f"checkpoint {manifest.id} was committed by another driver: {self._store.uri(path)}")

    def newest_first(self) -> Iterator[Manifest]:
        """All complete checkpoints. What cannot be read is passed over, after ``on_unreadable`` was told."""
        for id in sorted(self._ids(), reverse=True):
            try:
                yield self.read(id)
            except FileNotFoundError:
                continue  # never completed, or just deleted
            except (CorruptData, StorageFailed) as error:
                if isinstance(error, StorageFailed) and not is_medium_error(error):
                    raise  # out of reach is not lost: no older checkpoint may take its place
                if self._on_unreadable is not None:
                    self._on_unreadable(id, error)

    def read(self, id: CheckpointId) -> Manifest:
        """One checkpoint. Raises ``FileNotFoundError`` if it was never completed, ``CorruptData`` if it is damaged."""
        path = layout.manifest(id)
        body = unseal(self._store.read(path), f"checkpoint {id}: {self._store.uri(path)}")
        try:
            manifest = Manifest.from_json(body)
        except (KeyError, TypeError, IndexError) as error:
            raise CorruptData(f"checkpoint {id} was written by another version of Perseid: {error!r}") from error
        if manifest.id != id:
            raise CorruptData(f"{self._store.uri(path)} is the manifest of checkpoint {manifest.id}")
        return manifest

    def delete(self, id: CheckpointId) -> None:
        """Remove a checkpoint; nothing happens when there is none."""
        self._check()
        self._store.delete(layout.manifest(id))
        self._store.delete(layout.checkpoint(id))

    def discard_unfinished(self) -> tuple[CheckpointId, ...]:
        """At the start: remove what earlier drivers never completed; but the newest, so that no id is used twice."""
        self._check()
        ids = sorted(self._ids())
        unfinished = tuple(id for id in ids[:-1] if not self._store.exists(layout.manifest(id)))
        for id in unfinished:
            self._store.delete(layout.checkpoint(id))
        self._store.sweep(layout.CHECKPOINTS)
        return unfinished

    def _ids(self) -> list[CheckpointId]:
        return [id for name in self._store.list(layout.CHECKPOINTS) if (id := layout.checkpoint_of(name)) is not None]

    def _check(self) -> None:
        if self._lease is not None:
            self._lease.check()
