"""What a checkpoint root tells a driver that starts on it: which checkpoints it may go back to, and how operators are divided.

Invariant: a checkpoint counts only if the ledger still has the epochs behind it; an operator keeps the shards it was scaled to, until
its author writes another number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from perseid.checkpoint.lifecycle import CompletedCheckpoint, SavedShard
from perseid.engine.settings import RootHistory
from perseid.scaling.routing import even_slots, numbered
from perseid.storage import layout
from perseid.storage.records import Partitioned
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, UnitName


class Ledger(Protocol):
    """What is read of the ledger at a start."""

    @property
    def last_admitted(self) -> Epoch: ...
    @property
    def trimmed_to(self) -> Epoch: ...


def usable(newest_first: Iterable[CompletedCheckpoint], trimmed_to: Epoch) -> list[CompletedCheckpoint]:
    """Those from which the application can go on."""
    return [c for c in newest_first if min(c.cuts.values()) >= trimmed_to]


def needs(
    checkpoint: CheckpointId, snapshots: Iterable[SavedShard], inflight: Iterable[str]
) -> frozenset[CheckpointId]:
    """The checkpoints whose files it names: under ``baseline`` (M2) most of them were written for earlier ones."""
    found = {layout.checkpoint_with(path) for path in (*(s.path for s in snapshots), *inflight)}
    return frozenset(id for id in found if id is not None) | {checkpoint}


def partitioned(
    declared: Mapping[OperatorName, int],
    written: Mapping[OperatorName, Partitioned],
    checkpoints: Sequence[CompletedCheckpoint],
) -> list[Partitioned]:
    """How each operator's slots are divided from now on.

    As they were, also if they were scaled since the application was written; but where its author has written another number of
    shards, that many: their state is put together from the snapshots of those there were.
    """
    found = []
    for operator, shards in declared.items():
        before = written.get(operator) or _as_saved(operator, checkpoints)
        if before is not None and before.declared == shards:
            found.append(before)
            continue
        first = 1 + max(index for index, _ in before.shards) if before is not None else 0
        found.append(Partitioned(operator, shards, numbered(even_slots(shards), first)))
    return found


def _as_saved(operator: OperatorName, checkpoints: Sequence[CompletedCheckpoint]) -> Partitioned | None:
    """What the newest checkpoint that has this operator says."""
    for checkpoint in checkpoints:
        saved = sorted((s for s in checkpoint.shards.values() if s.operator == operator), key=lambda s: s.slots)
        if saved:
            return Partitioned(operator, len(saved), tuple((s.index, s.slots) for s in saved))
    return None


def history(
    checkpoints: Sequence[CompletedCheckpoint],
    ledger: Ledger,
    divided: Sequence[Partitioned],
    next_checkpoint: CheckpointId,
    set_aside: Mapping[tuple[UnitName, Epoch], frozenset[OperatorName]],
) -> RootHistory:
    """All of it, for the controller."""
    return RootHistory(
        checkpoints=checkpoints,
        admitted=ledger.last_admitted,
        oldest_epoch=Epoch(ledger.trimmed_to + 1),
        next_checkpoint=next_checkpoint,
        set_aside=set_aside,
        shards={record.operator: record.shards for record in divided},
    )
