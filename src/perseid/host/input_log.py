"""A shard's input since its last snapshot, on the machine's own disk: the fastest way to catch up after its host was killed (S1, S4).

Before a host reports an epoch it writes the rows it applied, with all else the epoch was applied with, into a file of the shard. A killed
process does not take the page cache with it, so nothing is synced: whoever restores the shard on the same machine takes the files over
and applies them without a Spark job. They are a short cut, never the truth: what is missing, torn or beyond the epochs that
the controller knows to be finished is replayed from the sources.

Invariant: an entry that is read holds exactly the rows with which the epoch was applied; entries are taken in order and without a gap.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from perseid.vocabulary import Epoch, ShardId

LIMIT_BYTES = 1 << 30  # of one shard; beyond it nothing is kept until the next snapshot
_DIGEST_BYTES = 16
_LENGTH_BYTES = 4
_ALIGNMENT = 64  # rows begin at such a place: Arrow takes them where they lie, and its kernels want them aligned


class InputLog:
    """The entries of one shard."""

    def __init__(self, folder: Path, shard: ShardId) -> None:
        self._folder = folder / _name(shard)
        self._bytes = 0
        self._broken = False  # an epoch is missing: what follows it is of no use

    def take_over(self, others: Iterable[Path], shard: ShardId, upto: Epoch) -> None:
        """Go on with the entries of an earlier home of the shard, the newest that has any; those beyond ``upto`` are not to be trusted."""
        self._folder.parent.mkdir(exist_ok=True)
        for other in others:
            if self._folder.exists():
                break
            with contextlib.suppress(OSError):
                (other / _name(shard)).rename(self._folder)
        self._folder.mkdir(exist_ok=True)
        for epoch, path in self._entries():
            if epoch > upto:
                path.unlink(missing_ok=True)
        self._bytes = sum(path.stat().st_size for _, path in self._entries())

    def keep(self, epoch: Epoch, request: dict[str, Any], rows: pa.Table) -> None:
        """Remember one applied epoch. A disk without room costs the short cut, not the epoch."""
        path = self._folder / str(epoch)
        if self._broken or self._bytes > LIMIT_BYTES:
            self._broken = True
            path.unlink(missing_ok=True)
            return
        temporary = path.with_suffix(".new")
        try:
            self._bytes += _write(temporary, request, rows)
            temporary.replace(path)
        except OSError:
            self._broken = True
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
                path.unlink(missing_ok=True)

    def get(self, epoch: Epoch, /) -> tuple[dict[str, Any], pa.Table] | None:
        """What the epoch was applied with; None if that is missing or damaged."""
        return _read(self._folder / str(epoch))

    def snapshot_taken(self) -> None:
        """From here on a log without gap is of use again."""
        self._broken = False
        self._bytes = 0

    def covered(self, upto: Epoch) -> None:
        """A committed checkpoint covers these epochs."""
        for epoch, path in self._entries():
            if epoch <= upto:
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _entries(self) -> list[tuple[int, Path]]:
        with contextlib.suppress(OSError):
            return sorted((int(path.name), path) for path in self._folder.iterdir() if path.name.isdecimal())
        return []


def read_entry(folder: Path, shard: ShardId, epoch: Epoch) -> tuple[dict[str, Any], pa.Table] | None:
    """The rows with which a shard's home applied an epoch, as long as it keeps them; None if they are not there or damaged."""
    return _read(folder / _name(shard) / str(epoch))


def _name(shard: ShardId) -> str:
    return f"{shard.operator}-{shard.index}"


def _write(path: Path, request: dict[str, Any], rows: pa.Table) -> int:
    """Straight into the page cache: beside its state a host has little memory to spare."""
    head = json.dumps(request, separators=(",", ":")).encode()
    head += b" " * (-(_LENGTH_BYTES + len(head)) % _ALIGNMENT)
    with pa.OSFile(str(path), "wb") as file:
        file.write(len(head).to_bytes(_LENGTH_BYTES, "big") + head)
        with pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows)
        size = int(file.tell())
    with path.open("r+b") as whole:
        with mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ) as data:
            digest = xxhash.xxh3_128_digest(data)
        whole.seek(size)
        whole.write(digest)
    return size + _DIGEST_BYTES


def _read(path: Path) -> tuple[dict[str, Any], pa.Table] | None:
    try:
        with pa.OSFile(str(path), "rb") as file:
            data = file.read_buffer()  # Arrow's own memory is aligned, that of a bytes object is not
    except OSError:
        return None
    size = len(data) - _DIGEST_BYTES
    body = memoryview(data)[: max(size, 0)]
    if not body or xxhash.xxh3_128_digest(body) != bytes(memoryview(data)[size:]):
        return None
    rows_at = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    request: dict[str, Any] = json.loads(bytes(body[_LENGTH_BYTES:rows_at]))
    return request, pa.ipc.open_stream(data.slice(rows_at, size - rows_at)).read_all()
