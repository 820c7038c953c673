"""An operator's state in a checkpoint of a root, shard by shard: read with the root's key, so only by whoever may read the root."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from perseid.errors import CorruptData, PerseidError, RootError
from perseid.state.shard_state import ShardState
from perseid.storage import layout
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.persisted import state_of
from perseid.storage.snapshots import read_snapshot
from perseid.storage.store import Store
from perseid.transfer.state_tables import StateTable, is_empty, tables_of
from perseid.vocabulary import CheckpointId


@dataclass(frozen=True, slots=True)
class SavedOperator:
    """One operator in one checkpoint."""

    store: Store
    manifest: Manifest
    name: str
    key: tuple[str, ...]  # columns
    snapshots: tuple[ShardSnapshot, ...]  # in the order of their slots

    @classmethod
    def of(cls, store: Store, name: str | None, checkpoint: int | None = None) -> SavedOperator:
        """In a checkpoint, by default the newest. Without a name the only operator there is. Raises ``RootError``."""
        manifest = manifest_of(store, checkpoint)
        known = sorted({str(shard.operator) for shard in manifest.shards})
        if name is None and len(known) == 1:
            name = known[0]
        if name is None or name not in known:
            asked = "which operator?" if name is None else f"no operator {name!r};"
            raise RootError(f"{store.root}: {asked} checkpoint {manifest.id} has {', '.join(known) or 'none'}")
        shards = sorted((s for s in manifest.shards if s.operator == name), key=lambda s: s.slots)
        return cls(store, manifest, name, _key_columns(store, name), tuple(shards))

    def read(self, snapshot: ShardSnapshot) -> ShardState:
        """One shard's state. Spilled state stays on disk. Raises ``CorruptData`` if it is not what was written."""
        header, buffers, _ = read_snapshot(self.store, snapshot.file, local=None, mapped=True)
        if (header["operator"], header["index"], header["epoch"]) != (self.name, snapshot.index, snapshot.epoch):
            raise CorruptData(f"snapshot {snapshot.path} is of {header['operator']}/{header['index']}")
        return state_of(header, buffers)

    def tables(self, *, text: Collection[str] = (), without: Collection[str] = ()) -> list[StateTable]:
        """Its tables: the types of keys are those of the first shard that has some."""
        state = self.read(self.snapshots[0])
        for snapshot in self.snapshots[1:]:
            if not is_empty(state):
                break
            state = self.read(snapshot)
        known = [name for table in tables_of(state, self.key) for name in (column.name for column in table.columns)]
        for name in (*text, *without):
            if name not in known:
                raise RootError(f"operator '{self.name}': no field {name!r}; it has {', '.join(known)}")
        return tables_of(state, self.key, text=text, without=without)

    def where(self, snapshot: ShardSnapshot) -> str:
        """For messages."""
        return f"operator '{self.name}', shard {snapshot.index}, checkpoint {self.manifest.id}"


def manifest_of(store: Store, checkpoint: int | None) -> Manifest:
    """A checkpoint of a root, by default the newest that can be read. Raises ``RootError`` if there is none."""
    checkpoints = Checkpoints(store)
    if checkpoint is not None:
        try:
            return checkpoints.read(CheckpointId(checkpoint))
        except FileNotFoundError:
            known = ", ".join(str(m.id) for m in checkpoints.newest_first()) or "none"
            raise RootError(f"{store.root}: no checkpoint {checkpoint}; there is: {known}") from None
    newest = next(checkpoints.newest_first(), None)
    if newest is None:
        raise RootError(f"{store.root}: no good checkpoint yet")
    return newest


def _key_columns(store: Store, operator: str) -> tuple[str, ...]:
    """As the graph that wrote the root has them for the operator's first input."""
    try:
        key = json.loads(store.read(layout.APP))["operators"][operator]["key"]
        return tuple(next(iter(key.values())))
    except (FileNotFoundError, KeyError, StopIteration, PerseidError):
        return ()
