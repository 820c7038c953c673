"""The checkpoint before a change of the code, kept until a person lets it go, so that the old code can come back.

Invariant: while it is kept, neither it nor what follows it in the ledger and in the sources is trimmed (``driver.way_back``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from perseid.storage import layout
from perseid.storage.manifest import Checkpoints
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId


@dataclass(frozen=True, slots=True)
class KeptState:
    """A checkpoint, and the fingerprint of the graph that wrote it."""

    checkpoint: CheckpointId
    graph: dict[str, Any]


def keep_state(store: Store, kept: KeptState) -> None:
    """Keep a checkpoint; one that is kept already stays the one, since it is the older."""
    if kept_state(store) is None:
        store.write(layout.KEPT, [seal({"checkpoint": int(kept.checkpoint), "graph": kept.graph})])


def kept_state(store: Store) -> KeptState | None:
    """What is kept."""
    if not store.exists(layout.KEPT):
        return None
    data = unseal(store.read(layout.KEPT), store.uri(layout.KEPT))
    return KeptState(CheckpointId(data["checkpoint"]), data["graph"])


def let_go(store: Store) -> KeptState | None:
    """Keep it no longer; what it was."""
    kept = kept_state(store)
    store.delete(layout.KEPT)
    return kept


def go_back(store: Store, checkpoints: Checkpoints) -> KeptState | None:
    """Give the root back to the old code, at the checkpoint that was kept: those after it go."""
    kept = kept_state(store)
    if kept is None:
        return None
    for manifest in list(checkpoints.newest_first()):
        if manifest.id > kept.checkpoint:
            checkpoints.delete(manifest.id)
    store.write(layout.APP, [json.dumps(kept.graph, indent=2, sort_keys=True).encode()])
    let_go(store)
    return kept
