"""Snapshots of other hosts' shards that a host keeps, and its own that others ask for (S2, ``backup_state``).

Only where snapshots have a copy on the machine's own disk at all: elsewhere the root itself lies on that disk.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import connect
from perseid.engine.messages import FetchSnapshot
from perseid.errors import ChannelError, StorageFailed
from perseid.storage.private_folder import make_private

PATIENCE_S = 30.0  # with one read or write


class KeptBackups:
    """The backups of one host."""

    def __init__(self, folder: Path, copies: Path | None, secret: bytes) -> None:
        self._folder, self._copies, self._secret = folder, copies, secret

    def keep(self, source: Address, path: str) -> int | None:
        """Fetch a snapshot from the host that wrote it; its bytes, or None if there is nothing to be had."""
        if self._copies is None:
            return None
        return (self._folder / path).stat().st_size if self.fetch(source, path, self._folder / path) else None

    def fetch(self, source: Address, path: str, target: Path) -> bool:
        """Get a file from another host. What is wrong with it, its HMAC will say."""
        with contextlib.suppress(ChannelError, StorageFailed, OSError):
            if self._copies is not None and target.is_relative_to(self._copies):
                make_private(self._copies)
            connection = connect(source, self._secret, "backups")
            try:
                connection.deadline(PATIENCE_S)
                connection.tell(FetchSnapshot(path))
                connection.receive_file(target)
                return True
            finally:
                connection.close()
        return False

    def serve(self, connection: Connection, path: str) -> None:
        """Send a snapshot: what this host wrote, or keeps for another."""
        folders = [folder for folder in (self._folder, self._copies) if folder is not None]
        found = [f / path for f in folders if (f / path).resolve().is_relative_to(f.resolve()) and (f / path).is_file()]
        connection.send_file(found[0] if found else self._folder / "nothing")

    def forget(self, paths: Iterable[str]) -> None:
        """Files, or folders of checkpoints."""
        for path in paths:
            gone = self._folder / path
            with contextlib.suppress(OSError):
                gone.unlink() if gone.is_file() else shutil.rmtree(gone, ignore_errors=True)
