"""How bytes come to stay on a local disk: operating system calls only, so that a forked child may use it.

Invariant: a function that says durable returns only after fsync, of the file and of the folder that names it; one that
raises leaves no temporary file. Spec: L4.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from perseid.storage.store import TEMPORARY, reported, token
from perseid.storage.uncached_file import write_past_cache

_BATCH_BYTES = 1 << 20
_BATCH_PIECES = 512  # below IOV_MAX (1024)

sync_data = getattr(os, "fdatasync", os.fsync)
"""Make the bytes and length of an open file durable."""


def write_file(target: Path, chunks: Iterable[bytes | memoryview], *, durable: bool = True) -> int:
    """Temporary file, fsync, atomic rename, fsync of the folder. Chunks are let go as soon as they are written."""
    with reported("write", str(target)):
        temporary, size = write_temporary(target, chunks, durable=durable)
        _give_name(temporary, target)
        if durable:
            sync_folder(target.parent)
    return size


def publish_temporary(temporary: Path, target: Path, root: Path) -> None:
    """Make a temporary file durable that somebody else wrote without, and give it its name; the folders it lies in, too, up to ``root``."""
    sync_file(temporary)
    _give_name(temporary, target)
    folder = target.parent
    sync_folder(folder)
    while folder != root:
        folder = folder.parent
        sync_folder(folder)


def put_by_way_of(own: Path, target: Path, chunks: Iterable[bytes | memoryview]) -> int:
    """Like ``write_file``, with the temporary file in a folder that is not made here: if that is gone, nothing is written."""
    temporary, size = write_temporary(target, chunks, folder=own)
    if not target.parent.is_dir():
        make_folder(target.parent)
    _give_name(temporary, target)
    sync_folder(target.parent)
    return size


def _give_name(temporary: Path, target: Path) -> None:
    try:
        temporary.rename(target)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def make_folder(folder: Path) -> None:
    """Like ``mkdir -p``, durable."""
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        return
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir()
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a filesystem on which folders cannot be synced
            raise
    finally:
        os.close(fd)


def write_temporary(
    target: Path,
    chunks: Iterable[bytes | memoryview],
    *,
    durable: bool = True,
    past_cache: bool = False,
    written: Callable[[memoryview], None] | None = None,
    mode: int = 0o644,
    folder: Path | None = None,
) -> tuple[Path, int]:
    """A new file beside the target, under a name that no reader sees; and its length. ``written`` is told of each chunk that is.

    In ``folder`` instead, if given; that one must be there.
    """
    temporary = (folder or target.parent) / f"{TEMPORARY}{target.name}-{token()}"
    make_parent = folder is None
    try:
        size = write_new(
            temporary,
            chunks,
            durable=durable,
            past_cache=past_cache,
            written=written,
            mode=mode,
            make_parent=make_parent,
        )
        return temporary, size
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_new(
    path: Path,
    chunks: Iterable[bytes | memoryview],
    *,
    durable: bool = True,
    past_cache: bool = False,
    written: Callable[[memoryview], None] | None = None,
    mode: int = 0o644,
    make_parent: bool = True,
) -> int:
    """A file that must not exist yet; its length."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, mode)
    except FileNotFoundError:
        if not make_parent:
            raise
        if durable:
            make_folder(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, flags, mode)
    try:
        size = (write_past_cache if past_cache else _write_chunks)(fd, chunks, written)
        if durable:
            os.fsync(fd)
        return size
    finally:
        os.close(fd)


def _write_chunks(
    fd: int, chunks: Iterable[bytes | memoryview], written: Callable[[memoryview], None] | None = None
) -> int:
    """Large writes, no copies."""
    size = held = 0
    batch: list[memoryview] = []
    for chunk in chunks:
        piece = memoryview(chunk).cast("B")
        batch.append(piece)
        held += piece.nbytes
        if held >= _BATCH_BYTES or len(batch) >= _BATCH_PIECES:
            write_all(fd, batch)
            if written is not None:
                for done in batch:
                    written(done)
            size, held, batch = size + held, 0, []
    write_all(fd, batch)
    return size + held


def write_all(fd: int, pieces: list[memoryview]) -> None:
    """Write all pieces; the operating system may take less than it is given at a time."""
    pieces = [piece for piece in pieces if piece.nbytes]
    while pieces:
        taken = os.writev(fd, pieces)
        while pieces and taken >= pieces[0].nbytes:
            taken -= pieces.pop(0).nbytes
        if pieces and taken:
            pieces[0] = pieces[0][taken:]


def sync_file(path: Path) -> None:
    """Make a file durable that somebody else wrote."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
