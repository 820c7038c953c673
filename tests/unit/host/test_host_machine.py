"""What a host's machine makes of the driver's messages and of tasks' requests, with operators in memory and files on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from host_pieces import TestHost, apply_epoch, shard_to_restore, snapshot, spec_of

from perseid import Operator, state
from perseid.engine import messages as msg
from perseid.engine.host import Answered
from perseid.engine.shard import Refusal
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.snapshots import SnapshotFile
from perseid.vocabulary import SLOTS, CheckpointId, Epoch, OperatorName, ShardId, Version

SUM = OperatorName("sum")
ONE, OTHER = ShardId(SUM, 0), ShardId(SUM, 1)


class Sum(Operator):
    total: int = state(default=0)

    def process(self, rows: pa.Table) -> pa.Table:
        if -1 in rows["n"].to_pylist():
            raise ValueError("a negative number")
        self.total += sum(rows["n"].to_pylist())
        return pa.table({"total": [self.total]})


@pytest.fixture
def host(tmp_path: Path) -> TestHost:
    spec = spec_of("sum", Sum(), "n", "int64", pa.schema([("total", pa.int64())]))
    made = TestHost(tmp_path / "host", [spec], tmp_path / "root")
    made.restore(shard_to_restore(ONE))
    return made


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def total(host: TestHost, given: Answered[Any, Any] | Refusal) -> int:
    assert isinstance(given, Answered), given
    (found,) = host.effects.table(given.live, given.answer)["total"].to_pylist()
    return int(found)


def refused(given: Answered[Any, Any] | Refusal) -> str:
    assert isinstance(given, Refusal)
    return given.kind


def test_an_epoch_is_applied_once_and_reported_before_it_is_answered(host: TestHost) -> None:
    assert total(host, host.ask(apply_epoch(ONE, 1), rows(1, 2))) == 3
    (report,) = host.told()
    assert (report.shard, report.epoch, report.rows_in, report.rows_out) == (ONE, 1, 2, 1)
    assert total(host, host.ask(apply_epoch(ONE, 1), rows(1, 2))) == 3, "a retried task gets the answer that was kept"
    assert total(host, host.machine.ask(msg.RecallAnswer(ONE, Epoch(1), Version(1)), None)) == 3
    assert refused(host.machine.ask(msg.RecallAnswer(ONE, Epoch(2), Version(1)), None)) == "gap"
    assert refused(host.ask(apply_epoch(OTHER, 1), rows())) == "stale"
    assert refused(host.ask(apply_epoch(ONE, 2, version=0), rows())) == "stale"
    assert host.operator(ONE).total == 3


def test_a_snapshot_of_a_shard_that_is_not_there_fails_the_checkpoint_and_the_host_goes_on(host: TestHost) -> None:
    host.machine.handle(snapshot(OTHER, 4, 0))
    (said,) = host.told()
    assert said == msg.NotSaved(CheckpointId(4), "shard sum/1 cannot be saved at epoch 0: it is not on this host")
    assert total(host, host.ask(apply_epoch(ONE, 1), rows(5))) == 5


def test_a_snapshot_of_a_shard_at_another_epoch_or_poisoned_fails_the_checkpoint(host: TestHost) -> None:
    host.machine.handle(snapshot(ONE, 4, 2))
    assert "it stands at epoch 0" in host.told()[0].message
    assert refused(host.ask(apply_epoch(ONE, 1), rows(-1))) == "raised"
    host.machine.handle(snapshot(ONE, 5, 0))
    assert "it must be restored first: " in host.told()[0].message


def test_a_restore_that_fails_says_why_and_leaves_nobody_to_answer(host: TestHost) -> None:
    saved = ShardSnapshot(SUM, 0, (0, SLOTS), Epoch(3), SnapshotFile("checkpoints/1/gone", 100, "00"), 8)
    part = msg.PartToRead(saved, (0, SLOTS))
    shards = (shard_to_restore(ONE, epoch=3, parts=(part,)),)
    host.machine.handle(msg.Restore(Version(2), Epoch(1), shards))
    (said,) = host.told()
    assert isinstance(said, msg.NotRestored) and (said.version, said.corrupt) == (2, True)
    assert refused(host.ask(apply_epoch(ONE, 1, version=2), rows())) == "stale"


def test_a_shard_that_is_not_there_is_not_caught_up(host: TestHost) -> None:
    shards = (msg.ShardToCatchUp(OTHER, (0, 1)), msg.ShardToCatchUp(ONE, (0, SLOTS)))
    host.machine.handle(msg.CatchUp(Version(1), Epoch(9), shards, ()))
    assert host.told() == [msg.CaughtUp(Version(1), {ONE: Epoch(0)})]


def test_input_is_kept_until_a_checkpoint_covers_it(host: TestHost, tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        host.ask(apply_epoch(ONE, epoch), rows(epoch))
    host.machine.handle(msg.Covered({SUM: Epoch(2)}))
    assert host.held(ONE).kept.epochs == {3}
    assert [path.name for path in (tmp_path / "host" / "input" / "sum-0").iterdir()] == ["3"]


def test_a_restored_shard_goes_on_with_the_input_of_its_home_before_and_reports_it(
    host: TestHost, tmp_path: Path
) -> None:
    for epoch in (1, 2, 3):
        host.ask(apply_epoch(ONE, epoch), rows(epoch))
    spec = spec_of("sum", Sum(), "n", "int64", pa.schema([("total", pa.int64())]))
    other = TestHost(tmp_path / "other", [spec], tmp_path / "root")
    home = (str(tmp_path / "host"),)
    other.machine.handle(msg.Restore(Version(2), Epoch(1), (shard_to_restore(ONE, upto=2, homes=home),)))
    report, restored = other.told()
    assert (report.epoch, restored.reached, other.operator(ONE).total) == (2, {ONE: 2}, 3)
    assert other.held(ONE).kept.epochs == {1, 2}, "nobody vouches for the third"


def test_backups_are_not_kept_where_the_root_is_on_the_same_disk(host: TestHost) -> None:
    host.machine.handle(msg.KeepBackup("checkpoints/1/x", msg.Address("127.0.0.1", 1)))
    host.machine.handle(msg.ReleaseBackup("checkpoints/1/x"))
    host.machine.handle(msg.ForgetCheckpoints(("checkpoints/1",)))
    assert host.told() == []
