"""Folders that only their owner can look into, in places where everybody may make folders, such as the temporary folder.

Invariant: what ``make_private`` returned from is a folder of this user's, no link, with mode 0700. Whoever made it beforehand under the
same name gets nothing into it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from perseid.storage.store import reported


def make_private(folder: Path) -> None:
    """Make a folder, or make sure that the one that is there is ours. Raises ``StorageFailed`` if it is somebody else's."""
    with reported("use", str(folder)):
        try:
            folder.mkdir(mode=0o700)
        except FileNotFoundError:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        except FileExistsError:
            pass
        if not is_private(folder):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(folder))


def is_private(folder: Path) -> bool:
    """Is this a folder of ours, that nobody else can look into?"""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
