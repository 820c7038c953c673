"""Damage and trouble on a checkpoint root in a local folder: corrupt snapshots; a root that is full, slow or unreachable.

All of it is real: bytes change on the disk, the filesystem has no block left, the disk is busy, the folder is not there. What
was there before is there again after ``heal``, but for corrupted files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol
from uuid import uuid4

from perseid.errors import FaultError
from perseid.storage import layout
from perseid.storage.store import local_folder
from perseid.testing.faults import Corrupt, NotNow
from perseid.vocabulary import CheckpointId, OperatorName

SMALL_BYTES = 1 << 30
"""A filesystem of up to this size, and only a root's own, may be filled to the brim."""
_WRITERS = 3
_WRITER = """
import os, sys, time
data, until = os.urandom(1 << 20), time.monotonic() + float(sys.argv[2])
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while time.monotonic() < until:
    os.lseek(file, 0, 0)
    for _ in range(16):
        os.write(file, data)
    os.fsync(file)
"""
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def folder_of(root: str) -> Path:
    """The root as a folder of this machine."""
    folder = local_folder(root)
    if folder is None:
        raise FaultError(f"root {root}: faults of storage are for roots in a local folder")
    return folder


# -- corrupt -------------------------------------------------------------------------------------------------------


def corrupt(root: str, fault: Corrupt) -> list[Path]:
    """Damage snapshots; which ones. Raises ``FaultError`` if there are none such."""
    files = _snapshots(folder_of(root), fault)
    for file in files:
        size = file.stat().st_size
        with file.open("r+b") as stream:  # in place: a second copy that is a hard link is hit, too
            if fault.how == "cut":
                stream.truncate(size // 2)
                continue
            stream.seek(size // 2)
            byte = stream.read(1)
            stream.seek(-1, os.SEEK_CUR)
            stream.write(bytes([byte[0] ^ 0xFF]))
    return files


def _snapshots(folder: Path, fault: Corrupt) -> list[Path]:
    complete = sorted(manifest.parent for manifest in (folder / layout.CHECKPOINTS).glob("*/manifest.json"))
    if not complete:
        raise NotNow(f"{fault}: {folder} has no complete checkpoint yet; wait for one with at(checkpoint=1)")
    if isinstance(fault.checkpoint, int):
        wanted = Path(layout.checkpoint(CheckpointId(fault.checkpoint))).name
        chosen = [path for path in complete if path.name == wanted]
        if not chosen:
            raise FaultError(f"{fault}: there is none; complete are {', '.join(str(int(p.name)) for p in complete)}")
    else:
        chosen = complete if fault.checkpoint == "all" else complete[-1:]
    found = []
    for checkpoint in chosen:
        files = sorted(checkpoint.glob("*.snapshot"))
        if fault.shard is not None:
            operator, _, index = fault.shard.rpartition("/")
            name = Path(layout.snapshot(CheckpointId(0), OperatorName(operator), int(index))).name
            files = [file for file in files if file.name == name]
        found += files if fault.checkpoint == "all" else files[:1]
    if not found:
        raise FaultError(f"{fault}: there is no such snapshot in {', '.join(path.name for path in chosen)}")
    return found


# -- full, slow, unreachable ---------------------------------------------------------------------------------------


class Trouble(Protocol):
    """What has befallen a root, until it is healed."""

    def heal(self) -> None: ...


def fail(how: Literal["full", "slow", "unreachable"], root: str, seconds: float) -> Trouble:
    """Trouble begins."""
    match how:
        case "full":
            return Full(root)
        case "slow":
            return Slow(root, seconds)
        case "unreachable":
            return Unreachable(root)


class Full:
    """No byte is free on the root's own small filesystem."""

    def __init__(self, root: str) -> None:
        folder = folder_of(root)
        told = os.statvfs(folder)
        own = any(os.path.ismount(mount) for mount in (folder, folder.parent))
        if not own or told.f_blocks * told.f_frsize > SMALL_BYTES:
            raise FaultError(
                f"storage full: {folder} is not on a small filesystem of its own, and your disk is not filled for a test;"
                " use the fixture perseid_small_root (or mount one there)"
            )
        self._ballast = folder / f"_ballast-{uuid4().hex[:8]}"
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as stream:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while stream.write(bytes(size)):
                        pass

    def heal(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Slow:
    """Processes that write and fsync on the root's filesystem all the time."""

    def __init__(self, root: str, seconds: float) -> None:
        folder = folder_of(root).parent
        self._files = [folder / f".perseid-busy-{uuid4().hex[:8]}" for _ in range(_WRITERS)]
        self._writers = [
            subprocess.Popen([sys.executable, "-c", _WRITER, str(file), str(seconds)]) for file in self._files
        ]

    def heal(self) -> None:
        for writer in self._writers:
            writer.kill()
            writer.wait()
        for file in self._files:
            file.unlink(missing_ok=True)


class Unreachable:
    """The root is moved away at once, and a file is in its place, so that nobody can make a new one meanwhile."""

    def __init__(self, root: str) -> None:
        self._folder = folder_of(root)
        self._away = self._folder.with_name(f".{self._folder.name}-away-{uuid4().hex[:8]}")
        self._away.touch()
        try:
            exchange(self._folder, self._away)
        except FileNotFoundError as error:
            self._away.unlink()
            raise NotNow(f"storage unreachable: {self._folder} is not there yet") from error
        except OSError as error:
            self._away.unlink()
            raise FaultError(f"storage unreachable: {self._folder} cannot be moved away: {error}") from error

    def heal(self) -> None:
        if self._away.is_dir():
            exchange(self._folder, self._away)
            self._away.unlink(missing_ok=True)


def exchange(one: Path, other: Path) -> None:
    """Swap two names in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one))


@contextlib.contextmanager
def small_filesystem(folder: Path, size_mb: int = 64) -> Iterator[bool]:
    """A filesystem of its own at a folder, to be filled; whether it could be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
