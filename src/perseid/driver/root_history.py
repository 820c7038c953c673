"""What a checkpoint root knows when a driver starts on it: whose it is, and how far earlier runs came."""

from __future__ import annotations

import json

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.engine.controller import RootHistory
from perseid.errors import GraphChanged
from perseid.graph.fingerprint import differences
from perseid.graph.graph import Graph
from perseid.scaling.routing import even_slots, numbered
from perseid.state.partition import obstacles
from perseid.storage import layout
from perseid.storage.dead_letters import epochs_with
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, Manifest
from perseid.storage.records import Partitioned
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, UnitName

Aside = dict[tuple[UnitName, Epoch], frozenset[OperatorName]]


def check_owner(store: Store, graph: Graph) -> None:
    """The root belongs to one graph: refuse another, and say what changed."""
    if store.exists(layout.APP):
        _refuse(store, differences(json.loads(store.read(layout.APP)), graph.fingerprint))


def own_root(store: Store, graph: Graph) -> None:
    """From now on the root belongs to this graph, which has passed every check."""
    store.write(layout.APP, [json.dumps(graph.fingerprint, indent=2, sort_keys=True).encode()])


def read_history(store: Store, graph: Graph, ledger: Ledger, checkpoints: Checkpoints) -> RootHistory:
    """Checkpoints, the newest admitted epoch, what was put aside, and the shards there are; the ledger has these from now on."""
    manifests = [m for m in checkpoints.newest_first() if min(m.units.values()) >= ledger.trimmed_to]
    shards = partitioned(graph, ledger, manifests)
    _refuse(store, _indivisible(graph, shards, manifests))
    ledger.append(*shards)
    return RootHistory(
        checkpoints=[_completed(manifest) for manifest in manifests],
        admitted=ledger.last_admitted,
        oldest_epoch=Epoch(ledger.trimmed_to + 1),
        next_checkpoint=checkpoints.next_id(),
        set_aside=_dead_letters(store, graph, ledger.trimmed_to),
        shards={record.operator: record.shards for record in shards},
    )


def _completed(manifest: Manifest) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        manifest.id,
        dict(manifest.units),
        {ShardId(s.operator, s.index): s for s in manifest.shards},
        {(i.stream, i.epoch): i.path for i in manifest.inflight},
        needs=_needs(manifest),
    )


def _needs(manifest: Manifest) -> frozenset[CheckpointId]:
    """The checkpoints whose files it names: under ``baseline`` (M2) most of them were written for earlier ones."""
    paths = [*(s.file.path for s in manifest.shards), *(i.path for i in manifest.inflight)]
    found = {layout.checkpoint_of(path.split("/")[1]) for path in paths if "/" in path}
    return frozenset(id for id in found if id is not None) | {manifest.id}


def partitioned(graph: Graph, ledger: Ledger, manifests: list[Manifest]) -> list[Partitioned]:
    """How each operator's slots are divided from now on.

    As they were, also if they were scaled since the application was written; but where its author has written another number of
    shards, that many: their state is put together from the snapshots of those there were.
    """
    found = []
    for node in graph.operators:
        name = OperatorName(node.name)
        before = ledger.partitioned.get(name) or _as_saved(name, manifests)
        if before is not None and before.declared == node.shards:
            found.append(before)
            continue
        first = 1 + max(index for index, _ in before.shards) if before is not None else 0
        found.append(Partitioned(name, node.shards, numbered(even_slots(node.shards), first)))
    return found


def _as_saved(operator: OperatorName, manifests: list[Manifest]) -> Partitioned | None:
    """What the newest checkpoint that has this operator says."""
    for manifest in manifests:
        saved = sorted((s for s in manifest.shards if s.operator == operator), key=lambda s: s.slots)
        if saved:
            return Partitioned(operator, len(saved), tuple((s.index, s.slots) for s in saved))
    return None


def _indivisible(graph: Graph, now: list[Partitioned], manifests: list[Manifest]) -> list[str]:
    """Operators that cannot go on with other shards than they were saved with, and why."""
    found = []
    for node, record in zip(graph.operators, now, strict=True):
        slots = {s for _, s in record.shards}
        saved = {s.slots for m in manifests for s in m.shards if s.operator == node.name}
        why = obstacles(node.operator) if saved and saved != slots else []
        found += [f"operator {node.name!r} was saved in other shards than its {len(slots)} now: {w}" for w in why]
    return found


def _dead_letters(store: Store, graph: Graph, trimmed_to: Epoch) -> Aside:
    """Which operators put rows of which epochs aside: the files themselves are the record of it."""
    found: Aside = {}
    for node in graph.operators:
        name, unit = OperatorName(node.name), UnitName(node.unit)
        for epoch in epochs_with(store, name, after=trimmed_to):
            found[unit, epoch] = found.get((unit, epoch), frozenset()) | {name}
    return found


def _refuse(store: Store, changed: list[str]) -> None:
    if changed:
        raise GraphChanged(
            f"checkpoint root {store.root} belongs to another graph:\n"
            + "\n".join(f"  - {change}" for change in changed)
            + "\nUse another root, or put the graph back as it was."
        )
