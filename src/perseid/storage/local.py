"""A checkpoint root in a local folder: operating system calls only, so that a forked child may use it.

Invariant: a file comes to its name by rename or link after its bytes are on the disk, and the folder is synced after
that. For a driver (`fenced`) every such rename goes through the driver's own folder, which a newer driver takes away.
No lock, thread, log or third-party library is touched here. Spec: L4.
"""

from __future__ import annotations

import builtins
import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from perseid.errors import Fenced, RootError, StorageFailed
from perseid.storage import own_folder
from perseid.storage.durable import (
    make_folder,
    put_by_way_of,
    sync_data,
    sync_file,
    sync_folder,
    write_all,
    write_file,
    write_new,
    write_temporary,
)
from perseid.storage.store import STAGING, TEMPORARY, Readable, Store, relative, reported, token
from perseid.vocabulary import Fence

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}


class LocalStore(Store):
    """Files below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.local = folder
        self.root = f"file://{folder}"
        self._place = folder / STAGING
        self._own: Path | None = None  # the driver's folder

    def fenced(self, place: str, fence: Fence) -> LocalStore:
        store = LocalStore(self.folder)
        store.key, store._place, store.fence = self.key, self._at(place), fence
        with reported("write to", str(store._place)):
            store._own = own_folder.claim(store._place, fence)
        return store

    def check(self) -> None:
        with reported("look at", str(self._own)):
            if self._own is None or self._own.is_dir():
                return
        newest = own_folder.newest_fence(self.list(self._place.relative_to(self.folder).as_posix()))
        if newest > self.fence:  # else it is out of reach (which raised), or gone
            raise Fenced(own_folder.taken_over(str(self.folder), newest, self.fence))
        raise RootError(f"{self._own} is gone: {self.folder} was deleted or replaced under this driver")

    def probe(self) -> None:
        with reported("write to", str(self.folder)):
            make_folder(self.folder)
            write_temporary(self.folder / "probe", [b"probe"])[0].unlink()

    def write(self, path: str, chunks: Iterable[bytes | memoryview]) -> int:
        target = self._at(path)
        if self._own is None:
            return write_file(target, chunks)
        with self._by_the_driver("write", target):
            return put_by_way_of(self._own, target, chunks)

    def create(self, path: str, data: bytes, *, private: bool = False) -> bool:
        target, mode = self._at(path), 0o600 if private else 0o644
        with self._by_the_driver("create", target):
            if target.exists():
                return False
            temporary, _ = write_temporary(target, [data], mode=mode, folder=self._own)
            if self._own is not None and not target.parent.is_dir():
                make_folder(target.parent)
            try:
                os.link(temporary, target)
            except FileExistsError:
                if temporary.stat().st_nlink < 2:  # over NFS, a link that was made may be reported as refused
                    return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                # Without hard links a crash may leave the file torn; whatever is made by ``create`` has a seal.
                try:
                    write_new(target, [data], mode=mode)
                except FileExistsError:
                    return False
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(target.parent)
            if target.parent != self.folder:  # made by somebody else just now, perhaps, and not durable yet
                sync_folder(target.parent.parent)
        return True

    def append(self, path: str, data: bytes, *, durable: bool = True) -> None:
        target = self._at(path)
        with reported("append to", str(target)):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            new = False
            try:
                fd = os.open(target, flags)
            except FileNotFoundError:
                make_folder(target.parent)
                fd = os.open(target, flags | os.O_CREAT, 0o644)
                new = True
            try:
                before = os.fstat(fd).st_size
                try:
                    write_all(fd, [memoryview(data)])
                    if durable:
                        sync_data(fd)
                except OSError:
                    with suppress(OSError):  # the reader drops a torn end anyway
                        os.ftruncate(fd, before)
                    raise
            finally:
                os.close(fd)
            if new and durable:
                sync_folder(target.parent)

    def read(self, path: str) -> bytes:
        target = self._at(path)
        with reported("read", str(target), missing=True):
            return target.read_bytes()

    def open(self, path: str) -> Readable:
        target = self._at(path)
        with reported("read", str(target), missing=True):
            return target.open("rb", buffering=0)

    def list(self, path: str) -> builtins.list[str]:
        target = self._at(path)
        with reported("list", str(target)):
            try:
                with os.scandir(target) as entries:
                    names = [entry.name for entry in entries]
            except FileNotFoundError:
                return []
        return sorted(name for name in names if not name.startswith(TEMPORARY))

    def exists(self, path: str) -> bool:
        target = self._at(path)
        with reported("look for", str(target)):
            try:
                target.stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def size(self, path: str) -> int:
        target = self._at(path)
        with reported("look at", str(target), missing=True):
            return target.stat().st_size

    def delete(self, path: str) -> None:
        target = self._at(path)
        with self._by_the_driver("delete", target):
            try:
                if self._own is None and (target.is_symlink() or not target.is_dir()):
                    target.unlink()
                    sync_folder(target.parent)
                    return
                doomed = (self._own or target.parent) / f"{TEMPORARY}deleted-{token()}"
                target.rename(doomed)  # gone at once for every reader
            except FileNotFoundError:
                self.check()
                return
            with suppress(FileNotFoundError):
                sync_folder(target.parent)
            if doomed.is_symlink() or not doomed.is_dir():
                doomed.unlink(missing_ok=True)
            else:
                shutil.rmtree(doomed, ignore_errors=True)  # what is left goes with the driver's folder

    def staging(self) -> str:
        self.check()
        if self._own is None:
            with reported("write to", str(self._place)):
                make_folder(self._place)
        return (self._place / own_folder.new_name(self.fence)).relative_to(self.folder).as_posix()

    def publish(self, staged: str, target: str, *, last: str, replace: bool = False) -> bool:
        source, goal = self._at(staged), self._at(target)
        with self._by_the_driver(f"rename {source} to", goal):
            way = source if self._own is None else self._own / token()
            if way != source:
                source.rename(way)
            make_folder(goal.parent)
            if replace:
                self.delete(target)
            try:
                way.rename(goal)  # never over a folder that has something in it
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                if way != source:
                    way.rename(source)
                return False
            sync_folder(goal.parent)
            return True

    def sync(self, path: str) -> None:
        top = self._at(path)
        with reported("sync", str(top), missing=True):
            if top.is_file():
                sync_file(top)
                return sync_folder(top.parent)
            for folder, _, names in os.walk(top, onerror=_raise):
                for name in names:
                    sync_file(Path(folder, name))
                sync_folder(Path(folder))
            sync_folder(top.parent)

    def sweep(self, path: str) -> None:
        folder = self._at(path)
        with reported("sweep", str(folder)):
            if not folder.is_dir():
                return
            for left in folder.glob(f"{TEMPORARY}*"):
                with suppress(FileNotFoundError):
                    if left.is_dir():
                        shutil.rmtree(left)
                    else:
                        left.unlink()

    @contextmanager
    def _by_the_driver(self, action: str, target: Path) -> Iterator[None]:
        """What fails because the driver's folder is gone, fails because a newer driver has taken over."""
        try:
            with reported(action, str(target)):
                yield
        except StorageFailed:
            self.check()
            raise

    def _at(self, path: str) -> Path:
        return self.folder / relative(path)


def _raise(error: OSError) -> NoReturn:
    raise error
