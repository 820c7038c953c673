"""Snapshots by ``fork()``: the child writes the state as of the boundary while the parent goes on (M4).

Only the forking thread lives on in the child, so it uses nothing but pickle and OS calls, and leaves with ``os._exit``. It leaves as soon
as its last byte is written; the parent makes the file durable, or uploads it where the root is not local: libraries behind remote stores
do not survive a fork.

As long as the child lives, every page that the parent changes is copied: time and memory. So the child is as quick as it can be and lets
pages go when they are written (``pages``); and the first epoch after a fork, whose rows Spark brings while the child writes, waits
for it before it changes anything, ``_PATIENCE_MS`` at most. See docs/design/engine.md.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import stat
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perseid.errors import ChannelError, CorruptData, StorageFailed
from perseid.host.garbage import Garbage
from perseid.host.pages import OwnPages
from perseid.host.phases import since
from perseid.host.shards import HeldShard
from perseid.state.operator_state import spilled_of
from perseid.state.shard_state import checkpoint_state
from perseid.state.spill_store import Seal
from perseid.storage.persisted import buffers_of, header_of
from perseid.storage.root_key import mac_of, own_key
from perseid.storage.snapshots import SnapshotFile, publish_snapshot, stage_snapshot, write_snapshot
from perseid.storage.store import Store

_PATIENCE_MS = 50
_SILENCE_MS = 15_000  # a child that has not run at all in between two of these hangs


@dataclass(frozen=True, slots=True)
class Encoded:
    """A shard's state, ready to be written: views of it, so before it changes."""

    held: HeldShard
    path: str
    header: dict[str, Any]
    buffers: list[bytes | memoryview]
    ms: int

    @classmethod
    def of(cls, held: HeldShard, entry: dict[str, Any]) -> Encoded:
        begun = time.monotonic()
        first, last = entry["slots"]
        state = checkpoint_state(held.operator, held.log.applied, slots=(first, last), copy=False)
        return cls(held, entry["path"], header_of(held.log.shard, state), buffers_of(state), since(begun))


