from __future__ import annotations

import errno
import pickle
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from perseid.errors import Fenced, RootError, StorageFailed
from perseid.storage.durable import write_file
from perseid.storage.remote import RemoteStore
from perseid.storage.store import Store, failure, local_folder
from perseid.vocabulary import Fence


def folder_of(store: Store) -> Path:
    assert store.local is not None
    return store.local


def names(folder: Path) -> list[str]:
    """What is really there, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


PARTS: list[Any] = [b"one ", memoryview(b"two "), b"", bytearray(b"three")]


def test_what_was_written_is_read_back(any_store: Store) -> None:
    assert any_store.write("a/b/c", PARTS) == 13
    assert any_store.read("a/b/c") == b"one two three"
    assert any_store.size("a/b/c") == 13
    assert any_store.exists("a/b/c") and any_store.exists("a/b") and not any_store.exists("a/c")


def test_writing_again_replaces_the_file(any_store: Store) -> None:
    any_store.write("a", [b"long content"])
    any_store.write("a", [b"new"])
    assert any_store.read("a") == b"new"


def test_many_small_chunks_make_one_file(store: Store) -> None:
    assert store.write("a", (bytes([i % 256]) for i in range(5000))) == 5000
    assert store.read("a") == bytes(i % 256 for i in range(5000))


def test_a_failing_producer_leaves_the_old_file_and_nothing_else(any_store: Store) -> None:
    def chunks():
        yield b"half"
        raise ValueError("producer")

    any_store.write("folder/a", [b"old"])
    with pytest.raises(ValueError, match="producer"):
        any_store.write("folder/a", chunks())
    assert any_store.read("folder/a") == b"old"
    assert any_store.list("folder") == ["a"]


def test_a_failing_producer_leaves_no_temporary_file(store: Store) -> None:
    def chunks():
        yield b"half"
        raise ValueError("producer")

    with pytest.raises(ValueError, match="producer"):
        store.write("folder/a", chunks())
    assert names(folder_of(store) / "folder") == []


def test_create_is_for_the_first_only(any_store: Store) -> None:
    assert any_store.create("a/b", b"first")
    assert not any_store.create("a/b", b"second")
    assert any_store.read("a/b") == b"first"
    assert any_store.list("a") == ["b"]


def test_of_many_that_create_at_once_one_at_most_wins(any_store: Store) -> None:
    wins: list[int] = []
    barrier = threading.Barrier(6)

    def contend(number: int) -> None:
        barrier.wait()
        if any_store.create("a/b", b"%d" % number):
            wins.append(number)

    threads = [threading.Thread(target=contend, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) <= 1
    if any_store.local is not None:
        assert len(wins) == 1
    if wins:
        assert any_store.read("a/b") == b"%d" % wins[0]
    else:
        assert not any_store.exists("a/b")


def test_appended_parts_are_read_as_one_file_in_order(any_store: Store) -> None:
    for number in range(12):
        any_store.append("log/a", b"%d," % number)
    assert any_store.read("log/a") == b"0,1,2,3,4,5,6,7,8,9,10,11,"
    assert any_store.size("log/a") == 26
    assert any_store.list("log") == ["a"]
    assert any_store.exists("log/a")


def test_appending_goes_on_in_another_process(any_store: Store) -> None:
    any_store.append("a", b"1")
    any_store.append("a", b"2")
    pickle.loads(pickle.dumps(any_store)).append("a", b"3")
    assert any_store.read("a") == b"123"


def test_appending_to_a_written_file_adds_to_it_and_writing_drops_it(any_store: Store) -> None:
    any_store.write("a", [b"head,"])
    any_store.append("a", b"tail")
    assert any_store.read("a") == b"head,tail"
    any_store.write("a", [b"new,"])
    assert any_store.read("a") == b"new,"
    any_store.append("a", b"tail")
    assert any_store.read("a") == b"new,tail"


def test_a_missing_folder_has_no_names(any_store: Store) -> None:
    assert any_store.list("nowhere") == []


def test_reading_what_is_missing_says_so(any_store: Store) -> None:
    for look in (any_store.read, any_store.size, any_store.open):
        with pytest.raises(FileNotFoundError):
            look("nothing/here")


def test_names_on_their_way_are_not_listed(any_store: Store) -> None:
    any_store.write("folder/.tmp-half", [b"x"])
    any_store.write("folder/whole", [b"x"])
    assert any_store.list("folder") == ["whole"]


def test_sweeping_removes_what_died_half_way_and_only_that(any_store: Store) -> None:
    any_store.write("folder/.tmp-half", [b"x"])
    any_store.write("folder/.tmp-dir/x", [b"x"])
    any_store.write("folder/whole", [b"x"])
    any_store.sweep("folder")
    any_store.sweep("nowhere")
    assert not any_store.exists("folder/.tmp-half") and not any_store.exists("folder/.tmp-dir")
    assert any_store.exists("folder/whole")


def test_files_and_folders_are_deleted_and_nothing_is_said_when_there_is_none(any_store: Store) -> None:
    any_store.write("folder/a", [b"x"])
    any_store.write("folder/deep/b", [b"x"])
    any_store.append("folder/log", b"x")
    for path in ("folder/a", "folder/log", "folder/log", "folder", "folder"):
        any_store.delete(path)
        assert not any_store.exists(path)
    assert any_store.list("") == []


@pytest.mark.parametrize("fence", [0, 7])
def test_a_staged_folder_gets_its_name_if_nothing_has_it(any_store: Store, fence: int) -> None:
    if fence:
        any_store = any_store.fenced("staging", Fence(fence))
    for content, replace in ((b"old", False), (b"newer", False), (b"newest", True)):
        staged = any_store.staging()
        any_store.write(f"{staged}/a", [content])
        any_store.write(f"{staged}/deep/{content.decode()}", [content])
        any_store.write(f"{staged}/_all", [content])
        there = any_store.exists("other/place")
        assert any_store.publish(staged, "other/place", last="_all", replace=replace) == (not there or replace)
        assert any_store.exists(staged) == (there and not replace)
    assert any_store.read("other/place/a") == b"newest"
    assert any_store.list("other/place/deep") == ["newest"]


def test_a_newer_driver_fences_an_older_one_and_none_comes_back(any_store: Store) -> None:
    older = any_store.fenced("staging", Fence(1))
    staged = older.staging()
    older.write(f"{staged}/_all", [b"x"])
    newer = pickle.loads(pickle.dumps(any_store.fenced("staging", Fence(2))))
    newer.write("a", [b"newer"])
    changes = [lambda: older.write("a", [b"older"]), lambda: older.create("b", b"older"), lambda: older.delete("a")]
    for change in (*changes, lambda: older.publish(staged, "c", last="_all"), older.check, older.staging):
        with pytest.raises(Fenced, match=r"a newer driver \(fence 2\)"):
            change()
    with pytest.raises(Fenced):
        any_store.fenced("staging", Fence(1))
    assert newer.read("a") == b"newer" and newer.list("") == ["a", "staging"]


def test_a_root_that_is_out_of_reach_is_no_newer_driver(store: Store) -> None:
    driver, away = store.fenced("staging", Fence(1)), folder_of(store).with_name("away")
    folder_of(store).rename(away)
    folder_of(store).touch()
    for change in (lambda: driver.write("a", [b"x"]), driver.check):
        with pytest.raises(StorageFailed):
            change()
    folder_of(store).unlink()
    away.rename(folder_of(store))
    driver.write("a", [b"x"])


def test_sync_reaches_everything_below_a_folder(any_store: Store) -> None:
    any_store.write("folder/deep/a", [b"x"])
    any_store.sync("folder")
    any_store.sync("folder/deep/a")


def test_open_reads_piece_by_piece(any_store: Store) -> None:
    any_store.write("a", [b"0123456789"])
    stream, target = any_store.open("a"), bytearray(4)
    assert stream.readinto(memoryview(target)) == 4
    assert target == b"0123"
    stream.close()


def test_a_path_never_leaves_the_root(any_store: Store) -> None:
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(AssertionError):
            any_store.read(path)


def test_spark_gets_a_uri(tmp_path: Path) -> None:
    assert Store.at(str(tmp_path / "a b")).uri("x/y") == f"file://{tmp_path}/a b/x/y"
    assert Store.at(f"file://{tmp_path}/c").local == tmp_path / "c"
    assert Store.at(f"file:{tmp_path}/d").local == tmp_path / "d"


def test_a_uri_of_another_scheme_is_not_a_folder() -> None:
    assert local_folder("s3://bucket/app") is None
    assert local_folder("hdfs://namenode:8020/app") is None
    assert local_folder("relative/folder") == Path.cwd() / "relative/folder"


@pytest.mark.parametrize("root", ["", "file://other-machine/x", "nosuchscheme://x/y", "/dev/null/root", "/proc/root-x"])
def test_a_root_that_cannot_be_used_is_refused(root: str) -> None:
    with pytest.raises(RootError):
        Store.at(root)


def test_a_root_below_a_file_is_refused_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RootError, match="file is where a folder was expected"):
        Store.at(str(tmp_path / "file" / "root"))


def test_a_file_that_is_being_replaced_is_there_all_the_time(hdfs: Store) -> None:
    hdfs.write("folder/a", [b"old"])
    assert isinstance(hdfs, RemoteStore)
    hdfs.filesystem.move("root/folder/a", "root/folder/a.before")  # as if the writer had died between two moves
    assert hdfs.read("folder/a") == b"old" and hdfs.size("folder/a") == 3
    assert hdfs.exists("folder/a") and hdfs.list("folder") == ["a"] and not hdfs.create("folder/a", b"x")
    for content in (b"new", b"newer"):
        hdfs.write("folder/a", [content])
        assert hdfs.read("folder/a") == content
    hdfs.delete("folder/a")
    assert hdfs.list("folder") == []


def test_a_root_may_be_any_uri_that_pyarrow_knows() -> None:
    store = Store.at("mock:///bucket/app")
    assert store.local is None and store.uri("x/y") == "mock:///bucket/app/x/y"
    assert store.create("a/b", b"1") and not store.create("a/b", b"2")
    store.append("a/b", b"3")
    assert store.read("a/b") == b"13" and store.list("a") == ["b"]


def test_a_root_may_be_any_uri_that_fsspec_knows() -> None:
    pytest.importorskip("fsspec")
    store = Store.at("memory://bucket/app")
    store.write("a/b", [b"0"])
    store.write("a/b", [b"1"])
    store.append("a/b", b"3")
    assert store.read("a/b") == b"13" and store.list("a") == ["b"]
    store.delete("a")
    assert not store.exists("a")


def test_opening_a_root_leaves_nothing_in_it(tmp_path: Path) -> None:
    Store.at(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_names_the_path_the_cause_and_the_way_out() -> None:
    message = str(failure("write", "/data/root/x", OSError(errno.ENOSPC, "?")))
    assert message == (
        "cannot write /data/root/x: No space left on device (ENOSPC); free some space there, then start the application "
        "again: it goes on where it was"
    )


def test_a_folder_where_the_file_should_be_fails_the_write_and_leaves_no_rest(store: Store) -> None:
    store.write("a/b", [b"x"])
    with pytest.raises(StorageFailed, match="cannot write"):
        store.write("a", [b"x"])
    assert store.list("") == ["a"] and names(folder_of(store)) == ["a"]


FULL_DISK = """
import resource, sys
from perseid.errors import StorageFailed
from perseid.storage.store import Store
store = Store.at(sys.argv[1])
store.append("log", b"x" * 1000)
store.write("whole", [b"old"])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))     # files end here, in the midst of a write
for attempt in (lambda: store.append("log", b"y" * 10_000), lambda: store.write("whole", [b"y" * 3000] * 10),
                lambda: store.create("made", b"y" * 10_000)):
    try:
        attempt()
    except StorageFailed as error:
        print(error)
