"""One thread for slow work on storage, so that nobody waits for it: it carries out ``engine.storage_steps`` in the order of commands."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.driver.journal_writer import JournalWriter
from perseid.driver.way_back import WayBack
from perseid.engine import commands as do
from perseid.engine import notices
from perseid.engine.storage_steps import StorageSteps
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.manifest import Checkpoints, InflightEpoch, Manifest, ShardSnapshot
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, OperatorName


@dataclass(frozen=True)
class RootCheckpoints:
    """The checkpoints of the root, as their manifests say it."""

    graph_name: str
    lease: Lease
    checkpoints: Checkpoints
    journal_writer: JournalWriter
    now_ms: Callable[[], int]

    def check(self) -> None:
        self.lease.check()

    def commit(
        self, done: CompletedCheckpoint, event_times_ms: Mapping[OperatorName, int], command: do.CommitCheckpoint
    ) -> None:
        shards = own_shards(done)
        manifest = Manifest(
            id=done.id,
            graph=self.graph_name,
            created_ms=self.now_ms(),
            units=dict(done.cuts),
            shards=shards,
            inflight=tuple(InflightEpoch(s, e, p) for (s, e), p in sorted(done.inflight.items())),
            event_times_ms=dict(event_times_ms),
            scheme=command.scheme,
        )
        self.checkpoints.commit(manifest)
        size = sum(s.file.bytes for s in shards if layout.checkpoint_with(s.path) == done.id)
        self.journal_writer.checkpoint_committed(done.id, min(done.cuts.values()), size)

    def delete(self, checkpoint: CheckpointId) -> None:
        self.checkpoints.delete(checkpoint)


def own_shards(done: CompletedCheckpoint) -> tuple[ShardSnapshot, ...]:
    """Snapshots, in the order of their shards."""
    return tuple(s for _, s in sorted(done.shards.items()) if isinstance(s, ShardSnapshot))


class StorageWorker:
    """Carries out, in order, what the controller wants of storage; but what the way back to the old code needs is not trimmed."""

    def __init__(self, steps: StorageSteps, journal_writer: JournalWriter, store: Store) -> None:
        self._steps, self._journal_writer, self._way_back = steps, journal_writer, WayBack(store)
        self._commands: queue.SimpleQueue[do.StorageCommand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="perseid-storage", daemon=True)
        self._thread.start()

    def submit(self, command: do.StorageCommand) -> None:
        self._commands.put(command)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Do what is left and end."""
        self._commands.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (command := self._commands.get()) is not None:
            try:
                self._steps.carry_out(self._way_back.spared(command) if isinstance(command, do.Trim) else command)
            except Exception as error:
                if not self._steps.failed(command, str(error)):
                    self._journal_writer.notice(notices.StorageFailed(type(command).__name__, str(error)))
