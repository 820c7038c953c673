"""A host's folder on its machine's own disk: its Unix socket, answers it has put out of memory, the input its shards keep.

A killed host leaves its folder behind, and whoever takes its shards over looks there. The lock on the folder goes with the process, so
hosts that start later find the folders that nobody owns, and delete those that nobody can want any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from perseid.storage.private_folder import is_private

PREFIX = "perseid-host-"
WANTED_S = 3600.0  # after this time nobody restores what a dead host held
_LOCK = "owner"


def make_folder() -> Path:
    """A folder for this process; left-overs of dead hosts are cleared away."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    _lock(folder)  # held until the process ends
    return folder


def _lock(folder: Path) -> int | None:
    """The lock as an open file; None while its owner lives."""
    file = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _sweep(place: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                old = time.time() - folder.stat().st_mtime > WANTED_S
                if old and is_private(folder) and (file := _lock(folder)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(file)
