"""State of shards put together from parts of snapshots, cut by slots where the snapshots were taken of other shards (S2, S3, S4).

Every file is read and decoded once, however many of the shards take a part of it.

Invariant: what a shard gets is made of objects that nobody else holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from perseid.engine.messages import Address, PartToRead, ShardToRestore
from perseid.errors import CorruptData
from perseid.host.apply import OperatorSpec
from perseid.host.phases import Phases
from perseid.state.evolution import as_declared
from perseid.state.operator_state import spills
from perseid.state.partition import merge_state, partition_processing_state
from perseid.state.shard_state import ShardState
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.persisted import state_of
from perseid.storage.snapshots import read_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange

Fetch = Callable[[Address, str, Path], bool]
"""From the host at this address, the file of this path under the root, to here."""


def read_shards(
    store: Store,
    copies: Path | None,
    entries: Sequence[ShardToRestore],
    specs: Mapping[OperatorName, OperatorSpec],
    phases: Phases,
    fetch: Fetch | None = None,
) -> dict[ShardId, ShardState]:
    """The state of each shard of a restore command; those that begin afresh have none. ``fetch`` gets a file from another host."""
    wanted: dict[str, list[tuple[int, PartToRead]]] = {}  # by file: who takes what of it
    for number, entry in enumerate(entries):
        for part in entry.parts:
            wanted.setdefault(_snapshot(part).file.path, []).append((number, part))
    found: list[list[ShardState]] = [[] for _ in entries]
    for takers in wanted.values():
        first, part = entries[takers[0][0]], takers[0][1]
        spec = specs[first.shard.operator]
        fetched = copies is not None and fetch is not None and _fetched(copies, part, fetch, phases)
        whole = _read(store, copies, _snapshot(part), spec, first.epoch, phases, fetched=fetched)
        begun = time.monotonic()
        states = _cut(whole, spec, [part.slots for _, part in takers])
        for number, part in takers:
            found[number].append(states[part.slots])
        phases.add("deserialise", begun)
    begun = time.monotonic()
    states_of = {}
    for entry, parts in zip(entries, found, strict=True):
        if parts:
            spec = specs[entry.shard.operator]
            state = parts[0] if len(parts) == 1 else merge_state(parts, spec.prototype, name=spec.name)
            states_of[entry.shard] = state
    phases.add("deserialise", begun)
    return states_of


def _snapshot(part: PartToRead) -> ShardSnapshot:
    assert isinstance(part.snapshot, ShardSnapshot)
    return part.snapshot


def _fetched(copies: Path, part: PartToRead, fetch: Fetch, phases: Phases) -> bool:
    """Whether a snapshot that has no copy on this machine was got from the host that keeps its backup."""
    begun, file = time.monotonic(), _snapshot(part).file.path
    if (copies / file).exists() or part.backup is None:
        return False
    got = fetch(part.backup, file, copies / file)
    phases.add("read", begun)
    return got


def _read(
    store: Store,
    copies: Path | None,
    snapshot: ShardSnapshot,
    spec: OperatorSpec,
    epoch: Epoch,
    phases: Phases,
    *,
    fetched: bool,
) -> ShardState:
    begun, file = time.monotonic(), snapshot.file
    header, buffers, copy = read_snapshot(store, file, local=copies, mapped=spills(spec.prototype))
    if (header["operator"], header["index"], header["epoch"]) != (spec.name, snapshot.index, epoch):
        raise CorruptData(f"snapshot {file.path} is of {header}, not of {spec.name}/{snapshot.index} at epoch {epoch}")
    phases.add("read", begun)
    kind = "backup" if fetched and copy == "local" else copy
    phases.copies[kind] = phases.copies.get(kind, 0) + 1
    begun = time.monotonic()
    state = as_declared(state_of(header, buffers), spec.prototype, spec.name)
    phases.add("deserialise", begun)
    return state


def _cut(whole: ShardState, spec: OperatorSpec, wanted: Sequence[SlotRange]) -> dict[SlotRange, ShardState]:
    """The wanted parts of a snapshot's state; what nobody wants is cut off as well."""
    of = whole.slots
    if list(wanted) == [of]:
        return {of: whole}
    bounds = sorted({*of, *(bound for slots in wanted for bound in slots)})
    ranges = list(pairwise(bounds))
    assert set(wanted) <= set(ranges), f"parts that overlap: {wanted}"
    types = spec.key_types
    cut = partition_processing_state(whole, spec.prototype, ranges, key_types=types, name=spec.name)
    return dict(zip(ranges, cut, strict=True))
