from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.errors import CorruptData, StorageFailed
from perseid.storage.root_key import own_key
from perseid.storage.snapshots import (
    SnapshotFile,
    publish_snapshot,
    read_snapshot,
    stage_snapshot,
    write_snapshot,
)
from perseid.storage.store import Store

PATH = "checkpoints/00000001/count-0.snapshot"
HEADER = {"operator": "count", "epoch": 7}
BUFFERS: list[Any] = [b"", b"x", bytes(range(256)) * 5000, memoryview(b"12345678")]


def names(folder: Path) -> list[str]:
    """What is really there, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def test_header_and_buffers_come_back(any_store: Store) -> None:
    file = write_snapshot(any_store, PATH, HEADER, BUFFERS, local=None)
    assert file.path == PATH and file.bytes == any_store.size(PATH)
    header, buffers, copy = read_snapshot(any_store, file, local=None)
    assert header == HEADER and copy == "shared"
    assert [bytes(buffer) for buffer in buffers] == [bytes(buffer) for buffer in BUFFERS]


def test_a_snapshot_may_be_empty(store: Store) -> None:
    file = write_snapshot(store, PATH, {}, [], local=None)
    assert read_snapshot(store, file, local=None) == ({}, [], "shared")


def test_the_same_state_gives_the_same_digest_under_the_same_key(store: Store, elsewhere: Store) -> None:
    elsewhere.key = own_key(store)
    files = [write_snapshot(s, PATH, HEADER, BUFFERS, local=None) for s in (store, elsewhere)]
    assert files[0] == files[1] and len(files[0].digest) == 64
    assert store.read(PATH) == elsewhere.read(PATH)
    assert store.read(PATH)[-32:].hex() == files[0].digest


def test_buffers_are_aligned_and_writable(any_store: Store) -> None:
    arrays: list[Any] = [np.arange(n, dtype="f8") for n in (1, 7, 1000, 300_000)]
    file = write_snapshot(any_store, PATH, {"h": "x"}, arrays, local=None)
    for buffer, array in zip(read_snapshot(any_store, file, local=None)[1], arrays, strict=True):
        back = np.frombuffer(buffer, dtype="f8")
        assert back.ctypes.data % 64 == 0 and back.flags.writeable
        np.testing.assert_array_equal(back, array)
        back += 1


def test_any_contiguous_buffer_can_be_written(store: Store) -> None:
    buffers: list[Any] = [
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.empty((0, 3)),
        pa.array([1, 2, 3]).buffers()[1],
        pickle.PickleBuffer(bytearray(b"abc")),
        memoryview(np.arange(4, dtype="i2")),  # type: ignore[arg-type]
    ]
    file = write_snapshot(store, PATH, {}, buffers, local=None)
    _, back, _ = read_snapshot(store, file, local=None)
    assert [b.nbytes for b in back] == [pickle.PickleBuffer(b).raw().nbytes for b in buffers]
    with pytest.raises(BufferError):
        write_snapshot(store, PATH, {}, [np.arange(10)[::2]], local=None)  # type: ignore[list-item]


def test_pickled_state_comes_back_without_copies(store: Store) -> None:
    state = {"window": np.arange(100_000), "names": {"a": 1}}
    out_of_band: list[pickle.PickleBuffer] = []
    head = pickle.dumps(state, protocol=5, buffer_callback=out_of_band.append)
    file = write_snapshot(store, PATH, HEADER, [head, *out_of_band], local=None)
    _, (stream, *buffers), _ = read_snapshot(store, file, local=None)
    back = pickle.loads(stream, buffers=buffers)
    assert back["names"] == {"a": 1} and back["window"].flags.writeable
    np.testing.assert_array_equal(back["window"], state["window"])


def test_buffers_may_be_made_while_they_are_written(any_store: Store) -> None:
    file = write_snapshot(any_store, PATH, {}, (bytes([i]) * 1000 for i in range(100)), local=None)
    _, buffers, _ = read_snapshot(any_store, file, local=None)
    assert [bytes(b) for b in buffers] == [bytes([i]) * 1000 for i in range(100)]


BIG = """
import resource, sys
from pathlib import Path
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import Store
store = Store.at(sys.argv[1])
state = [bytearray(32 << 20) for _ in range(2)]
write_snapshot(store, "warm", {}, [b""], local=None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_snapshot(store, "big", {}, state, local=None)
write_snapshot(store, "stream", {}, (bytes(4 << 20) for _ in range(16)), local=None)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_writing_takes_little_memory_beside_the_state(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BIG, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 24


def test_a_forked_child_can_write_and_its_parent_publish(store: Store, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            file, staged = stage_snapshot(store, PATH, HEADER, BUFFERS, local=None)
            (tmp_path / "said").write_text(json.dumps([str(staged), file.path, file.bytes, file.digest]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    staged, *said = json.loads((tmp_path / "said").read_text())
    file = SnapshotFile(*said)
    assert not store.exists(PATH)
    publish_snapshot(store, file, Path(staged))
    assert not Path(staged).exists()
    assert read_snapshot(store, file, local=None)[0] == HEADER


def test_elsewhere_the_second_copy_is_written_first(elsewhere: Store, tmp_path: Path) -> None:
    local = tmp_path / "copies"
    file = write_snapshot(elsewhere, PATH, HEADER, BUFFERS, local=local)
    assert (local / PATH).read_bytes() == elsewhere.read(PATH)
    assert read_snapshot(elsewhere, file, local=local)[2] == "local"
    assert read_snapshot(elsewhere, file, local=None)[2] == "shared"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second filesystem")
def test_across_filesystems_the_second_copy_is_copied(store: Store, tmp_path: Path) -> None:
    local = Path("/dev/shm") / f"perseid-{os.getpid()}"
    try:
        file = write_snapshot(store, PATH, HEADER, BUFFERS, local=local)
        assert store.local is not None and not (local / PATH).samefile(store.local / PATH)
        assert read_snapshot(store, file, local=local)[2] == "local"
        assert read_snapshot(store, file, local=None)[2] == "shared"
    finally:
        subprocess.run(["rm", "-rf", local], check=True)


def test_a_bad_or_missing_second_copy_gives_way_to_the_shared_one(elsewhere: Store, tmp_path: Path) -> None:
    local = tmp_path / "copies"
    file = write_snapshot(elsewhere, PATH, HEADER, BUFFERS, local=local)
    copy = (local / PATH).read_bytes()
    for bad in (copy[:-1], copy + b"x", b"", bytes(len(copy)), copy[:50] + b"?" + copy[51:]):
        (local / PATH).write_bytes(bad)
        assert read_snapshot(elsewhere, file, local=local)[2] == "shared"
    (local / PATH).unlink()
    assert read_snapshot(elsewhere, file, local=local)[2] == "shared"


@pytest.mark.parametrize("kind", ["store", "elsewhere"])
def test_without_room_for_a_second_copy_there_is_none(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store: Store = request.getfixturevalue(kind)
    (tmp_path / "file").write_text("not a folder")
    local = tmp_path / "file" / "copies"
    file = write_snapshot(store, PATH, HEADER, BUFFERS, local=local)
    assert read_snapshot(store, file, local=local)[2] == "shared"


def test_a_child_may_write_for_itself_and_its_parent_publish(elsewhere: Store, tmp_path: Path) -> None:
    file, staged = stage_snapshot(elsewhere, PATH, HEADER, iter(BUFFERS), local=tmp_path)
    assert not elsewhere.exists(PATH)
    publish_snapshot(elsewhere, file, staged)
    assert read_snapshot(elsewhere, file, local=None)[0] == HEADER


def test_what_is_not_there_to_be_published_is_reported(elsewhere: Store, tmp_path: Path) -> None:
    file, staged = stage_snapshot(elsewhere, PATH, HEADER, BUFFERS, local=tmp_path)
    (tmp_path / PATH).write_bytes(b"short")
    with pytest.raises(CorruptData, match="take the snapshot again"):
        publish_snapshot(elsewhere, file, staged)
    assert not elsewhere.exists(PATH)
    (tmp_path / PATH).unlink()
    with pytest.raises(StorageFailed):
        publish_snapshot(elsewhere, file, staged)
    assert not elsewhere.exists(PATH)


def test_a_missing_snapshot_is_corrupt_data(any_store: Store) -> None:
    with pytest.raises(CorruptData, match="is missing"):
        read_snapshot(any_store, SnapshotFile(PATH, 1000, "0" * 32), local=None)


def test_a_whole_snapshot_that_is_not_the_one_asked_for_is_refused(store: Store) -> None:
    wanted = write_snapshot(store, PATH, HEADER, [b"a"], local=None)
    write_snapshot(store, PATH, HEADER, [b"b"], local=None)
    with pytest.raises(CorruptData, match=f"fails its hash: expected {wanted.digest}"):
        read_snapshot(store, wanted, local=None)


def test_no_length_that_the_manifest_could_claim_upsets_the_reader(store: Store) -> None:
    file = write_snapshot(store, PATH, HEADER, [b"a"], local=None)
    for claimed in (0, 1, file.bytes - 1, file.bytes + 1):
        with pytest.raises(CorruptData):
            read_snapshot(store, SnapshotFile(PATH, claimed, file.digest), local=None)
