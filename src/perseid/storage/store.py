"""The checkpoint root as a place to keep files: a local folder, or anything pyarrow.fs or fsspec reaches.

Invariant: a reader never sees a half-written file, and what a call has returned from is durable. On a local root that
means fsync of the file and of its folder; elsewhere it means that the storage has acknowledged it.

Paths are relative to the root, with slashes. Reading what is not there raises ``FileNotFoundError``; anything else
the storage refuses (full, broken, read-only, out of reach) becomes ``StorageFailed``. Spec: L4, M1.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from perseid.errors import RootError, StorageFailed
from perseid.vocabulary import Fence

TEMPORARY = ".tmp-"
"""Names that begin so are on their way in or out. No reader sees them, nor does Spark."""

STAGING = "staging"
"""The folder of what is on its way to its name, where nobody said another one."""


class Readable(Protocol):
    """An open file, to be read from front to back."""

    def readinto(self, target: memoryview, /) -> int | None: ...
    def close(self) -> None: ...


class Store(ABC):
    """One checkpoint root. Made by ``Store.at``; can be pickled and sent to another process."""

    root: str
    """The root as a URI."""
    local: Path | None
    """The folder, when the root is on a local filesystem."""
    key: bytes | None = None
    """The key of the root once it was asked for (``root_key``); goes along to other processes."""
    fence: Fence = Fence(0)
    """The number of the driver this store is for, higher for every later one; 0 if it is for nobody in particular."""

    @classmethod
    def at(cls, root: str) -> Store:
        """The store at a path or URI. Raises ``RootError`` if it cannot be created or written."""
        from perseid.storage.local import LocalStore
        from perseid.storage.remote import RemoteStore

        store: Store
        try:
            folder = local_folder(root)
            store = LocalStore(folder) if folder is not None else RemoteStore.from_uri(root)
            store.probe()
        except StorageFailed as error:
            raise RootError(f"checkpoint root {root!r} cannot be used: {error}") from error
        return store

    def uri(self, path: str) -> str:
        """What Spark is given to read or write there."""
        return f"{self.root}/{path}" if path else self.root

    @abstractmethod
    def probe(self) -> None:
        """Create the root, then write and delete a file in it."""

    @abstractmethod
    def write(self, path: str, chunks: Iterable[bytes | memoryview]) -> int:
        """Put a whole file there, in place of what was there before. Returns the bytes written."""

    @abstractmethod
    def create(self, path: str, data: bytes, *, private: bool = False) -> bool:
        """Like ``write``, but only if nothing is there: False if somebody was first. No two callers get True.

        ``private``: where files have owners, only its owner reads it.
        """

    @abstractmethod
    def append(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Add to the end of a file; one fsync on a local root. If it raises, the end may be torn, as after a crash."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The whole file, with all that was appended."""

    @abstractmethod
    def open(self, path: str) -> Readable:
        """Read a big file (one that was written, not appended to) piece by piece."""

    @abstractmethod
    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Is there a file or folder?"""

    @abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file or folder; nothing happens when there is none."""

    @abstractmethod
    def fenced(self, place: str, fence: Fence) -> Store:
        """This store for one driver of several. Once it returns, no driver with a lower fence can change anything any more.

        Below the folder ``place`` each driver has a folder of its own, through which goes all that it puts into the store or takes
        out of it. This call takes away those of the drivers before. Raises ``Fenced`` if a newer driver was here.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise ``Fenced`` if a newer driver uses this store. A look beforehand: what holds is that its writes fail."""

    @abstractmethod
    def staging(self) -> str:
        """The path of a new folder, for others (Spark) to write into; it is not there yet, the folder above it is."""

    @abstractmethod
    def publish(self, staged: str, target: str, *, last: str, replace: bool = False) -> bool:
        """Give a staged folder its name, if nothing has it: False if something has. With ``replace``, that goes first.

        On a local store the folder is there at once. Elsewhere it comes file by file, and the file ``last`` comes last; who sees it
        sees all. Nothing but what was there before is removed: a late ``replace`` cannot hit what another has put there since.
        """

    @abstractmethod
    def sync(self, path: str) -> None:
        """Make durable what others (Spark) wrote below a local folder; nothing elsewhere."""

    @abstractmethod
    def sweep(self, path: str) -> None:
        """Remove what writers that died have left half-done in a folder. Only for the holder of the lease."""


def local_folder(root: str) -> Path | None:
    """The folder a path or ``file:`` URI names; None for any other URI."""
    if not root:
        raise RootError(
            "the checkpoint root is empty: expected a path or a URI such as '/data/app' or 's3://bucket/app'"
        )
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", root)
    if scheme is None:
        return Path(root).expanduser().absolute()
    if scheme[1].lower() != "file":
        return None
    rest = root[len("file:") :]
    host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "/", rest[1:])
    if host not in ("", "localhost"):
        raise RootError(
            f"checkpoint root {root!r} names the machine {host!r}: write file:///path for a folder of this machine"
        )
    return Path(slash + path)


def relative(path: str) -> str:
    """The path, after a look that it stays below the root."""
    assert not path.startswith("/") and ".." not in path.split("/"), f"not a path below the root: {path!r}"
    return path


def token() -> str:
    """A name nobody else has, also not a forked sibling."""
    return f"{os.getpid()}-{os.urandom(6).hex()}"


@contextmanager
def reported(action: str, where: str, *, missing: bool = False) -> Iterator[None]:
    """Turn what the operating system refuses into ``StorageFailed``; with ``missing``, but for a missing file."""
    try:
        yield
    except FileNotFoundError as error:
        if missing:
            raise
        raise failure(action, where, error) from error
    except OSError as error:
        raise failure(action, where, error) from error


def failure(action: str, where: str, error: OSError) -> StorageFailed:
    code = error.errno
    said = f"{os.strerror(code)} ({errno.errorcode.get(code, code)})" if code else (str(error) or type(error).__name__)
    return StorageFailed(
        f"cannot {action} {where}: {said}; {_ADVICE.get(code or 0, 'see that the storage can be reached')}"
    )


def is_medium_error(error: StorageFailed) -> bool:
    """Did the disk fail to give back what it once took? Then this file is lost, and others may be well."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO


_FREE_SPACE = "free some space there, then start the application again: it goes on where it was"
_PERMISSION = "let the user that runs the application write there, or choose another root"
_ADVICE = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or choose another root",
    errno.EIO: "the disk or its connection is failing: look at the kernel log, then start again on a healthy one",
    errno.EROFS: "the filesystem is read-only: mount it writable, or choose another root",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.ENOTDIR: "a file is where a folder was expected: choose another root, or move the file away",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENOENT: "a folder vanished meanwhile: see that nothing else deletes files below the root",
}
