"""Which files lie below a folder, found out cheaply again and again.

A local folder is scanned again only when its own time of change has moved: that is when a name was added in it. That
time is coarse, so a folder that changed just before it was scanned is not trusted yet. Elsewhere the storage lists.
Names that begin with ``_`` or ``.`` are not data, neither files nor folders: so Spark has it, too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
from pyarrow import fs as pafs

from perseid.errors import PerseidError, SettingsError, StorageFailed
from perseid.storage.remote import RemoteStore
from perseid.storage.store import local_folder

_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its path below the listed folder, and what changes when the file does."""

    path: str
    size: int
    mtime_ns: int


class Listing(Protocol):
    """A folder of files."""

    def new(self, known: Container[str]) -> list[Found]:
        """The files that are not known, in no order."""

    def again(self, path: str) -> None:
        """This file was not ready; it is to be found again."""

    def look(self, path: str) -> Found | None:
        """How this file is now; None if it is gone."""

    def open(self, path: str) -> BinaryIO: ...

    def uri(self, path: str) -> str:
        """What Spark is given to read it."""


def listing(path: str, wanted: Callable[[str], bool]) -> Listing:
    """The files below ``path`` whose names are wanted; ``path`` may be one file, too."""
    try:
        folder = local_folder(path)
    except PerseidError as error:
        raise SettingsError(f"sources.files({path!r}): expected a folder, a file, or a URI of one ({error})") from error
    if folder is not None:
        if folder.is_file():
            return LocalListing(folder.parent, lambda name: name == folder.name)
        if not folder.is_dir():
            raise SettingsError(f"sources.files({path!r}): there is no folder or file {folder}.{_advice(folder)}")
        return LocalListing(folder, wanted)
    try:
        remote = RemoteStore.from_uri(path)
        filesystem, base = remote.filesystem, remote.folder.rstrip("/")
        kind = filesystem.get_file_info(base).type
    except (PerseidError, OSError, pa.ArrowException) as error:
        raise SettingsError(f"sources.files({path!r}): cannot list it: {error}") from error
    root = path.partition("?")[0].rstrip("/")
    if kind == pafs.FileType.File:
        name = base.rpartition("/")[2]
        return RemoteListing(filesystem, base.rpartition("/")[0], root.rpartition("/")[0], lambda other: other == name)
    if kind == pafs.FileType.NotFound:
        raise SettingsError(f"sources.files({path!r}): there is no such folder or file; create the folder first")
    return RemoteListing(filesystem, base, root, wanted)


def _advice(folder: Path) -> str:
    if re.search(r"[*?\[\]{}]", folder.name):
        return " For a wildcard, name the folder and write pattern='*.json'"
    return " Create the folder first: files may come later"


@dataclass(slots=True)
class _Scanned:
    mtime_ns: int
    at_ns: int
    folders: list[str]

    def settled(self, mtime_ns: int) -> bool:
        return mtime_ns == self.mtime_ns and self.at_ns - mtime_ns > _SETTLED_NS


class LocalListing:
    """A folder on this machine (or mounted on it)."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = str(root)
        self._wanted = wanted
        self._scanned: dict[str, _Scanned] = {}

    def new(self, known: Container[str]) -> list[Found]:
        found: list[Found] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                folders += self._scan(folder, known, found)
            except FileNotFoundError:
                if not folder:
                    raise StorageFailed(f"cannot list {self._root}: the folder is gone; put it back") from None
                self._scanned.pop(folder, None)
            except OSError as error:
                at = self._at(folder)
                raise StorageFailed(f"cannot list {at}: {error.strerror}; see that it can be read") from error
        return found

    def _scan(self, folder: str, known: Container[str], found: list[Found]) -> list[str]:
        at = self._at(folder)
        mtime_ns = Path(at).stat().st_mtime_ns
        last = self._scanned.get(folder)
        if last is not None and last.settled(mtime_ns):
            return last.folders
        scanned = _Scanned(mtime_ns, time.time_ns(), [])
        with os.scandir(at) as entries:
            for entry in entries:
                if entry.name.startswith(("_", ".")):
                    continue
                path = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    scanned.folders.append(path + "/")
                elif path not in known and self._wanted(entry.name) and entry.is_file():
                    stat = entry.stat()
                    found.append(Found(path, stat.st_size, stat.st_mtime_ns))
        self._scanned[folder] = scanned
        return scanned.folders

    def again(self, path: str) -> None:
        folder, slash, _ = path.rpartition("/")
        self._scanned.pop(folder + slash, None)

    def look(self, path: str) -> Found | None:
        try:
            stat = Path(self._at(path)).stat()
        except FileNotFoundError:
            return None
        return Found(path, stat.st_size, stat.st_mtime_ns)

    def open(self, path: str) -> BinaryIO:
        return Path(self._at(path)).open("rb")

    def uri(self, path: str) -> str:
        return f"file://{self._at(path)}"

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


class RemoteListing:
    """A folder that pyarrow.fs (or fsspec) reaches."""

    def __init__(self, filesystem: pafs.FileSystem, base: str, root: str, wanted: Callable[[str], bool]) -> None:
        self._filesystem = filesystem
        self._base = base
        self._root = root
        self._wanted = wanted

    def new(self, known: Container[str]) -> list[Found]:
        found = []
        for info in self._infos(pafs.FileSelector(self._base, recursive=True)):
            path = info.path[len(self._base) :].lstrip("/")
            hidden = any(part.startswith(("_", ".")) for part in path.split("/"))
            if info.is_file and not hidden and path not in known and self._wanted(info.base_name):
                found.append(Found(path, info.size, info.mtime_ns or 0))
        return found

    def again(self, path: str) -> None:
        pass

    def look(self, path: str) -> Found | None:
        (info,) = self._infos([f"{self._base}/{path}"])
        return Found(path, info.size, info.mtime_ns or 0) if info.is_file else None

    def open(self, path: str) -> BinaryIO:
        file: BinaryIO = self._filesystem.open_input_file(f"{self._base}/{path}")
        return file

    def uri(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _infos(self, what: pafs.FileSelector | list[str]) -> list[pafs.FileInfo]:
        try:
            infos: list[pafs.FileInfo] = self._filesystem.get_file_info(what)
        except (OSError, pa.ArrowException) as error:
            raise StorageFailed(f"cannot list {self._root}: {error}; see that it can be reached") from error
        return infos
