"""The key of a root: snapshots that nobody with the key wrote are refused before anything of them is unpickled."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from perseid.errors import CorruptData, RootError, StorageFailed
from perseid.state.codec import decode
from perseid.storage import layout
from perseid.storage.persisted import persisted
from perseid.storage.private_folder import make_private
from perseid.storage.root_key import derived, known_key, own_key
from perseid.storage.snapshots import SnapshotFile, read_snapshot, write_snapshot
from perseid.storage.store import Store

PATH = "checkpoints/00000001/count-0.snapshot"
HEADER = {"operator": "count", "index": 0, "epoch": 1, "slots": [0, 1024]}


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_root_has_one_key_that_only_its_owner_reads(store: Store) -> None:
    before = os.umask(0)
    try:
        key = own_key(store)
    finally:
        os.umask(before)
    assert store.local is not None
    assert stat.S_IMODE((store.local / layout.KEY).stat().st_mode) == 0o600
    assert known_key(Store.at(str(store.local))) == key == own_key(Store.at(str(store.local)))
    assert key.hex() not in derived(key, "copies 0").hex()


def test_every_kind_of_store_keeps_its_key_and_hands_it_on(any_store: Store) -> None:
    key = own_key(any_store)
    any_store.key = None
    assert known_key(any_store) == key
    if not isinstance(any_store, Store) or any_store.local is None:
        return
    assert pickle.loads(pickle.dumps(any_store)).key == key


@pytest.mark.parametrize("where", ["root", "copy"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_pickle_that_a_stranger_put_there_is_never_loaded(
    store: Store, tmp_path: Path, where: str, mapped: bool
) -> None:
    """Whole, with a digest that fits, under a manifest that names it: but made without the key."""
    own_key(store)
    theirs = Store.at(str(tmp_path / "theirs"))
    mark = tmp_path / "code-was-run"
    file = write_snapshot(theirs, PATH, HEADER, [pickle.dumps({"fields": Trap(mark)})], local=None)
    assert theirs.local is not None and store.local is not None
    copies = tmp_path / "copies"
    make_private(copies)
    for folder in (store.local, copies) if where == "copy" else (store.local,):
        (folder / PATH).parent.mkdir(parents=True)
        shutil.copyfile(theirs.local / PATH, folder / PATH)
    with pytest.raises(CorruptData, match="fails its hash"):
        persisted(store, file, local=copies)
    with pytest.raises(CorruptData, match="fails its hash"):
        decode(read_snapshot(store, file, local=copies, mapped=mapped)[1])
    assert not mark.exists()
    decode(read_snapshot(theirs, file, local=None)[1])
    assert mark.exists(), "the trap works"


def test_a_digest_that_anybody_can_compute_proves_nothing(store: Store) -> None:
    file = write_snapshot(store, PATH, HEADER, [b"state"], local=None)
    assert store.local is not None
    data = bytearray((store.local / PATH).read_bytes())
    at = data.index(b"state")
    data[at : at + 5] = b"fraud"
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    (store.local / PATH).write_bytes(data)
    with pytest.raises(CorruptData):
        read_snapshot(store, replace(file, digest=bytes(data[-32:]).hex()), local=None)


def test_snapshots_of_an_older_format_are_refused_by_that_name(store: Store) -> None:
    file = write_snapshot(store, PATH, HEADER, [b"state"], local=None)
    assert store.local is not None
    data = (store.local / PATH).read_bytes()
    (store.local / PATH).write_bytes(b"PERSEID\x01" + data[8:])
    with pytest.raises(CorruptData, match="another version of Perseid"):
        read_snapshot(store, file, local=None)


def test_a_root_without_its_key_is_not_trusted(store: Store) -> None:
    file = write_snapshot(store, PATH, HEADER, [b"state"], local=None)
    assert store.local is not None
    (store.local / layout.KEY).unlink()
    again = Store.at(str(store.local))
    with pytest.raises(RootError, match=r"checkpoints but no key\.json"):
        own_key(again)
    with pytest.raises(CorruptData, match="no snapshot can be trusted"):
        read_snapshot(again, SnapshotFile(PATH, file.bytes, file.digest), local=None)


@pytest.mark.parametrize("how", ["link", "open to all", "file", "owner"])
def test_a_folder_that_somebody_else_made_is_not_used(tmp_path: Path, how: str) -> None:
    folder, aim = tmp_path / "known", tmp_path / "aim"
    match how:
        case "link":
            aim.mkdir(mode=0o700)
            folder.symlink_to(aim)
        case "open to all":
            folder.mkdir()
            folder.chmod(0o777)
        case "file":
            folder.touch(mode=0o600)
        case "owner":
            folder.mkdir(mode=0o700)
            try:
                os.chown(folder, 12345, 12345)
            except PermissionError:
                return  # only root can make a stranger's folder
    with pytest.raises(StorageFailed, match="cannot use"):
        make_private(folder)
    store = Store.at(str(tmp_path / "root"))
    file = write_snapshot(store, PATH, HEADER, [b"state"], local=folder)
    assert read_snapshot(store, file, local=None)[2] == "shared", "the root's own is written all the same"
    assert not aim.exists() or not any(aim.iterdir())
