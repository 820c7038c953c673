"""What a checkpoint root knows when a driver starts on it: whose it is, and how far earlier runs came."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.engine.root_history import history, needs, partitioned, usable
from perseid.engine.settings import RootHistory
from perseid.errors import GraphChanged
from perseid.graph.fingerprint import differences
from perseid.graph.graph import Graph
from perseid.graph.nodes import StatefulNode
from perseid.operators.operator import Operator
from perseid.state.evolution import as_declared
from perseid.state.partition import obstacles
from perseid.state.shard_state import restore_state
from perseid.storage import layout
from perseid.storage.dead_letters import epochs_with
from perseid.storage.kept_state import KeptState, keep_state
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.persisted import persisted
from perseid.storage.records import Partitioned
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, UnitName

Aside = dict[tuple[UnitName, Epoch], frozenset[OperatorName]]


@dataclass(frozen=True, slots=True)
class CodeChange:
    """How the code differs from that which wrote the root, where its state can follow."""

    before: dict[str, Any]  # the fingerprint
    told: tuple[str, ...]


def check_owner(store: Store, graph: Graph, allow_removed: Collection[str] = ()) -> CodeChange | None:
    """The root belongs to one graph: refuse another, and say what changed. What is accepted is given back."""
    if not store.exists(layout.APP):
        return None
    before = json.loads(store.read(layout.APP))
    found = differences(before, graph.fingerprint, allow_removed)
    _refuse(store, [difference.text for difference in found if difference.refused])
    return CodeChange(before, tuple(difference.text for difference in found)) if found else None


def keep_before(store: Store, graph: Graph, change: CodeChange, past: RootHistory) -> None:
    """Try what state of the newest checkpoint becomes under the new code, then keep that checkpoint until a person lets it go.

    Raises ``GraphChanged`` if it cannot follow; nothing has been written then.
    """
    if past.checkpoints:
        newest = past.checkpoints[0]
        for snapshot in newest.shards.values():
            if isinstance(snapshot, ShardSnapshot):
                state = persisted(store, snapshot.file)[1]
                prototype = _prototype(graph, snapshot.operator)
                restore_state(prototype, as_declared(state, prototype, snapshot.operator))._check_state()
        keep_state(store, KeptState(newest.id, change.before))


def _prototype(graph: Graph, name: str) -> Operator:
    node = graph.node(name)
    assert isinstance(node, StatefulNode)
    return node.operator


def own_root(store: Store, graph: Graph) -> None:
    """From now on the root belongs to this graph, which has passed every check."""
    store.write(layout.APP, [json.dumps(graph.fingerprint, indent=2, sort_keys=True).encode()])


def read_history(store: Store, graph: Graph, ledger: Ledger, checkpoints: Checkpoints) -> RootHistory:
    """Checkpoints, the newest admitted epoch, what was put aside, and the shards there are; the ledger has these from now on."""
    found = usable((_completed(m, graph) for m in checkpoints.newest_first()), ledger.trimmed_to)
    declared = {OperatorName(node.name): node.shards for node in graph.operators}
    divided = partitioned(declared, ledger.partitioned, found)
    _refuse(store, _indivisible(graph, divided, found))
    ledger.append(*divided)
    aside = _dead_letters(store, graph, ledger.trimmed_to)
    return history(found, ledger, divided, checkpoints.next_id(), aside)


def _completed(manifest: Manifest, graph: Graph) -> CompletedCheckpoint:
    """Without the state of operators that are gone, and the epochs of streams that are."""
    names = {node.name for node in graph.nodes}
    inflight = {(i.stream, i.epoch): i.path for i in manifest.inflight if i.stream in names}
    return CompletedCheckpoint(
        manifest.id,
        dict(manifest.units),
        {ShardId(s.operator, s.index): s for s in manifest.shards if s.operator in names},
        inflight,
        needs=needs(manifest.id, manifest.shards, inflight.values()),
    )


def _indivisible(graph: Graph, now: list[Partitioned], checkpoints: list[CompletedCheckpoint]) -> list[str]:
    """Operators that cannot go on with other shards than they were saved with, and why."""
    found = []
    for node, record in zip(graph.operators, now, strict=True):
        slots = {s for _, s in record.shards}
        saved = {s.slots for c in checkpoints for s in c.shards.values() if s.operator == node.name}
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
