"""A shard's kept input: what is read back is what was applied, in order, and never more than can be trusted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from perseid.host import input_log
from perseid.host.input_log import InputLog
from perseid.state.buffer import replay_buffer_state
from perseid.vocabulary import Epoch, OperatorName, ShardId

SHARD = ShardId(OperatorName("count"), 0)


def rows(epoch: int) -> pa.Table:
    return pa.table({"key": [f"k{epoch}", None], "n": [epoch, -epoch]})


def log_of(folder: Path, epochs: int) -> InputLog:
    log = InputLog(folder, SHARD)
    log.take_over([], SHARD, Epoch(0))
    for epoch in range(1, epochs + 1):
        log.keep(Epoch(epoch), {"epoch": epoch, "watermark_ms": None}, rows(epoch))
    return log


def epochs_after(log: InputLog, epoch: int) -> list[int]:
    found = []
    for _, (request, table) in replay_buffer_state(log, after=Epoch(epoch)):
        assert table.equals(rows(request["epoch"]))
        assert request["watermark_ms"] is None
        found.append(request["epoch"])
    return found


def test_what_was_kept_is_read_back_in_order(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a", 11)
    assert epochs_after(log, 0) == list(range(1, 12))
    assert epochs_after(log, 9) == [10, 11]


def test_the_next_home_takes_the_entries_over_and_drops_those_nobody_vouches_for(tmp_path: Path) -> None:
    log_of(tmp_path / "a", 5)
    log = InputLog(tmp_path / "b", SHARD)
    log.take_over([tmp_path / "nowhere", tmp_path / "a"], SHARD, Epoch(3))
    assert epochs_after(log, 1) == [2, 3]
    log.keep(Epoch(4), {"epoch": 4, "watermark_ms": None}, rows(4))
    assert epochs_after(log, 1) == [2, 3, 4]
    assert not any((tmp_path / "a").iterdir())


def test_a_zombie_cannot_write_once_its_entries_are_taken_over(tmp_path: Path) -> None:
    zombie = log_of(tmp_path / "a", 2)
    log = InputLog(tmp_path / "b", SHARD)
    log.take_over([tmp_path / "a"], SHARD, Epoch(2))
    zombie.keep(Epoch(3), {"epoch": 3, "watermark_ms": None}, rows(3))
    assert epochs_after(log, 0) == [1, 2]
    assert not any((tmp_path / "a").iterdir())


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
def test_reading_stops_before_a_damaged_entry(tmp_path: Path, damage: str) -> None:
    log = log_of(tmp_path, 5)
    entry = tmp_path / "count-0" / "3"
    data = bytearray(entry.read_bytes())
    data[-3] ^= 4
    entry.write_bytes({"flipped": data, "cut": data[:40], "empty": b"", "gone": b""}[damage])
    if damage == "gone":
        entry.unlink()
    assert epochs_after(log, 0) == [1, 2]


def test_covered_epochs_are_deleted(tmp_path: Path) -> None:
    log = log_of(tmp_path, 5)
    log.covered(Epoch(3))
    assert sorted(p.name for p in (tmp_path / "count-0").iterdir()) == ["4", "5"]
    assert epochs_after(log, 3) == [4, 5]


def test_a_full_log_ends_and_begins_again_with_the_next_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_log, "LIMIT_BYTES", 1)
    log = log_of(tmp_path, 3)
    assert epochs_after(log, 0) == [1]
    log.snapshot_taken()
    log.keep(Epoch(4), {"epoch": 4, "watermark_ms": None}, rows(4))
    assert epochs_after(log, 3) == [4]


def test_rows_are_read_back_aligned_however_long_the_request(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Arrow warns of each misaligned buffer on standard error, from its own code."""
    log = InputLog(tmp_path, SHARD)
    log.take_over([], SHARD, Epoch(0))
    for epoch in range(1, 18):
        table = pa.table({"key": [f"k{n % 7}" for n in range(100)], "n": range(100), "x": [n / 3 for n in range(100)]})
        log.keep(Epoch(epoch), {"epoch": epoch, "padding": "x" * epoch}, table)
        found = log.get(Epoch(epoch))
        assert found is not None and found[1].equals(table)
        buffers = [b for column in found[1].columns for chunk in column.chunks for b in chunk.buffers() if b]
        assert not [b.address for b in buffers if b.address % 8]
        assert found[1].group_by("key").aggregate([("n", "sum"), ("x", "max")]).num_rows == 7
    assert "aligned" not in capfd.readouterr().err
