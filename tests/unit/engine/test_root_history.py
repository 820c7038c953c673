"""What a driver finds at its start: checkpoints it may go back to, and operators as they were divided, or as their author says now."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.engine.root_history import history, needs, partitioned, usable
from perseid.scaling.routing import even_slots, numbered
from perseid.storage import layout
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.records import Index, Partitioned, Trimmed
from perseid.storage.snapshots import SnapshotFile
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, UnitName

COUNT, MAIN = OperatorName("count"), UnitName("main")


def saved(shards: int, *, id: int = 1, epoch: int = 1) -> CompletedCheckpoint:
    file = SnapshotFile(layout.snapshot(CheckpointId(id), COUNT, 0), 0, "")
    snapshots = (ShardSnapshot(COUNT, i, slots, Epoch(epoch), file, 0) for i, slots in enumerate(even_slots(shards)))
    found = {ShardId(s.operator, s.index): s for s in snapshots}
    return CompletedCheckpoint(CheckpointId(id), {MAIN: Epoch(epoch)}, found, {})


SCALED = Partitioned(COUNT, 2, numbered(even_slots(4), 2))


@pytest.mark.parametrize(
    ("author", "records", "checkpoints", "expected"),
    [
        (2, (), (), numbered(even_slots(2))),
        (2, (SCALED,), (), SCALED.shards),  # scaled while it ran: it stays so
        (3, (SCALED,), (), numbered(even_slots(3), 6)),  # another number in the program counts
        (2, (), (saved(2),), numbered(even_slots(2))),
        (5, (), (saved(2),), numbered(even_slots(5), 2)),
    ],
)
def test_the_division_at_a_start(author: int, records: Any, checkpoints: Any, expected: Any) -> None:
    (found,) = partitioned({COUNT: author}, Index(Trimmed(), records).partitioned, checkpoints)
    assert (found.declared, found.shards) == (author, expected)


def test_a_checkpoint_whose_epochs_the_ledger_has_forgotten_is_not_gone_back_to() -> None:
    newest_first = [saved(2, id=3, epoch=9), saved(2, id=2, epoch=5), saved(2, id=1, epoch=4)]
    assert [c.id for c in usable(newest_first, Epoch(5))] == [3, 2]


def test_a_checkpoint_needs_those_for_which_its_files_were_written() -> None:
    snapshots = [s for id in (2, 5) for s in saved(1, id=id).shards.values()]
    assert needs(CheckpointId(7), snapshots, [layout.inflight(CheckpointId(6), "s", Epoch(1))]) == {2, 5, 6, 7}  # type: ignore[arg-type]


def test_what_the_controller_is_told() -> None:
    class Book:
        last_admitted, trimmed_to = Epoch(12), Epoch(5)

    found = history([saved(2, epoch=9)], Book(), [SCALED], CheckpointId(20), {})
    assert (found.admitted, found.oldest_epoch, found.next_checkpoint) == (12, 6, 20)
    assert found.shards == {COUNT: SCALED.shards}
