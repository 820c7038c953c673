"""What an asked-for checkpoint gives: its state as values, and copies of it elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from perseid import Operator, state
from perseid.driver.state_requests import TakenCheckpoint
from perseid.errors import RequestFailed
from perseid.primitives import checkpoint_state, partition_processing_state, persist, persisted, restore_state
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId

O = OperatorName("count")  # noqa: E741
HALVES = [(0, 128), (128, 256)]


class Count(Operator):
    counts: dict[str, int] = state(spill="4 KB")

    def process(self, rows: pa.Table) -> None: ...


@pytest.fixture
def taken(tmp_path: Path) -> TakenCheckpoint:
    shard = restore_state(Count(), None)
    shard.counts.update({f"word-{n}": n for n in range(500)})
    store = Store.at(str(tmp_path / "root"))
    snapshots = []
    parts = partition_processing_state(checkpoint_state(shard, Epoch(4)), Count(), HALVES, key_types=["string"])
    for index, part in enumerate(parts):
        file = persist(part, ShardId(O, index), store, f"checkpoints/1/count-{index}.snapshot")
        snapshots.append(ShardSnapshot(O, index, part.slots, part.epoch, file, file.bytes))
    return TakenCheckpoint(1, {"main": 4}, tuple(reversed(snapshots)), store)


def test_its_state_comes_in_the_order_of_slots(taken: TakenCheckpoint) -> None:
    states = taken.state("count")
    assert [one.slots for one in states] == HALVES and {one.epoch for one in states} == {4}
    assert sum(sum(one.processing["fields"]["counts"].values()) for one in states) == sum(range(500))
    with pytest.raises(RequestFailed, match="no state of an operator 'counts'; it has: 'count'"):
        taken.state("counts")


def test_persisted_elsewhere_it_outlives_the_checkpoint(taken: TakenCheckpoint, tmp_path: Path) -> None:
    files = taken.persist("count", str(tmp_path / "elsewhere"))
    taken.store.delete("checkpoints/1")
    found = [persisted(Store.at(str(tmp_path / "elsewhere")), file) for file in files]
    assert [shard.index for shard, _ in found] == [0, 1]
    assert sum(len(one.processing["fields"]["counts"]) for _, one in found) == 500