class Snapshots:
    """Writes snapshots of shards and tells the controller of each."""

    def __init__(self, store: Store, copies: Path | None, tell: Callable[..., None]) -> None:
        self._store, self._copies, self._tell = store, copies, tell
        self._garbage = Garbage()
        self._children: set[int] = set()  # that are writing
        mac_of(own_key(store))  # a child finds it ready
        self._newest: tuple[int, int] | None = None  # checkpoint, and what is readable when its child has left

    def take(self, command: dict[str, Any], helds: list[HeldShard]) -> Callable[[], None] | None:
        """Called under the host's lock; what is returned is done without it."""
        checkpoint, unit = command["checkpoint"], command["unit"]
        begun = time.monotonic()
        wrong = [h for h in helds if h.log.applied != command["epoch"] or h.log.poisoned]
        if wrong:
            log = wrong[0].log
            stands = f"must be restored first: {log.poisoned}" if log.poisoned else f"stands at epoch {log.applied}"
            told = f"shard {log.shard} cannot be saved at epoch {command['epoch']}: it {stands}"
            self._tell("snapshot_failed", checkpoint=checkpoint, message=told)
            return None
        for held in helds:
            held.input.snapshot_taken()
        if command["synchronous"]:
            return lambda: self._write_now(command, helds, begun)
        self._garbage.put_aside(children=bool(self._children))
        seals = [spilled.seal() for held in helds for spilled in spilled_of(held.operator)]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._child(writer, checkpoint, command["shards"], helds)
        os.close(writer)
        self._children.add(child)
        self._forget_newest()
        self._newest = checkpoint, os.dup(reader)

        def rest() -> None:
            self._tell("forked", checkpoint=checkpoint, unit=unit, ms=since(begun))
            threading.Thread(
                target=self._reap, args=(child, reader, checkpoint, len(helds), seals), daemon=True
            ).start()

        return rest

    def give_way(self) -> None:
        """Before state changes, under the host's lock: let the newest child be done. Once; the epochs after that wait for nobody."""
        if self._newest is None:
            return
        begun = time.monotonic()
        checkpoint, end = self._newest
        _wait_for_end(end, _PATIENCE_MS)
        self._forget_newest()
        waited = since(begun)
        if waited:
            self._tell("gave_way", checkpoint=checkpoint, ms=waited)

    def _forget_newest(self) -> None:
        if self._newest is not None:
            os.close(self._newest[1])
            self._newest = None

    def _write_now(self, command: dict[str, Any], helds: list[HeldShard], begun: float) -> None:
        """Without a child (M2, M3). The controller gives the unit no epoch meanwhile; other units of this host go on.

        If it does after all, the checkpoint was given up, and what is written here is never looked at.
        """
        checkpoint = command["checkpoint"]
        try:
            results = [
                self._write(checkpoint, Encoded.of(held, entry), None)
                for entry, held in zip(command["shards"], helds, strict=True)
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
            encoded = [Encoded.of(held, entry) for entry, held in zip(entries, helds, strict=True)]
            pages = OwnPages(
                buffer for shard in encoded for buffer in shard.buffers[1:]
            )  # the first is the child's own
            while encoded:
                line = json.dumps(self._write(checkpoint, encoded.pop(0), pages)) + "\n"
                os.write(writer, line.encode())
        except BaseException:
            os.write(
                writer,
                (json.dumps({"kind": "snapshot_failed", "message": traceback.format_exc(limit=4)}) + "\n").encode(),
            )
        finally:
            os._exit(0)

    def _write(self, checkpoint: int, encoded: Encoded, pages: OwnPages | None) -> dict[str, Any]:
        """Write one shard's state; what to tell the controller. Durable when it returns, but for a child's: that has its pages."""
        begun = time.monotonic()
        shard, path, buffers = encoded.held.log.shard, encoded.path, encoded.buffers
        said: dict[str, Any] = {}
        try:
            if pages is not None:
                file, staged = stage_snapshot(
                    self._store, path, encoded.header, buffers, local=self._copies, written=pages.let_go
                )
                said["staged"] = str(staged)
            else:
                file = write_snapshot(self._store, path, encoded.header, buffers, local=self._copies)
        except (StorageFailed, OSError) as error:
            return {"kind": "snapshot_failed", "checkpoint": checkpoint, "message": f"shard {shard}: {error}"}
        return {
            "kind": "written",
            "checkpoint": checkpoint,
            "shard": [shard.operator, shard.index],
            "slots": encoded.header["slots"],
            "epoch": encoded.header["epoch"],
            "file": {"path": file.path, "bytes": file.bytes, "digest": file.digest},
            **said,
            "state_bytes": sum(memoryview(b).nbytes for b in buffers),
            "ms": encoded.ms + since(begun),
            "serialise_ms": encoded.ms,
        }

    def _reap(self, child: int, reader: int, checkpoint: int, expected: int, seals: list[Seal]) -> None:
        told = 0
        try:
            for line in _lines_of(child, reader):
                message = {"checkpoint": checkpoint, **json.loads(line)}
                if message["kind"] == "written":
                    message = self._publish(message)
                with contextlib.suppress(ChannelError):
                    self._tell(**message)
                told += 1
        finally:
            os.close(reader)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        self._children.discard(child)
        for seal in seals:
            seal.release()
        if told < expected:
            with contextlib.suppress(ChannelError):
                self._tell(
                    "snapshot_failed", checkpoint=checkpoint, message="the process that wrote the snapshot died or hung"
                )

    def _publish(self, message: dict[str, Any]) -> dict[str, Any]:
        """Make durable what the child wrote."""
        begun = time.monotonic()
        try:
            publish_snapshot(self._store, SnapshotFile(**message["file"]), Path(message.pop("staged")))
        except (StorageFailed, CorruptData) as error:
            return {"kind": "snapshot_failed", "checkpoint": message["checkpoint"], "message": str(error)}
        return {**message, "ms": message["ms"] + since(begun), "sync_ms": since(begun)}


def _lines_of(child: int, reader: int) -> Iterator[bytes]:
    """What a child says, until it has left. One that does not run at all for a while never will: it is ended."""
    rest, doing = b"", ""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while True:
        if not poll.poll(_SILENCE_MS):
            before, doing = doing, _doing(child)
            if before and before == doing:
                os.kill(child, signal.SIGKILL)  # nobody else reaps it: it is still there
            continue
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _doing(pid: int) -> str:
    """How often a process has run, and what it holds: it differs from one time to the next, unless the process stands still."""
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:  # other systems do not tell
        return ""


def _wait_for_end(reader: int, ms: int) -> None:
    """Wait until the child has left, which closes its end of the pipe."""
    poll = select.poll()
    poll.register(reader, 0)
    poll.poll(ms)


def _close_sockets() -> None:
    """In a forked child: if its parent dies, peers must see the connections close, which the child would keep open."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.close(int(name))
