"""A checkpoint root on storage that is not a local folder: object stores, HDFS, anything pyarrow.fs or fsspec reaches.

Invariant: a file comes to its name by a move of a complete temporary file. What such storage cannot do is made up
for: appending writes numbered part files that reading joins, and ``create`` lets only that contender through whose
claim is the only one, which is safe wherever a listing shows all earlier writes. Spec: L4, M1.

Drivers are fenced as on a local root (`own_folder`): all that a driver puts in its place is moved there out of its own
folder, after a look that no newer driver has one. A newer driver first puts a file into its own folder, then deletes all
that is in the older ones. So the source of a late move is gone, and the move fails: the storage must copy or rename on
its side, as S3, GCS, Azure and HDFS do. Deleting cannot be fenced so: a late one deletes only what it saw before it looked.
"""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from perseid.errors import Fenced, RootError, StorageFailed
from perseid.storage import own_folder
from perseid.storage.store import STAGING, TEMPORARY, Readable, Store, relative, reported, token
from perseid.vocabulary import Fence

_PARTS = ".parts"  # a folder: what was appended to the file
_BEFORE = ".before"  # the file as it was, while it is being replaced where a move cannot replace
_CLAIM_ATTEMPTS = 6
_LIST_ATTEMPTS = 20
_DRIVER = "driver"  # the file that a driver's folder has from its beginning to its end


