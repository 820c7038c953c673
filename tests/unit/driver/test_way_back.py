"""What is trimmed while a checkpoint is kept for the old code, and after it was let go."""

from __future__ import annotations

from pathlib import Path

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.driver.way_back import WayBack
from perseid.engine import commands as do
from perseid.errors import CorruptData
from perseid.storage import layout
from perseid.storage.kept_state import KeptState, keep_state, let_go
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.snapshots import SnapshotFile
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, UnitName

MAIN = UnitName("main")


def root_that_keeps(tmp_path: Path, kept: int, epoch: int, file_of: int) -> Store:
    store = Store.at(str(tmp_path / "root"))
    path = layout.snapshot(CheckpointId(file_of), OperatorName("count"), 0)
    shard = ShardSnapshot(OperatorName("count"), 0, (0, 256), Epoch(epoch), SnapshotFile(path, 100, ""), 100)
    manifest = Manifest(CheckpointId(kept), "app", 0, {MAIN: Epoch(epoch)}, (shard,), (), {}, "parallel")
    Checkpoints(store).commit(manifest)
    keep_state(store, KeptState(CheckpointId(kept), {}))
    return store


def trim(*delete: int, upto: int, unit: str = "main") -> do.Trim:
    oldest = CompletedCheckpoint(CheckpointId(9), {UnitName(unit): Epoch(upto)}, {}, {})
    return do.Trim(tuple(CheckpointId(id) for id in delete), oldest)


def test_checkpoints_before_and_after_the_kept_one_go(tmp_path: Path) -> None:
    spared = WayBack(root_that_keeps(tmp_path, 4, 40, 4)).spared(trim(3, 4, 5, 6, upto=60))
    assert spared.delete == (3, 5, 6)


def test_the_input_since_the_kept_checkpoint_stays_and_older_input_goes(tmp_path: Path) -> None:
    way_back = WayBack(root_that_keeps(tmp_path, 4, 40, 4))
    assert way_back.spared(trim(upto=60)).oldest.cuts == {MAIN: 40}
    assert way_back.spared(trim(upto=30)).oldest.cuts == {MAIN: 30}
    assert way_back.spared(trim(upto=60, unit="new")).oldest.cuts == {"new": 40}


def test_a_checkpoint_whose_file_the_kept_one_names_stays(tmp_path: Path) -> None:
    assert WayBack(root_that_keeps(tmp_path, 4, 40, 2)).spared(trim(1, 2, 3, 4, upto=60)).delete == (1, 3)


def test_what_was_withheld_goes_with_the_next_trim_after_the_release(tmp_path: Path) -> None:
    store = root_that_keeps(tmp_path, 4, 40, 2)
    way_back = WayBack(store)
    way_back.spared(trim(2, 4, upto=60))
    let_go(store)
    released = way_back.spared(trim(5, upto=70))
    assert released.delete == (2, 4, 5) and released.oldest.cuts == {MAIN: 70}
    assert way_back.spared(trim(6, upto=80)).delete == (6,)


def test_nothing_is_trimmed_when_the_kept_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    store = root_that_keeps(tmp_path, 4, 40, 4)
    (tmp_path / "root" / layout.manifest(CheckpointId(4))).write_bytes(b"torn")
    with pytest.raises(CorruptData):
        WayBack(store).spared(trim(3, upto=60))
