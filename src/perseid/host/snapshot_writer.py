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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perseid.channel.codec import Kinds, encode
from perseid.engine.messages import Forked, FromHost, GaveWay, NotSaved, Saved, ShardToSave, Snapshot
from perseid.errors import ChannelError, CorruptData, StorageFailed
from perseid.host.garbage import Garbage
from perseid.host.pages import OwnPages
from perseid.host.phases import since
from perseid.operators.operator import Operator
from perseid.state.operator_state import spilled_of
from perseid.state.shard_state import checkpoint_state
from perseid.state.spill_store import Seal
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.persisted import buffers_of, header_of
from perseid.storage.root_key import mac_of, own_key
from perseid.storage.snapshots import SnapshotFile, publish_snapshot, stage_snapshot, write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, ShardId

_PATIENCE_MS = 50
_SILENCE_MS = 15_000  # a child that has not run at all in between two of these hangs


@dataclass(frozen=True, slots=True)
class Encoded:
    """A shard's state, ready to be written: views of it, so before it changes."""

    shard: ShardId
    path: str
    header: dict[str, Any]
    buffers: list[bytes | memoryview]
    ms: int

    @classmethod
    def of(cls, operator: Operator, entry: ShardToSave, epoch: Epoch) -> Encoded:
        begun = time.monotonic()
        state = checkpoint_state(operator, epoch, slots=entry.slots, copy=False)
        return cls(entry.shard, entry.path, header_of(entry.shard, state), buffers_of(state), since(begun))


@dataclass(frozen=True, slots=True)
class Staged:
    """A child's word: it has written a file, which the parent makes durable."""

    saved: Saved
    staged: str  # its path


_WORDS = Kinds[Staged | NotSaved](Staged | NotSaved)


class SnapshotWriter:
    """Writes snapshots of shards and tells the controller of each."""

    def __init__(self, store: Store, copies: Path | None, tell: Callable[[FromHost], None]) -> None:
        self._store, self._copies, self._tell = store, copies, tell
        self._garbage = Garbage()
        self._children: set[int] = set()  # that are writing
        mac_of(own_key(store))  # a child finds it ready
        self._newest: tuple[CheckpointId, int] | None = None  # checkpoint, and what is readable when its child has left

    def take(self, command: Snapshot, operators: Sequence[Operator]) -> Callable[[], None]:
        """Called under the host's lock; what is returned is done without it. The operators stand at the epoch of the command."""
        checkpoint, begun = command.checkpoint, time.monotonic()
        if command.synchronous:
            return lambda: self._write_now(command, operators, begun)
        self._garbage.put_aside(children=bool(self._children))
        seals = [spilled.seal() for operator in operators for spilled in spilled_of(operator)]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._child(writer, command, operators)
        os.close(writer)
        self._children.add(child)
        self._forget_newest()
        self._newest = checkpoint, os.dup(reader)

        def rest() -> None:
            self._tell(Forked(checkpoint, command.unit, since(begun)))
            threading.Thread(
                target=self._reap, args=(child, reader, checkpoint, len(operators), seals), daemon=True
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
            self._tell(GaveWay(checkpoint, waited))

    def _forget_newest(self) -> None:
        if self._newest is not None:
            os.close(self._newest[1])
            self._newest = None

    def _write_now(self, command: Snapshot, operators: Sequence[Operator], begun: float) -> None:
        """Without a child (M2, M3). The controller gives the unit no epoch meanwhile; other units of this host go on.

        If it does after all, the checkpoint was given up, and what is written here is never looked at.
        """
        checkpoint = command.checkpoint
        try:
            results = [self._write(checkpoint, encoded) for encoded in _encoded(command, operators)]
        except Exception:
            self._tell(NotSaved(checkpoint, traceback.format_exc(limit=4)))
            return
        self._tell(Forked(checkpoint, command.unit, since(begun)))
        for result in results:
            self._tell(result)

    def _child(self, writer: int, command: Snapshot, operators: Sequence[Operator]) -> None:
        """In the forked child: only this thread is alive."""

        def say(word: Staged | NotSaved) -> None:
            os.write(writer, (json.dumps(encode(word)) + "\n").encode())

        try:
            gc.disable()
            _close_sockets()
            encoded = list(_encoded(command, operators))
            pages = OwnPages(
                buffer for shard in encoded for buffer in shard.buffers[1:]
            )  # the first is the child's own
            while encoded:
                say(self._stage(command.checkpoint, encoded.pop(0), pages))
        except BaseException:
            say(NotSaved(command.checkpoint, traceback.format_exc(limit=4)))
        finally:
            os._exit(0)

    def _write(self, checkpoint: CheckpointId, encoded: Encoded) -> Saved | NotSaved:
        """Write one shard's state. Durable when it returns."""
        begun = time.monotonic()
        try:
            file = write_snapshot(self._store, encoded.path, encoded.header, encoded.buffers, local=self._copies)
        except (StorageFailed, OSError) as error:
            return NotSaved(checkpoint, f"shard {encoded.shard}: {error}")
        return _saved(checkpoint, encoded, file, begun)

    def _stage(self, checkpoint: CheckpointId, encoded: Encoded, pages: OwnPages) -> Staged | NotSaved:
        """The same in a child, which has its pages to let go; the parent makes it durable."""
        begun = time.monotonic()
        path, header, buffers = encoded.path, encoded.header, encoded.buffers
        try:
            file, staged = stage_snapshot(self._store, path, header, buffers, local=self._copies, written=pages.let_go)
        except (StorageFailed, OSError) as error:
            return NotSaved(checkpoint, f"shard {encoded.shard}: {error}")
        return Staged(_saved(checkpoint, encoded, file, begun), str(staged))

    def _reap(self, child: int, reader: int, checkpoint: CheckpointId, expected: int, seals: list[Seal]) -> None:
        told = 0
        try:
            for line in _lines_of(child, reader):
                word = _WORDS.decode(json.loads(line))
                with contextlib.suppress(ChannelError):
                    self._tell(word if isinstance(word, NotSaved) else self._publish(word))
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
                self._tell(NotSaved(checkpoint, "the process that wrote the snapshot died or hung"))

    def _publish(self, word: Staged) -> Saved | NotSaved:
        """Make durable what the child wrote."""
        begun, saved = time.monotonic(), word.saved
        assert isinstance(saved.snapshot, ShardSnapshot)
        try:
            publish_snapshot(self._store, saved.snapshot.file, Path(word.staged))
        except (StorageFailed, CorruptData) as error:
            return NotSaved(saved.checkpoint, str(error))
        return replace(saved, ms=saved.ms + since(begun), sync_ms=since(begun))


def _encoded(command: Snapshot, operators: Sequence[Operator]) -> Iterator[Encoded]:
    for entry, operator in zip(command.shards, operators, strict=True):
        yield Encoded.of(operator, entry, command.epoch)


def _saved(checkpoint: CheckpointId, encoded: Encoded, file: SnapshotFile, begun: float) -> Saved:
    first, last = encoded.header["slots"]
    size = sum(memoryview(b).nbytes for b in encoded.buffers)
    operator, index = encoded.shard
    snapshot = ShardSnapshot(operator, index, (first, last), Epoch(encoded.header["epoch"]), file, size)
    return Saved(checkpoint, snapshot, encoded.ms + since(begun), encoded.ms)


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
