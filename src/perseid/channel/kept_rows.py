"""The rows that tasks send to shards with a standby, kept on the task's machine until both hosts have them (H2; the paper's output queue).

A task writes them before it asks; hosts on the machine read them when they have to make up what another host applied, and serve them to
hosts elsewhere. Nothing is synced: a killed process does not take the page cache with it, and for a lost machine there are the sources.

Invariant: what is read is what the newest task to ask for the epoch has sent, whole.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from perseid.channel.connection import Connection
from perseid.channel.input_file import read_input, write_input
from perseid.engine.messages import ApplyEpoch
from perseid.errors import StorageFailed
from perseid.storage.private_folder import is_private, make_private
from perseid.vocabulary import Epoch, ShardId

LIMIT_BYTES = 1 << 30  # of one shard
PREFIX = "perseid-rows-"
WANTED_S = 24 * 3600.0  # after this time nobody needs what an application that was killed has left behind


class KeptRows:
    """Those of one application, on this machine."""

    def __init__(self, secret: bytes) -> None:
        name = hmac.digest(secret, b"rows that tasks keep", "sha256").hex()[:16]
        self.folder = Path(tempfile.gettempdir()) / f"{PREFIX}{name}"

    def keep(self, request: ApplyEpoch, rows: pa.Table) -> bool:
        """Whether they are kept: a full disk keeps none, nor does a folder of somebody else, and a shard has its bound."""
        path = self.path(request.shard, request.epoch)
        partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            if not path.parent.exists():
                make_private(self.folder)
                path.parent.mkdir(exist_ok=True)
            if _bytes_in(path.parent) > LIMIT_BYTES:
                return False
            write_input(partial, request, rows)
            partial.replace(path)
        except (OSError, StorageFailed):
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            return False
        return True

    def read(self, shard: ShardId, epoch: Epoch) -> tuple[ApplyEpoch, pa.Table] | None:
        return read_input(self.path(shard, epoch))

    def receive(self, connection: Connection, path: Path) -> None:
        """From a host on the machine where a task kept them."""
        make_private(self.folder)
        connection.receive_file(path)

    def forget(self, upto: Mapping[ShardId, Epoch]) -> None:
        for shard, last in upto.items():
            with contextlib.suppress(OSError):
                for entry in os.scandir(self._of(shard)):
                    epoch = entry.name.partition(".")[0]
                    if epoch.isdecimal() and int(epoch) <= last:
                        with contextlib.suppress(OSError):
                            os.unlink(entry.path)  # noqa: PTH108

    def clear(self) -> None:
        """The application has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def sweep(self) -> None:
        """Clear away what other applications have left behind, on this machine."""
        for folder in self.folder.parent.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                newest = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
                if time.time() - newest >= WANTED_S and is_private(folder):
                    shutil.rmtree(folder, ignore_errors=True)

    def path(self, shard: ShardId, epoch: Epoch) -> Path:
        """Where the rows of an epoch lie, if they are kept."""
        return self._of(shard) / str(epoch)

    def _of(self, shard: ShardId) -> Path:
        return self.folder / f"{shard.operator}-{shard.index}"


def _bytes_in(folder: Path) -> int:
    """Without files that go meanwhile: hosts forget what both of them have."""
    size = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            size += entry.stat().st_size
    return size
