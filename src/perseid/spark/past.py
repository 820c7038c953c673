"""What a checkpoint root knows when a driver starts on it: whose it is, and how far earlier runs came."""

from __future__ import annotations

import json

from perseid.checkpoint.life import CompletedCheckpoint
from perseid.engine.controller import Past
from perseid.errors import GraphChanged
from perseid.graph.fingerprint import differences
from perseid.graph.graph import Graph
from perseid.graph.topology import Topology
from perseid.scaling.routing import RoutingTable
from perseid.storage import layout
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, Manifest
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, UnitName


def check_owner(store: Store, graph: Graph) -> None:
    """The root belongs to one graph: refuse another, and say what changed."""
    if store.exists(layout.APP):
        _refuse(store, differences(json.loads(store.read(layout.APP)), graph.fingerprint))


def own_root(store: Store, graph: Graph) -> None:
    """From now on the root belongs to this graph, which has passed every check."""
    store.write(layout.APP, [json.dumps(graph.fingerprint, indent=2, sort_keys=True).encode()])


def read_past(store: Store, graph: Graph, topology: Topology, ledger: Ledger, checkpoints: Checkpoints) -> Past:
    """Checkpoints, the newest admitted epoch, and what was put aside."""
    manifests = [m for m in checkpoints.newest_first() if min(m.units.values()) >= ledger.trimmed_to]
    if manifests:
        _refuse(store, _other_shards(manifests[0], topology))
    return Past(
        checkpoints=[_completed(manifest) for manifest in manifests],
        admitted=ledger.last_admitted,
        oldest_epoch=Epoch(ledger.trimmed_to + 1),
        next_checkpoint=checkpoints.next_id(),
        set_aside=_dead_letters(store, graph),
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


def _other_shards(manifest: Manifest, topology: Topology) -> list[str]:
    """Operators whose key space was cut otherwise when the checkpoint was taken."""
    counts = {o: n for u in topology.units for o, n in u.operators.items()}
    routing = RoutingTable.initial(counts)
    changed = []
    for operator, count in counts.items():
        then = sorted(s.slots for s in manifest.shards if s.operator == operator)
        if not then and manifest.units.get(topology.unit_of(operator)) == 0:
            continue  # its unit was not saved yet (M2)
        if then != sorted(r.slots for r in routing.of(operator)):
            changed.append(f"operator {operator!r}: its state was saved in {len(then)} shards, now it has {count}")
    return changed


def _dead_letters(store: Store, graph: Graph) -> dict[tuple[UnitName, Epoch], frozenset[ShardId]]:
    """Whose rows of which epochs were put aside: the files themselves are the record of it."""
    found: dict[tuple[UnitName, Epoch], frozenset[ShardId]] = {}
    for node in graph.operators:
        folder = layout.dead_letters(OperatorName(node.name))
        for name in store.list(folder):
            number = name.removeprefix("epoch=")
            shards = {file.partition("-")[0] for file in store.list(f"{folder}/{name}")}
            if number.isdigit():
                key = (UnitName(node.unit), Epoch(int(number)))
                mine = {ShardId(OperatorName(node.name), int(shard)) for shard in shards if shard.isdigit()}
                found[key] = found.get(key, frozenset()) | mine
    return found


def _refuse(store: Store, changed: list[str]) -> None:
    if changed:
        raise GraphChanged(
            f"checkpoint root {store.root} belongs to another graph:\n"
            + "\n".join(f"  - {change}" for change in changed)
            + "\nUse another root, or put the graph back as it was."
        )
