"""A shard's kept input: what is read back is what was applied, in order, and never more than can be trusted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from host_pieces import apply_epoch

from perseid.engine import kept_input
from perseid.engine.kept_input import KeptInput
from perseid.host.input_log import InputFiles
from perseid.vocabulary import Epoch, OperatorName, ShardId

SHARD = ShardId(OperatorName("count"), 0)


def rows(epoch: int) -> pa.Table:
    return pa.table({"key": [f"k{epoch}", None], "n": [epoch, -epoch]})


def files_of(folder: Path, epochs: int) -> InputFiles:
    files = InputFiles(folder)
    files.take_over(SHARD, [])
    for epoch in range(1, epochs + 1):
        assert files.write(apply_epoch(SHARD, epoch), rows(epoch)) is not None
    return files


def epochs_after(files: InputFiles, epoch: int) -> list[int]:
    found: list[int] = []
    while (entry := files.read(SHARD, Epoch(epoch + 1))) is not None:
        request, table = entry
        assert table.equals(rows(request.epoch)) and request == apply_epoch(SHARD, epoch + 1)
        epoch = request.epoch
        found.append(epoch)
    return found


def test_what_was_kept_is_read_back_in_order(tmp_path: Path) -> None:
    files = files_of(tmp_path / "a", 11)
    assert epochs_after(files, 0) == list(range(1, 12))
    assert epochs_after(files, 9) == [10, 11]


def test_the_next_home_takes_the_entries_over_and_drops_those_nobody_vouches_for(tmp_path: Path) -> None:
    files_of(tmp_path / "a", 5)
    files, kept = InputFiles(tmp_path / "b"), KeptInput()
    entries = files.take_over(SHARD, [tmp_path / "nowhere", tmp_path / "a"])
    assert sorted(entries) == [1, 2, 3, 4, 5] and all(entries.values())
    files.delete(SHARD, kept.taken_over(entries, Epoch(3)))
    assert epochs_after(files, 1) == [2, 3]
    files.write(apply_epoch(SHARD, 4), rows(4))
    assert epochs_after(files, 1) == [2, 3, 4]
    assert not any((tmp_path / "a").iterdir())


def test_a_zombie_cannot_write_once_its_entries_are_taken_over(tmp_path: Path) -> None:
    zombie = files_of(tmp_path / "a", 2)
    files = InputFiles(tmp_path / "b")
    files.take_over(SHARD, [tmp_path / "a"])
    assert zombie.write(apply_epoch(SHARD, 3), rows(3)) is None
    assert epochs_after(files, 0) == [1, 2]
    assert not any((tmp_path / "a").iterdir())


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
def test_reading_stops_before_a_damaged_entry(tmp_path: Path, damage: str) -> None:
    files = files_of(tmp_path, 5)
    entry = tmp_path / "count-0" / "3"
    data = bytearray(entry.read_bytes())
    data[-3] ^= 4
    entry.write_bytes({"flipped": bytes(data), "cut": bytes(data[:40]), "empty": b"", "gone": b""}[damage])
    if damage == "gone":
        entry.unlink()
    assert epochs_after(files, 0) == [1, 2]


def test_covered_epochs_are_deleted(tmp_path: Path) -> None:
    files, kept = files_of(tmp_path, 5), KeptInput()
    kept.taken_over(files.take_over(SHARD, []), Epoch(5))
    files.delete(SHARD, kept.covered(Epoch(3)))
    assert sorted(p.name for p in (tmp_path / "count-0").iterdir()) == ["4", "5"]
    assert epochs_after(files, 3) == [4, 5] and kept.epochs == {4, 5}


def test_a_full_log_ends_and_begins_again_with_the_next_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_input, "LIMIT_BYTES", 1)
    kept = KeptInput()
    assert kept.has_room()
    kept.kept(Epoch(1), 100)
    assert not kept.has_room()
    kept.kept(Epoch(2), None)
    kept.snapshot_taken()
    assert kept.has_room()
    kept.kept(Epoch(3), 100)
    assert kept.epochs == {1, 3}


def test_rows_are_read_back_aligned_however_long_the_request(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Arrow warns of each misaligned buffer on standard error, from its own code."""
    for length in range(1, 18):
        shard = ShardId(OperatorName("x" * length), 0)
        files = InputFiles(tmp_path)
        files.take_over(shard, [])
        table = pa.table({"key": [f"k{n % 7}" for n in range(100)], "n": range(100), "x": [n / 3 for n in range(100)]})
        files.write(apply_epoch(shard, 1), table)
        found = files.read(shard, Epoch(1))
        assert found is not None and found[1].equals(table)
        buffers = [b for column in found[1].columns for chunk in column.chunks for b in chunk.buffers() if b]
        assert not [b.address for b in buffers if b.address % 8]
        assert found[1].group_by("key").aggregate([("n", "sum"), ("x", "max")]).num_rows == 7
    assert "aligned" not in capfd.readouterr().err
