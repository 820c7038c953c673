"""A shard's state in a snapshot file, and back (S2: ``persist``): what a host writes at a checkpoint and reads at a recovery.

The file says of itself which shard it is of, at which epoch and for which slots; so it can be restored, cut and merged by whoever has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perseid.state.codec import decode, encode
from perseid.state.shape import StateShape
from perseid.state.shard_state import ShardState
from perseid.storage.snapshots import SnapshotFile, read_snapshot, write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId


def persist(state: ShardState, shard: ShardId, store: Store, path: str, *, local: Path | None = None) -> SnapshotFile:
    """Make a shard's state durable in a store; below ``local``, if given, it has a second copy."""
    return write_snapshot(store, path, header_of(shard, state), buffers_of(state), local=local)


def persisted(store: Store, file: SnapshotFile, *, local: Path | None = None) -> tuple[ShardId, ShardState]:
    """What was made durable. Raises ``CorruptData`` if it is not all there, to the bit."""
    header, buffers, _ = read_snapshot(store, file, local=local)
    return ShardId(OperatorName(header["operator"]), header["index"]), state_of(header, buffers)


def header_of(shard: ShardId, state: ShardState) -> dict[str, Any]:
    """What the file says of itself."""
    header = {"operator": shard.operator, "index": shard.index, "epoch": state.epoch, "slots": list(state.slots)}
    return header if state.shape is None else {**header, "state": state.shape.to_json()}


def buffers_of(state: ShardState) -> list[bytes | memoryview]:
    """What is written. Views: to be written before the state changes."""
    return encode({**state.processing, "buffer": dict(state.buffer)} if state.buffer else state.processing)


def state_of(header: Mapping[str, Any], buffers: Sequence[memoryview]) -> ShardState:
    """What was written."""
    processing = decode(buffers)
    buffer = processing.pop("buffer", {})
    first, last = header["slots"]
    shape = StateShape.from_json(header["state"]) if "state" in header else None
    return ShardState(processing, Epoch(header["epoch"]), (first, last), buffer, shape)