store.append("log", b"z")
"""


def test_a_write_that_is_cut_short_leaves_what_was_there(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.count("File too large") == 3
    assert (tmp_path / "log").read_bytes() == b"x" * 1000 + b"z"
    assert (tmp_path / "whole").read_bytes() == b"old"
    assert names(tmp_path) == ["log", "whole"]


def test_a_full_device_is_reported(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(StorageFailed, match=r"cannot append to .*full: No space left on device"):
        store.append("full", b"x")


def test_a_full_filesystem_is_reported_and_leaves_no_rest(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        store = Store.at(str(tmp_path / "root"))
        store.write("small", [b"x"])
        with pytest.raises(StorageFailed, match="No space left on device"):
            store.write("big", [b"x" * 1000] * 1000)
        assert names(tmp_path / "root") == ["small"]
        store.write("small", [b"y"])
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        with pytest.raises(StorageFailed, match="read-only"):
            store.write("small", [b"z"])
        with pytest.raises(RootError, match="read-only"):
            Store.at(str(tmp_path / "root"))
        assert store.read("small") == b"y"
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_writing_takes_bounded_memory(tmp_path: Path) -> None:
    piece = bytes(1 << 20)
    write_file(tmp_path / "warm", [piece])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write_file(tmp_path / "big", (bytes(1 << 20) for _ in range(128)), durable=False)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024
