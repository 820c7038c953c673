"""Snapshot files: one shard's state as a header and a row of buffers, written without copying, checked when read.

    magic and version (8 bytes) · length of the header (8) · header, JSON · padding
    buffer · padding · buffer · padding · …               every buffer begins at a multiple of 64
    lengths of the buffers (8 each) · their number (8)    at the end, so that buffers can be made while they are written
    HMAC-SHA256 of everything before (32), with the key of the root

Invariant: what is read is what an application of this root wrote, to the bit, or ``CorruptData`` is raised and the recovery takes the
version before: buffers are pickles, and none is handed out before the whole file is proved. On a local store only operating system
calls are made, so that a forked child may write. Spec: L4.
"""

from __future__ import annotations

import hmac
import json
import mmap
import os
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perseid.errors import CorruptData, StorageFailed
from perseid.storage.background_mac import BackgroundMac
from perseid.storage.durable import publish_temporary, write_file, write_temporary
from perseid.storage.private_folder import make_private
from perseid.storage.root_key import MAC_BYTES, known_key, mac_of, own_key
from perseid.storage.store import TEMPORARY, Store, is_medium_error, reported

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAGIC = b"PERSEID\x02"  # the last byte is the version of the format
_ALIGNMENT = 64  # what Arrow and NumPy like
_PIECE = 1 << 20  # hashed and written while it is in the processor's cache
_NUMBER = struct.Struct("<Q")
_SMALLEST = _ALIGNMENT + _NUMBER.size + MAC_BYTES


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot that is durable: where, how long, and the HMAC over everything in it (hexadecimal)."""

    path: str
    bytes: int
    digest: str


def write_snapshot(
    store: Store, path: str, header: Mapping[str, Any], buffers: Iterable[Buffer], *, local: Path | None
) -> SnapshotFile:
    """Write a snapshot, and a second copy below the folder ``local`` if given. Durable in the store when it returns.

    The second copy only makes recovery faster: if there is no room for it there is none.
    """
    if local is not None or store.local is not None:
        try:
            file, staged = stage_snapshot(store, path, header, buffers, local=local)
        except StorageFailed:
            if store.local is not None or not isinstance(buffers, Sequence):  # half of it is consumed
                raise
        else:
            publish_snapshot(store, file, staged)
            return file
    framed = _Framed(own_key(store), header, buffers)
    size = store.write(path, framed)
    return SnapshotFile(path, size, framed.digest)


def stage_snapshot(
    store: Store,
    path: str,
    header: Mapping[str, Any],
    buffers: Iterable[Buffer],
    *,
    local: Path | None,
    written: Callable[[memoryview], None] | None = None,
) -> tuple[SnapshotFile, Path]:
    """Write a snapshot to this machine: the second copy, or without one a temporary file of a local store; and where that is.

    Fork-safe. Nothing is durable, and it counts for nothing, before it is published. ``written`` is told of pieces of buffers that
    will not be read again; with a second copy there are none, since the first may have to be written after all.
    """
    framed = _Framed(own_key(store), header, buffers)
    if local is not None:
        try:
            make_private(local)
            size = write_file(local / path, framed, durable=False)
            return SnapshotFile(path, size, framed.digest), local / path
        except StorageFailed:
            if store.local is None or not isinstance(buffers, Sequence):
                raise
            framed = _Framed(own_key(store), header, buffers)
    assert store.local is not None, "a store that is not local needs a folder on this machine"
    with reported("write", store.uri(path)):
        let_go = framed.when_taken(written) if written is not None and local is None else None
        staged, size = write_temporary(store.local / path, framed, durable=False, past_cache=True, written=let_go)
    return SnapshotFile(path, size, framed.digest), staged


def publish_snapshot(store: Store, file: SnapshotFile, staged: Path) -> None:
    """Bring a snapshot that was staged into the store; durable there when it returns."""
    if staged.name.startswith(TEMPORARY):
        assert store.local is not None
        with reported("write", store.uri(file.path)):
            publish_temporary(staged, store.local / file.path, store.local)
        return
    with reported("copy", str(staged)):
        copied = store.write(file.path, _pieces_of(staged))
    if copied != file.bytes:
        store.delete(file.path)
        raise CorruptData(
            f"{staged}: expected {file.bytes} bytes, got {copied}: somebody changed it; take the snapshot again"
        )


def read_snapshot(
    store: Store, file: SnapshotFile, *, local: Path | None, mapped: bool = False
) -> tuple[dict[str, Any], list[memoryview], Literal["local", "shared"]]:
    """The header, the buffers (writable, aligned, views of one piece of memory), and from which copy they came.

    Nothing of it is interpreted before its HMAC is checked.

    The copy below ``local`` is tried first; the store's decides. Raises ``CorruptData`` if that is missing or not the
    bytes that were written. ``mapped``: a file on this machine is not read into memory but mapped, for who uses its buffers once.
    """
    key = known_key(store)
    if local is not None:
        where = local / file.path
        with suppress(OSError, CorruptData), where.open("rb", buffering=0) as stream:
            return *_parsed(_verified(stream, file, str(where), key, mapped=mapped), str(where)), "local"
    uri = store.uri(file.path)
    try:
        if mapped and store.local is not None:
            with reported("read", uri, missing=True), (store.local / file.path).open("rb", buffering=0) as stream:
                return *_parsed(_verified(stream, file, uri, key, mapped=True), uri), "shared"
        with reported("read", uri, missing=True), closing(store.open(file.path)) as shared:
            return *_parsed(_verified(shared, file, uri, key), uri), "shared"
    except FileNotFoundError as error:
        raise CorruptData(f"snapshot {uri} is missing") from error
    except StorageFailed as error:
        if is_medium_error(error):
            raise CorruptData(f"snapshot {uri} cannot be read back: {error}") from error
        raise


class _Framed:
    """The pieces of a snapshot file, authenticated as they go by. To be iterated over once; no piece is a copy of a buffer."""

    def __init__(self, key: bytes, header: Mapping[str, Any], buffers: Iterable[Buffer]) -> None:
        self._header = header
        self._buffers = buffers
        self._mac = BackgroundMac(mac_of(key))
        self.digest = ""  # when all has gone by

    def __iter__(self) -> Iterator[memoryview | bytes]:
        header = json.dumps(self._header, separators=(",", ":")).encode()
        try:
            yield from self._taken_in(memoryview(_MAGIC + _NUMBER.pack(len(header)) + header))
            at = len(_MAGIC) + _NUMBER.size + len(header)
            lengths: list[int] = []
            for buffer in self._buffers:
                view = PickleBuffer(buffer).raw()
                yield from self._taken_in(memoryview(bytes(_padding(at))))
                yield from self._taken_in(view)
                at += _padding(at) + view.nbytes
                lengths.append(view.nbytes)
            table = struct.pack(f"<{len(lengths) + 1}Q", *lengths, len(lengths))
            yield from self._taken_in(memoryview(bytes(_padding(at)) + table))
            mac = self._mac.digest()
        finally:
            self._mac.close()
        self.digest = mac.hex()
        yield mac

    def when_taken(self, written: Callable[[memoryview], None]) -> Callable[[memoryview], None]:
        """``written``, told of a piece only when the HMAC has it as well."""
        waiting: deque[memoryview] = deque()

        def told(piece: memoryview) -> None:
            waiting.append(piece)
            while waiting and (self.digest or self._mac.has_one_more()):
                written(waiting.popleft())

        return told

    def _taken_in(self, view: memoryview) -> Iterator[memoryview]:
        for start in range(0, view.nbytes, _PIECE):
            piece = view[start : start + _PIECE]
            self._mac.update(piece)
            yield piece


def _verified(stream: Any, file: SnapshotFile, where: str, key: bytes, *, mapped: bool = False) -> memoryview:
    """The whole file in one aligned piece of memory, if it is what was written."""
    if file.bytes < _SMALLEST:
        raise CorruptData(f"snapshot {where}: no snapshot has {file.bytes} bytes")
    mac = BackgroundMac(mac_of(key))
    try:
        whole = _mapped(stream, file, where, mac) if mapped else _read(stream, file, where, mac)
        digest = mac.digest()
    finally:
        mac.close()
    if not hmac.compare_digest(digest, whole[-MAC_BYTES:]) or digest.hex() != file.digest:
        if whole[: len(_MAGIC)] != _MAGIC:
            raise CorruptData(f"snapshot {where} has a format of another version of Perseid: {bytes(whole[:8])!r}")
        raise CorruptData(
            f"snapshot {where} fails its hash: expected {file.digest}, got {digest.hex()}: it is damaged, or another root's"
        )
    return whole


def _read(stream: Any, file: SnapshotFile, where: str, mac: BackgroundMac) -> memoryview:
    memory = np.empty(file.bytes + _ALIGNMENT, dtype=np.uint8)  # unlike a bytearray, not filled with zeros first
    shift = -memory.ctypes.data % _ALIGNMENT
    whole = memory.data[shift : shift + file.bytes]
    at, end = 0, file.bytes - MAC_BYTES
    while at < file.bytes:
        got = stream.readinto(whole[at : at + _PIECE]) or 0
        if not got:
            raise CorruptData(f"snapshot {where} is torn: expected {file.bytes} bytes, got {at}")
        mac.update(whole[at : max(min(at + got, end), at)])
        at += got
    if stream.readinto(memoryview(bytearray(1))):
        raise CorruptData(f"snapshot {where} is longer than the {file.bytes} bytes that were written")
    return whole


def _mapped(stream: Any, file: SnapshotFile, where: str, mac: BackgroundMac) -> memoryview:
    """The same of a file on this machine, which stays on disk: what is changed is changed in memory only."""
    size = os.fstat(stream.fileno()).st_size
    if size != file.bytes:
        raise CorruptData(f"snapshot {where} is torn: expected {file.bytes} bytes, got {size}")
    whole = memoryview(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY))
    for start in range(0, size - MAC_BYTES, _PIECE):
        mac.update(whole[start : min(start + _PIECE, size - MAC_BYTES)])
    return whole


def _parsed(whole: memoryview, where: str) -> tuple[dict[str, Any], list[memoryview]]:
    """The parts of a file whose HMAC is right: only another format can still surprise."""
    if whole[: len(_MAGIC)] != _MAGIC:
        raise CorruptData(f"snapshot {where} has a format of another version of Perseid: {bytes(whole[:8])!r}")
    try:
        (length,) = _NUMBER.unpack_from(whole, len(_MAGIC))
        at = len(_MAGIC) + _NUMBER.size + length
        header = json.loads(bytes(whole[len(_MAGIC) + _NUMBER.size : at]))
        end = len(whole) - MAC_BYTES - _NUMBER.size
        (number,) = _NUMBER.unpack_from(whole, end)
        table = end - _NUMBER.size * number
        buffers: list[memoryview] = []
        for size in struct.unpack_from(f"<{number}Q", whole, table):
            at += _padding(at)
            buffers.append(whole[at : at + size])
            at += size
        if at + _padding(at) != table:
            raise ValueError(f"buffers end at {at}, table begins at {table}")
    except (struct.error, ValueError, OverflowError) as error:
        raise CorruptData(f"snapshot {where} is not a snapshot: {error}") from error
    return header, buffers


def _padding(at: int) -> int:
    return -at % _ALIGNMENT


def _pieces_of(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while piece := stream.read(4 * _PIECE):
            yield piece
