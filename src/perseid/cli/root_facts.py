"""All that a checkpoint root says about its application, from storage alone. Damage is a fact like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from perseid.cli import placement
from perseid.dashboard.journal_model import JournalModel
from perseid.dashboard.picture import Picture
from perseid.dashboard.watched import DETAILS
from perseid.errors import CorruptData, PerseidError
from perseid.storage import layout
from perseid.storage.dead_letters import all_letters
from perseid.storage.journal import JournalReader
from perseid.storage.lease import newest_generation, read_holder
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, Manifest
from perseid.storage.snapshots import read_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, OperatorName, UnitName

FOLDERS = (layout.CHECKPOINTS, layout.PRESERVED, layout.SOURCES, layout.LEDGERS, layout.JOURNALS, layout.DEAD_LETTERS)


@dataclass(frozen=True)
class CheckpointFacts:
    """One checkpoint. ``problem`` is empty when it is good."""

    id: int
    problem: str = ""
    created_ms: int = 0
    scheme: str = ""
    units: dict[str, int] = field(default_factory=dict)
    shards: int = 0
    inflight: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class LeaseFacts:
    """Who runs the application, or ran it last."""

    generation: int
    owner: str
    pid: int
    machine: str
    renewed_ms: int
    status: str  # held, released, dead (its process is gone)


@dataclass(frozen=True)
class DeadLetterFacts:
    """What an operator has put aside, of all epochs together."""

    operator: str
    rows: int
    timers: int
    epochs: int
    last_epoch: int
    error: str  # of that epoch


@dataclass(frozen=True)
class RootFacts:
    """The root at one moment."""

    root: str
    app: str | None
    lease: LeaseFacts | None
    admitted: int
    committed: dict[str, int]
    trimmed_to: int
    checkpoints: tuple[CheckpointFacts, ...]
    bytes: dict[str, int]  # by folder
    shards: dict[str, int]  # by operator, as they are divided now
    hosts: tuple[placement.HostFacts, ...]  # as the journal told last
    switches: placement.SwitchFacts | None  # between hosts and their copies
    hot_keys: tuple[str, ...]  # of which one shard has more than its share, as the last driver saw
    dead_letters: tuple[DeadLetterFacts, ...]
    failed_checkpoints: int  # of the last driver, since its newest good one
    checkpoint_error: str  # why the newest of those failed
    problems: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def gather(store: Store, *, verify: bool) -> RootFacts:
    """Look at everything. With ``verify``, every snapshot is read and its hash checked."""
    problems: list[str] = []
    fingerprint = _fingerprint(store, problems)
    try:
        ledger = Ledger.view(store)
    except PerseidError as error:
        problems.append(str(error))
        ledger = None
    units = dict.fromkeys(str(part["unit"]) for section in fingerprint.values() for part in section.values())
    lease, told = _lease(store, problems), _told(store)
    failed = _failed_checkpoints(told)
    return RootFacts(
        root=store.root,
        app=told.app or (lease.owner if lease else None),
        lease=lease,
        admitted=ledger.last_admitted if ledger else 0,
        committed={unit: ledger.committed(UnitName(unit)) for unit in units} if ledger else {},
        trimmed_to=ledger.trimmed_to if ledger else 0,
        checkpoints=tuple(_checkpoint_facts(store, verify)),
        shards={str(o): len(record.shards) for o, record in ledger.partitioned.items()} if ledger else {},
        hosts=placement.hosts(told),
        switches=placement.switches(told),
        hot_keys=tuple(f"{on}: key {key} has {share:.0%} of the rows" for (on, key), share in told.hot_keys.items()),
        dead_letters=tuple(_dead_letters(store, fingerprint, problems)),
        failed_checkpoints=len(failed),
        checkpoint_error=failed[-1] if failed else "",
        bytes={folder: total for folder in FOLDERS if (total := folder_bytes(store, folder))},
        problems=tuple(problems),
    )


def manifests(store: Store) -> Iterator[tuple[CheckpointId, Manifest | str]]:
    """Every checkpoint folder, newest first: its manifest, or why there is none."""
    unreadable: dict[CheckpointId, str] = {}
    good = {m.id: m for m in Checkpoints(store, lambda id, error: unreadable.update({id: str(error)})).newest_first()}
    ids = {id for name in store.list(layout.CHECKPOINTS) if (id := layout.checkpoint_of(name)) is not None}
    for id in sorted(ids | good.keys() | unreadable.keys(), reverse=True):
        yield id, good.get(id) or unreadable.get(id) or "not committed: being written, or given up"


def folder_bytes(store: Store, folder: str) -> int:
    """The size of all files below a folder. A file that vanishes meanwhile counts nothing."""
    total = 0
    for name in store.list(folder):
        path = f"{folder}/{name}"
        try:
            total += folder_bytes(store, path) if _is_folder(store, path) else store.size(path)
        except FileNotFoundError:
            continue
    return total


def _is_folder(store: Store, path: str) -> bool:
    if store.local is not None:
        return (store.local / path).is_dir()
    return bool(store.list(path))


def _checkpoint_facts(store: Store, verify: bool) -> Iterator[CheckpointFacts]:
    for id, manifest in manifests(store):
        if isinstance(manifest, str):
            yield CheckpointFacts(id, problem=manifest)
            continue
        yield CheckpointFacts(
            id=id,
            problem=_damage(store, manifest) if verify else "",
            created_ms=manifest.created_ms,
            scheme=manifest.scheme,
            units={str(unit): int(epoch) for unit, epoch in manifest.units.items()},
            shards=len(manifest.shards),
            inflight=len(manifest.inflight),
            bytes=sum(shard.file.bytes for shard in manifest.shards),
        )


def _damage(store: Store, manifest: Manifest) -> str:
    """Which snapshots cannot be read back."""
    damaged = []
    for shard in manifest.shards:
        try:
            read_snapshot(store, shard.file, local=None)
        except CorruptData:
            there = store.exists(shard.file.path)
            damaged.append(f"{shard.operator}/{shard.index} {'fails its hash' if there else 'is missing'}")
    return f"corrupt: snapshot of {', '.join(damaged)}" if damaged else ""


def _fingerprint(store: Store, problems: list[str]) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(store.read(layout.APP))
        found = found.get("body", found)
        return {name: section for name, section in found.items() if isinstance(section, dict)}
    except FileNotFoundError:
        problems.append("there is no app.json: the application has not got as far as starting")
    except (ValueError, AttributeError) as error:
        problems.append(f"app.json cannot be read: {error}")
    return {}


def _told(store: Store) -> Picture:
    """What the journal tells."""
    model = JournalModel()
    for record in JournalReader(store, in_detail=DETAILS).new():
        model.take_in(record)
    return model.picture


def _dead_letters(
    store: Store, fingerprint: dict[str, dict[str, Any]], problems: list[str]
) -> Iterator[DeadLetterFacts]:
    for name in fingerprint.get("operators", {}):
        try:
            found = list(all_letters(store, OperatorName(name)))
        except PerseidError as error:
            problems.append(str(error))
            continue
        if found:
            rows, timers = sum(f.rows for f in found), sum(len(f.timers) for f in found)
            yield DeadLetterFacts(name, rows, timers, len({f.epoch for f in found}), found[-1].epoch, found[-1].error)


def _failed_checkpoints(told: Picture) -> list[str]:
    """Those that failed since the last start and the newest that did not."""
    failed: list[str] = []
    for checkpoint in reversed(told.checkpoints.values()):
        if checkpoint.committed_ms is not None or checkpoint.generation != told.generation:
            break
        if checkpoint.error:
            failed.insert(0, f"checkpoint {checkpoint.id} failed: {checkpoint.error}")
    return failed


def _lease(store: Store, problems: list[str]) -> LeaseFacts | None:
    generation = newest_generation(store)
    if not generation:
        return None
    try:
        holder = read_holder(store, generation)
    except (CorruptData, FileNotFoundError) as error:
        problems.append(str(error))
        return None
    status = "released" if holder.released else "dead" if holder.process.is_dead() else "held"
    return LeaseFacts(generation, holder.owner, holder.process.pid, holder.process.host, holder.renewed_ms, status)
