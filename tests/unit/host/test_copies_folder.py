"""Second copies of snapshots in the temporary folder: ours alone, found again, gone with the application."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from perseid.host import copies_folder
from perseid.host.copies_folder import CopiesFolder, local_copies
from perseid.storage.remote import RemoteStore
from perseid.storage.root_key import own_key
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import Store


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A root on another disk, as far as anybody can tell."""
    (tmp_path / "temporary").mkdir(mode=0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    store = RemoteStore(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "root", "test://root")
    store.probe()
    own_key(store)
    return store


def folder_of(store: Store) -> Path:
    found = local_copies(store)
    assert found is not None
    return found


def test_all_hosts_of_a_root_find_one_folder_that_nobody_else_looks_into(far: Store) -> None:
    folder = folder_of(far)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    again = RemoteStore(far.filesystem, "root", far.root)  # type: ignore[attr-defined]
    assert folder_of(again) == folder, "a restart finds it"
    other = RemoteStore(far.filesystem, "other", far.root)  # type: ignore[attr-defined]
    assert folder_of(other) != folder, "the root's address alone does not tell the name"


def test_a_folder_that_a_stranger_made_beforehand_is_left_alone(far: Store, tmp_path: Path) -> None:
    first = folder_of(far)
    first.rmdir()
    (tmp_path / "trap").mkdir()
    first.symlink_to(tmp_path / "trap")
    second = folder_of(far)
    assert second != first and second == folder_of(far)
    second.chmod(0o755)
    write_snapshot(far, "checkpoints/1/a", {}, [b"state"], local=folder_of(far))
    assert not any((tmp_path / "trap").iterdir()) and not any(second.iterdir())


def test_the_last_host_to_end_takes_the_folder_away_and_only_if_the_application_ends(far: Store) -> None:
    one, other = CopiesFolder(far), CopiesFolder(far)
    folder = folder_of(far)
    write_snapshot(far, "checkpoints/1/a", {}, [b"state"], local=one.folder)
    one.leave(for_good=True)
    assert (folder / "checkpoints/1/a").exists(), "another host uses it"
    other.leave(for_good=False)
    assert (folder / "checkpoints/1/a").exists(), "a restart will use it"
    CopiesFolder(far).leave(for_good=True)
    assert not folder.exists()


def test_a_folder_that_was_cleared_away_meanwhile_comes_back_as_private_as_before(far: Store) -> None:
    host = CopiesFolder(far)
    folder = folder_of(far)
    (folder / "users").unlink()
    folder.rmdir()
    before = os.umask(0)
    try:
        write_snapshot(far, "checkpoints/1/a", {}, [b"state"], local=host.folder)
    finally:
        os.umask(before)
    assert (folder / "checkpoints/1/a").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_killed_application_left_is_cleared_away_when_nobody_has_used_it_for_long(
    far: Store, tmp_path: Path
) -> None:
    left = folder_of(far)
    (left / "checkpoints" / "1").mkdir(parents=True)
    long_ago = time.time() - 2 * copies_folder.WANTED_S
    other = RemoteStore(far.filesystem, "other", far.root)  # type: ignore[attr-defined]
    CopiesFolder(other).leave(for_good=True)
    assert left.exists(), "it may still be wanted"
    for path in (left / "checkpoints" / "1", left / "checkpoints", left):
        os.utime(path, (long_ago, long_ago))
    CopiesFolder(other).leave(for_good=True)
    assert not left.exists()
