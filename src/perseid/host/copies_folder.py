"""The folder on a machine's own disk for second copies of snapshots (M6), shared by the application's hosts on that machine.

Hosts that come later, and those of a restart, must find it again, and nobody else may have it ready for them. So its name is made of the
root's key: only who knows the key can tell it before it is there. It is 0700 and ours, or another name is taken. It goes when the
application ends; what an application that was killed has left behind is cleared away by later hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from perseid.errors import StorageFailed
from perseid.storage.private_folder import is_private, make_private
from perseid.storage.root_key import derived, own_key
from perseid.storage.store import Store

PREFIX = "perseid-copies-"
WANTED_S = 7 * 24 * 3600.0  # after this time nobody restarts what has left copies behind
_NAMES = 4  # somebody may have seen a name before it was free again, and hold it
_USERS = "users"


def local_copies(store: Store) -> Path | None:
    """The folder of a root on this machine; None where the root is on the same disk itself."""
    temporary = Path(tempfile.gettempdir())
    if store.local is not None and store.local.stat().st_dev == temporary.stat().st_dev:
        return None
    key = own_key(store)
    for number in range(_NAMES):
        folder = temporary / f"{PREFIX}{derived(key, f'copies {number}').hex()[:24]}"
        with contextlib.suppress(StorageFailed):
            make_private(folder)
            return folder
    return Path(tempfile.mkdtemp(prefix=PREFIX))  # found by nobody else, but of use to this host


class CopiesFolder:
    """The folder as one host uses it."""

    def __init__(self, store: Store) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.folder = local_copies(store)
        self._lock = self._join() if self.folder is not None else None

    def leave(self, *, for_good: bool) -> None:
        """This host ends; ``for_good``: the application does. The last host takes the folder away then."""
        if self.folder is None or self._lock is None:
            return
        os.close(self._lock)
        self._lock = None
        if for_good and (file := _locked(self.folder, fcntl.LOCK_EX)) is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(file)

    def _join(self) -> int | None:
        """Hosts that use the folder share a lock on it."""
        assert self.folder is not None
        for _ in range(_NAMES):  # whoever takes it away just now has done so the next time
            with contextlib.suppress(StorageFailed, OSError):
                make_private(self.folder)
                file = _locked(self.folder, fcntl.LOCK_SH)
                if file is not None:
                    return file
            time.sleep(0.05)
        return None


def _locked(folder: Path, how: int) -> int | None:
    """The lock as an open file; None while others hold it, or if the folder was taken away meanwhile."""
    try:
        file = os.open(folder / _USERS, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
        if os.fstat(file).st_ino == (folder / _USERS).stat().st_ino:
            return file
    except OSError:
        pass
    os.close(file)
    return None


def _sweep(place: Path) -> None:
    """Clear away what nobody uses and nobody has used for long."""
    with contextlib.suppress(OSError):
        for folder in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                newest = max(
                    path.stat().st_mtime for path in (folder, *folder.glob("checkpoints"), *folder.glob("*/*"))
                )
                if time.time() - newest < WANTED_S or not is_private(folder):
                    continue
                if (file := _locked(folder, fcntl.LOCK_EX)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(file)
