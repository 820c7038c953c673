"""Snapshots by ``fork()``: the child writes the state as of the boundary while the parent goes on (M4).

Only the forking thread lives on in the child, so it uses nothing but pickle and OS calls, and leaves with ``os._exit``. On a root that is
not local the child writes to the machine's own disk and the parent uploads: libraries behind remote stores do not survive a fork.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import stat
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perseid.errors import ChannelError, StorageFailed
from perseid.spark.held import HeldShard
from perseid.spark.phases import since
from perseid.state.codec import encode
from perseid.state.operator_state import capture
from perseid.storage.snapshots import SnapshotFile, publish_snapshot, write_local_snapshot, write_snapshot
from perseid.storage.store import Store


class Snapshots:
    """Writes snapshots of shards and tells the controller of each."""

    def __init__(self, store: Store, copies: Path | None, tell: Callable[..., None]) -> None:
        self._store, self._copies, self._tell = store, copies, tell

    def take(self, command: dict[str, Any], helds: list[HeldShard]) -> Callable[[], None] | None:
        """Called under the host's lock; what is returned is done without it."""
        checkpoint, unit = command["checkpoint"], command["unit"]
        begun = time.monotonic()
        wrong = [h for h in helds if h.log.applied != command["epoch"] or h.log.poisoned]
        if wrong:
            self._tell("snapshot_failed", checkpoint=checkpoint, message=f"shard {wrong[0].log.shard} is not there")
            return None
        for held in helds:
            held.input.snapshot_taken()
        if command["synchronous"]:
            return lambda: self._write_now(command, helds, begun)
        gc.freeze()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._child(writer, checkpoint, command["shards"], helds)
        os.close(writer)

        def rest() -> None:
            self._tell("forked", checkpoint=checkpoint, unit=unit, ms=since(begun))
            threading.Thread(target=self._reap, args=(child, reader, checkpoint, len(helds)), daemon=True).start()

        return rest

    def _write_now(self, command: dict[str, Any], helds: list[HeldShard], begun: float) -> None:
        """Without a child (M2, M3). The controller gives the unit no epoch meanwhile; other units of this host go on.

        If it does after all, the checkpoint was given up, and what is written here is never looked at.
        """
        checkpoint = command["checkpoint"]
        try:
            results = [
                self._write(checkpoint, e, h, forked=False) for e, h in zip(command["shards"], helds, strict=True)
            ]
        except Exception:
            self._tell("snapshot_failed", checkpoint=checkpoint, message=traceback.format_exc(limit=4))
            return
        self._tell("forked", checkpoint=checkpoint, unit=command["unit"], ms=since(begun))
        for result in results:
            self._tell(**result)

    def _child(self, writer: int, checkpoint: int, entries: list[dict[str, Any]], helds: list[HeldShard]) -> None:
        """In the forked child: only this thread is alive."""
        try:
            gc.disable()
            _close_sockets()
            with contextlib.suppress(OSError, AttributeError):
                os.nice(10)  # epochs go first
            for entry, held in zip(entries, helds, strict=True):
                line = json.dumps(self._write(checkpoint, entry, held, forked=True)) + "\n"
                os.write(writer, line.encode())
        except BaseException:
            os.write(
                writer,
                (json.dumps({"kind": "snapshot_failed", "message": traceback.format_exc(limit=4)}) + "\n").encode(),
            )
        finally:
            os._exit(0)

    def _write(self, checkpoint: int, entry: dict[str, Any], held: HeldShard, *, forked: bool) -> dict[str, Any]:
        """Make one shard's state durable; what to tell the controller."""
        begun = time.monotonic()
        shard = held.log.shard
        header = {"operator": shard.operator, "index": shard.index, "epoch": held.log.applied, "slots": entry["slots"]}
        try:
            buffers = encode(capture(held.operator))
            if forked and self._store.local is None and self._copies is not None:
                # A forked child must not use the library behind a remote store: the parent uploads.
                file = write_local_snapshot(self._copies, entry["path"], header, buffers)
            else:
                file = write_snapshot(self._store, entry["path"], header, buffers, local=self._copies)
        except (StorageFailed, OSError) as error:
            return {"kind": "snapshot_failed", "checkpoint": checkpoint, "message": f"shard {shard}: {error}"}
        return {
            "kind": "written",
            "checkpoint": checkpoint,
            "shard": [shard.operator, shard.index],
            "slots": entry["slots"],
            "epoch": held.log.applied,
            "file": {"path": file.path, "bytes": file.bytes, "digest": file.digest},
            "state_bytes": sum(memoryview(b).nbytes for b in buffers),
            "ms": since(begun),
        }

    def _reap(self, child: int, reader: int, checkpoint: int, expected: int) -> None:
        told = 0
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                message = {"checkpoint": checkpoint, **json.loads(line)}
                if message["kind"] == "written" and self._store.local is None:
                    message = self._publish(message)
                with contextlib.suppress(ChannelError):
                    self._tell(**message)
                told += 1
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        if told < expected:
            with contextlib.suppress(ChannelError):
                self._tell("snapshot_failed", checkpoint=checkpoint, message="the process that wrote the snapshot died")

    def _publish(self, message: dict[str, Any]) -> dict[str, Any]:
        """Bring a snapshot that the child wrote to the local disk into the store."""
        try:
            assert self._copies is not None, "only a local root has none"
            publish_snapshot(self._store, SnapshotFile(**message["file"]), self._copies)
        except (StorageFailed, OSError) as error:
            return {"kind": "snapshot_failed", "checkpoint": message["checkpoint"], "message": str(error)}
        return message


def _close_sockets() -> None:
    """In a forked child: if its parent dies, peers must see the connections close, which the child would keep open."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.close(int(name))
