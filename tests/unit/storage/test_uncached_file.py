"""What is written past the page cache is what was given, whatever the sizes, and wherever the file system cannot do that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.storage.uncached_file import write_past_cache

MB = 1 << 20
TO_MEMORY = Path("/dev/shm")


@pytest.fixture(params=["disk", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "disk":
        yield tmp_path / "file"
        return
    if not TO_MEMORY.is_dir():
        pytest.skip("no file system in memory")
    path = TO_MEMORY / f"perseid-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [0],
        [1],
        [4095],
        [4096],
        [4097, 0, 3],
        [4 * MB],
        [4 * MB - 1, 2],
        [9 * MB + 17],
        [1000] * 9_000,
        [7, 12 * MB, 5],
    ],
    ids=lambda sizes: f"{len(sizes)}-{sum(sizes)}",
)
def test_every_byte_is_there_and_every_chunk_is_let_go(path: Path, sizes: list[int]) -> None:
    chunks = [os.urandom(size) for size in sizes]
    done: list[bytes] = []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        size = write_past_cache(fd, map(memoryview, chunks), lambda piece: done.append(bytes(piece)))
    finally:
        os.close(fd)
    assert size == sum(sizes)
    assert path.read_bytes() == b"".join(chunks)
    assert done == chunks


def test_a_full_disk_is_told() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no full device")
    fd = os.open(full, os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left"):
            write_past_cache(fd, [bytes(5 * MB)])
    finally:
        os.close(fd)