class RemoteStore(Store):
    """Files below a folder of a ``pyarrow.fs.FileSystem``."""

    def __init__(self, filesystem: Any, folder: str, root: str, key: bytes | None = None) -> None:
        self.filesystem = filesystem
        self.folder = folder.rstrip("/")
        self.root = root.rstrip("/")
        self.local = None
        self.key = key
        self._writer = token()
        self._next_part: dict[str, int] = {}
        self._place = STAGING
        self._own: str | None = None  # the driver's folder

    @classmethod
    def from_uri(cls, root: str) -> RemoteStore:
        """Any URI that pyarrow knows, else any that fsspec knows, if that is installed."""
        spoken = "s3:" + root.partition(":")[2] if root.startswith(("s3a:", "s3n:")) else root
        try:
            filesystem, folder = pafs.FileSystem.from_uri(spoken)
        except (pa.ArrowException, OSError, ValueError) as refused:
            try:
                import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]

                inner, folder = fsspec.core.url_to_fs(root)
            except ImportError as missing:
                raise RootError(
                    f"checkpoint root {root!r}: pyarrow says: {refused}. Write a path or another URI, or install "
                    f"fsspec and its driver for this scheme ({missing})"
                ) from refused
            except (ValueError, OSError) as error:
                raise RootError(f"checkpoint root {root!r}: pyarrow says: {refused}; fsspec says: {error}") from error
            filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(inner))
        return cls(filesystem, folder, root.partition("?")[0])

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.filesystem, self.folder, self.root, self.key, self._place, self._own, self.fence)
        return _copy, given  # the copy is a writer of its own

    def fenced(self, place: str, fence: Fence) -> RemoteStore:
        own = f"{place}/{own_folder.folder_name(fence)}"
        store = _copy(self.filesystem, self.folder, self.root, self.key, place, own, fence)
        with self._reported("write to", place):
            store._remove(own)  # of this very driver, which opens the storage a second time
            store._put(f"{own}/{_DRIVER}", [b""])
            store.check()
            names = store._names(place)
            before = [name for name in names if own_folder.is_before(name, fence)]
            left = [name for name in names if own_folder.is_left_by_others(name, fence)]
            store._remove(*(f"{place}/{name}" for name in (*before, *left)))
        return store

    def check(self) -> None:
        if self._own is None:
            return
        with self._reported("look at", self._place):
            newest = own_folder.newest_fence(self._names(self._place))
        if newest > self.fence:
            raise Fenced(own_folder.taken_over(self.root, newest, self.fence))

    def probe(self) -> None:
        with self._reported("write to", ""):
            self.filesystem.create_dir(self.folder, recursive=True)
            self.filesystem.delete_file(self._temporary("probe", [b"probe"])[0])

    def write(self, path: str, chunks: Iterable[bytes | memoryview]) -> int:
        # A crash between the move and the deletion leaves parts of the old file behind the new one: what is both
        # appended to and rewritten (the ledger) numbers its lines, so that a reader can tell.
        with self._by_the_driver("write", path):
            temporary, size = self._temporary(path, chunks)
            self.check()
            self._replace(temporary, path)
            self._next_part.pop(path, None)
            self._remove(path + _PARTS, path + _BEFORE)
        return size

    def create(self, path: str, data: bytes, *, private: bool = False) -> bool:
        folder, _, name = path.rpartition("/")
        claims = f"{folder}/{TEMPORARY}claims-{name}".lstrip("/")
        with self._by_the_driver("create", path):
            for attempt in range(_CLAIM_ATTEMPTS):
                if self.exists(path):
                    return False
                mine = token()
                self._put(f"{claims}/{mine}", [b""])
                try:
                    # Who sees no other claim was before all who will come: they see this one.
                    if self._names(claims) == [mine]:
                        if self.exists(path):
                            return False
                        temporary, _ = self._temporary(path, [data])
                        self.check()
                        self.filesystem.move(temporary, self._at(path))
                        return True
                finally:
                    with suppress(OSError):
                        self.filesystem.delete_file(self._at(f"{claims}/{mine}"))
                time.sleep(0.02 * 2**attempt * (0.5 + os.urandom(1)[0] / 256))
            return False  # somebody is about to, or died over it

    def append(self, path: str, data: bytes, *, durable: bool = True) -> None:
        with self._by_the_driver("append to", path):
            number = self._next_part.get(path)
            if number is None:
                number = max((int(name.partition("-")[0]) for name in self._names(path + _PARTS)), default=0) + 1
            self._next_part[path] = number + 1
            part = f"{path}{_PARTS}/{number:08d}-{self._writer}"
            temporary, _ = self._temporary(part, [data])
            self.filesystem.move(temporary, self._at(part))

    def read(self, path: str) -> bytes:
        with self._reported("read", path, missing=True):
            parts = self._names(path + _PARTS)
            pieces = [self._whole(f"{path}{_PARTS}/{name}") for name in parts]
            for whole in (path, path + _BEFORE):
                if self._type(whole) == pafs.FileType.File:
                    return b"".join([self._whole(whole), *pieces])
            return b"".join(pieces) if parts else self._whole(path)

    def open(self, path: str) -> Readable:
        with self._reported("read", path, missing=True):
            stream: Readable = self.filesystem.open_input_stream(self._at(path), compression=None)
            return stream

    def list(self, path: str) -> builtins.list[str]:
        with self._reported("list", path):
            return sorted({name.removesuffix(_PARTS).removesuffix(_BEFORE) for name in self._names(path)})

    def exists(self, path: str) -> bool:
        with self._reported("look for", path):
            return any(self._type(place) != pafs.FileType.NotFound for place in (path, path + _PARTS, path + _BEFORE))

    def size(self, path: str) -> int:
        with self._reported("look at", path, missing=True):
            whole, before = self.filesystem.get_file_info([self._at(path), self._at(path + _BEFORE)])
            files = [file for file in (whole, before) if file.type == pafs.FileType.File][:1]
            files += self._infos(path + _PARTS)
            if not files:
                raise FileNotFoundError(f"nothing at {self.uri(path)}")
            return sum(int(file.size) for file in files)

    def delete(self, path: str) -> None:
        with self._reported("delete", path):
            self.check()
            self._next_part.pop(path, None)
            self._remove(path, path + _PARTS, path + _BEFORE)

    def staging(self) -> str:
        self.check()
        return f"{self._place}/{own_folder.new_name(self.fence)}"

    def publish(self, staged: str, target: str, *, last: str, replace: bool = False) -> bool:
        with self._by_the_driver(f"rename {self.uri(staged)} to", target):
            there = self._below(target)
            if there and not replace:
                return False
            files = sorted(self._below(staged), key=lambda file: (file.endswith(f"/{last}"), file))
            if not files or not files[-1].endswith(f"/{last}"):
                raise FileNotFoundError(f"{self.uri(staged)} is not all there: a newer driver may have removed it")
            self.check()  # all of it is staged by now: if a newer driver comes later than this look, it deletes it all
            for file in sorted(
                there, key=lambda file: not file.rpartition("/")[2].startswith("_")
            ):  # what makes it whole
                with suppress(FileNotFoundError):
                    self.filesystem.delete_file(file)
            for file in files:
                goal = target + file[len(self._at(staged)) :]
                self._make_parent(goal)
                self.filesystem.move(file, self._at(goal))
            self._remove(staged)
            return True

    def _below(self, folder: str) -> builtins.list[str]:
        """All files below a folder, with their full paths."""
        selector = pafs.FileSelector(self._at(folder), allow_not_found=True, recursive=True)
        return [i.path for i in self.filesystem.get_file_info(selector) if i.type == pafs.FileType.File]

    def sync(self, path: str) -> None:
        pass

    def sweep(self, path: str) -> None:
        with self._reported("sweep", path):
            self._remove(*(f"{path}/{info.base_name}".lstrip("/") for info in self._infos(path, hidden=True)))

    def _replace(self, temporary: str, path: str) -> None:
        """Move a file to where another may be. Some storage (HDFS) refuses that: then the other steps aside first."""
        try:
            self.filesystem.move(temporary, self._at(path))
        except OSError:
            ready = (
                self.filesystem.get_file_info(temporary).type == pafs.FileType.File
            )  # else a newer driver removed it
            if not ready or self._type(path) != pafs.FileType.File:
                raise
            self._remove(path + _BEFORE)
            self.filesystem.move(self._at(path), self._at(path + _BEFORE))
            try:
                self.filesystem.move(temporary, self._at(path))
            except OSError:
                self.filesystem.move(self._at(path + _BEFORE), self._at(path))
                raise

    def _remove(self, *paths: str) -> None:
        for info in self.filesystem.get_file_info([self._at(path) for path in paths]):
            with suppress(FileNotFoundError):
                if info.type == pafs.FileType.Directory:
                    self.filesystem.delete_dir(info.path)
                elif info.type == pafs.FileType.File:
                    self.filesystem.delete_file(info.path)

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self.folder, relative(path)) if part)

    def _type(self, path: str) -> Any:
        return self.filesystem.get_file_info(self._at(path)).type

    def _infos(self, path: str, *, hidden: bool = False) -> builtins.list[Any]:
        selector = pafs.FileSelector(self._at(path), allow_not_found=True)
        for _ in range(_LIST_ATTEMPTS):
            with suppress(FileNotFoundError):  # a file was deleted while the folder was listed
                found = self.filesystem.get_file_info(selector)
                break
        else:
            found = self.filesystem.get_file_info(selector)
        return [i for i in found if i.base_name.startswith(TEMPORARY) == hidden]

    def _names(self, path: str) -> builtins.list[str]:
        return sorted(info.base_name for info in self._infos(path))

    def _whole(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(self._at(path), compression=None) as stream:
            data: bytes = stream.read()
            return data

    def _make_parent(self, path: str) -> None:
        parent = self._at(path).rpartition("/")[0]
        if parent:
            self.filesystem.create_dir(parent, recursive=True)

    def _put(self, path: str, chunks: Iterable[bytes | memoryview]) -> int:
        self._make_parent(path)
        size = 0
        with self.filesystem.open_output_stream(self._at(path), compression=None) as stream:
            for chunk in chunks:
                size += stream.write(chunk)
        return size

    def _temporary(self, path: str, chunks: Iterable[bytes | memoryview]) -> tuple[str, int]:
        folder, _, name = path.rpartition("/")
        temporary = f"{self._own or folder}/{TEMPORARY}{name}-{token()}".lstrip("/")
        try:
            size = self._put(temporary, chunks)
        except BaseException:
            with suppress(OSError, pa.ArrowException):
                self.filesystem.delete_file(self._at(temporary))
            raise
        self._make_parent(path)
        return self._at(temporary), size

    @contextmanager
    def _by_the_driver(self, action: str, path: str) -> Iterator[None]:
        """What fails because a newer driver has removed what was to be moved, fails because it has taken over."""
        try:
            with self._reported(action, path):
                yield
        except StorageFailed:
            self.check()
            raise

    @contextmanager
    def _reported(self, action: str, path: str, *, missing: bool = False) -> Iterator[None]:
        with reported(action, self.uri(path), missing=missing):
            try:
                yield
            except pa.ArrowException as error:
                raise OSError(f"{type(error).__name__}: {error}") from error


def _copy(
    filesystem: Any, folder: str, root: str, key: bytes | None, place: str, own: str | None, fence: Fence
) -> RemoteStore:
    store = RemoteStore(filesystem, folder, root, key)
    store._place, store._own, store.fence = place, own, fence
    return store
