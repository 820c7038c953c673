"""A forked child lets go what it has written; what is still to be written is never touched."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid.host.pages import OwnPages
from perseid.storage.snapshots import SnapshotFile, publish_snapshot, read_snapshot, stage_snapshot
from perseid.storage.store import Store

PIECE = 1 << 20
ROOM = np.random.default_rng(1).integers(0, 255, 8 * PIECE, dtype=np.uint8)


def in_a_child(work: Callable[[], None]) -> None:
    """As a snapshot is written: what becomes of the memory there does not matter to this process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_pages_that_were_written_are_let_go_and_their_neighbours_stay() -> None:
    def work() -> None:
        mine = ROOM[100 : 3 * PIECE]
        before = ROOM.copy()
        pages = OwnPages([mine.data])
        pages.let_go(mine.data[:PIECE])
        gone = np.flatnonzero(before != ROOM)
        assert gone.size > 0.9 * PIECE and gone.min() >= 100 and gone.max() < 100 + PIECE
        assert (ROOM[100 + PIECE :] == before[100 + PIECE :]).all() and (ROOM[:100] == before[:100]).all()

    in_a_child(work)


def test_memory_of_two_buffers_is_kept() -> None:
    def work() -> None:
        before = ROOM.copy()
        first, second = ROOM[: 2 * PIECE].data, ROOM[PIECE : 3 * PIECE].data
        pages = OwnPages([first, second])
        pages.let_go(first)
        pages.let_go(second)
        assert (before == ROOM).all()

    in_a_child(work)


def test_memory_that_is_nobodys_is_kept() -> None:
    def work() -> None:
        before = ROOM.copy()
        OwnPages([ROOM[:PIECE].data]).let_go(ROOM[PIECE : 2 * PIECE].data)
        OwnPages([]).let_go(ROOM.data)
        assert (before == ROOM).all()

    in_a_child(work)


spans = st.lists(st.tuples(st.integers(0, 7 * PIECE), st.integers(0, 3 * PIECE)), min_size=1, max_size=6)


@given(where=spans)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_written_while_pages_are_let_go_holds_every_byte(tmp_path: Path, where: list[tuple[int, int]]) -> None:
    """However the buffers lie in memory: apart, side by side within a page, one in another, the same one twice."""
    store = Store.at(str(tmp_path / "root"))
    buffers = [ROOM[at : at + size].data for at, size in where]

    def work() -> None:
        pages = OwnPages(buffers)
        file, staged = stage_snapshot(store, "a", {}, buffers, local=None, written=pages.let_go)
        publish_snapshot(store, file, staged)
        (tmp_path / "file").write_text(f"{file.bytes} {file.digest}")

    in_a_child(work)
    size, digest = (tmp_path / "file").read_text().split()
    _, found, _ = read_snapshot(store, SnapshotFile("a", int(size), digest), local=None)
    assert [bytes(buffer) for buffer in found] == [bytes(buffer) for buffer in buffers]


def resident_bytes(pid: int, address: int) -> int:
    """Of the mapping that holds the address, what the process has in memory."""
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            low, high = (int(bound, 16) for bound in first.split("-"))
            inside = low <= address < high
        elif inside and first == "Rss:":
            return int(line.split()[1]) * 1024
    raise AssertionError("no such mapping")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_the_parent_has_its_pages_alone_again_while_the_child_lives() -> None:
    # A mapping of its own: what the C library has at hand may lie in the middle of a heap, whose other pages would be counted, too.
    own = mmap.mmap(-1, 16 * PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    state = np.frombuffer(own, dtype=np.uint8)
    state[:] = 1
    asked, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        OwnPages([state.data]).let_go(state.data)
        os.write(told[1], b"x")
        os.read(asked[0], 1)
        os._exit(0)
    try:
        os.read(told[0], 1)
        assert resident_bytes(child, state.ctypes.data + PIECE) < state.size / 4
    finally:
        os.write(asked[1], b"x")
        os.waitpid(child, 0)
        for end in (*asked, *told):
            os.close(end)
