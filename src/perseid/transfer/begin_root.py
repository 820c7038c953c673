"""A root that begins with state from elsewhere: one checkpoint, which stands for all that happened before the first epoch.

That checkpoint is the end of epoch 1, which nobody can replay; the streams begin with epoch 2, and sources at their beginning. So whatever
is lost later, recovery goes back to this checkpoint or a newer one, and if none is left it says that state is gone.

Invariant: the manifest is written last. A root without it has nothing imported, and may be imported to again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from perseid.clocks import wall_ms
from perseid.driver.root_history import check_owner, own_root
from perseid.duration import every
from perseid.errors import RootError
from perseid.graph.graph import Graph
from perseid.graph.nodes import StatefulNode
from perseid.scaling.routing import even_slots
from perseid.state.evolution import as_declared
from perseid.state.shard_state import ShardState, checkpoint_state, restore_state
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.persisted import persist
from perseid.storage.records import Trimmed
from perseid.storage.root_key import own_key
from perseid.storage.store import STAGING, Store
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, SlotRange, UnitName

BEGINNING = Epoch(1)
SCHEME = "import"
"""What the manifest says instead of the scheme of a checkpoint."""


def _nothing(store: Store) -> None:
    """Sources begin at their beginning."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The state that an operator begins with: a function for each shard that makes its state, the event times its inputs had, and what
    writes how far sources were read."""

    operator: str
    shards: Sequence[tuple[SlotRange, Callable[[], ShardState]]]
    event_times_ms: Mapping[str, int]
    carry: Callable[[Store], None] = _nothing


@dataclass(frozen=True, slots=True)
class Imported:
    """What was written."""

    operator: str
    checkpoint: CheckpointId
    shards: int
    bytes: int


def stateful_node(graph: Graph, operator: str) -> StatefulNode:
    """The operator of that name. Raises ``RootError``."""
    for node in graph.operators:
        if node.name == operator:
            return node
    known = ", ".join(node.name for node in graph.operators)
    raise RootError(f"application '{graph.name}' has no stateful operator {operator!r}; it has {known or 'none'}")


def has_begun(store: Store) -> bool:
    """Whether an application has worked on this root, so that it is too late for a beginning."""
    if Ledger.view(store).last_admitted > BEGINNING:
        return True
    manifests = list(Checkpoints(store).newest_first())
    return (store.exists(layout.APP) and Ledger.view(store).trimmed_to != BEGINNING) or any(
        manifest.scheme != SCHEME for manifest in manifests
    )


def begin_root(root: str, graph: Graph, beginning: Beginning) -> Imported:
    """Write the state that an operator begins with. Other operators begin with what was imported for them before, or afresh.

    Raises ``RootError`` if an application has worked on the root already, ``GraphChanged`` if the operator cannot take the state.
    """
    store = Store.at(root)
    lease = Lease.acquire(store, owner=graph.name, now_ms=wall_ms, timeout=every(seconds=10))
    try:
        store = store.fenced(STAGING, lease.fence)
        if has_begun(store):
            raise RootError(
                f"{root}: an application has worked on this root; imported state is the beginning of a new one"
            )
        check_owner(store, graph)
        own_key(store)
        return _begun(store, lease, graph, beginning)
    finally:
        lease.release()


def _begun(store: Store, lease: Lease, graph: Graph, beginning: Beginning) -> Imported:
    checkpoints = Checkpoints(store, lease=lease)
    before = next(checkpoints.newest_first(), None)
    id = checkpoints.next_id()
    snapshots: list[ShardSnapshot] = []
    for node in graph.operators:
        if node.name == beginning.operator:
            mine = [_saved(store, id, node, n, slots, made) for n, (slots, made) in enumerate(beginning.shards)]
            snapshots += mine
        elif before is not None and (known := [s for s in before.shards if s.operator == node.name]):
            snapshots += known
        else:
            for n, slots in enumerate(even_slots(node.shards)):
                snapshots.append(_saved(store, id, node, n, slots, None))
    event_times_ms = dict(Ledger.view(store).event_times_ms(BEGINNING)) if before is not None else {}
    event_times_ms.update((OperatorName(name), at_ms) for name, at_ms in beginning.event_times_ms.items())
    cuts = {UnitName(unit.name): BEGINNING for unit in graph.units}
    now_ms = wall_ms()
    beginning.carry(store)
    Ledger.begin(store, lease, Trimmed(BEGINNING, now_ms, {}, cuts, event_times_ms))
    own_root(store, graph)
    checkpoints.commit(Manifest(id, graph.name, now_ms, cuts, tuple(snapshots), (), event_times_ms, SCHEME))
    return Imported(beginning.operator, id, len(mine), sum(snapshot.file.bytes for snapshot in mine))


def _saved(
    store: Store,
    id: CheckpointId,
    node: StatefulNode,
    index: int,
    slots: SlotRange,
    made: Callable[[], ShardState] | None,
) -> ShardSnapshot:
    """A shard's state as this code declares it, restored once to see that it can be, and written."""
    state = None if made is None else as_declared(made(), node.operator, node.name)
    operator = restore_state(node.operator, state)
    begun = replace(checkpoint_state(operator, BEGINNING, slots=slots, copy=False), buffer={})
    shard = ShardId(OperatorName(node.name), index)
    file = persist(begun, shard, store, layout.snapshot(id, shard.operator, index))
    return ShardSnapshot(shard.operator, index, slots, BEGINNING, file, file.bytes)
