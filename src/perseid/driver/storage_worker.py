"""One thread for slow work on storage, so that nobody waits for it.

Checkpoints committed, aborted, trimmed; in-flight epochs saved; divisions of operators written down; all in the order of the commands.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, assert_never

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.driver.backups import HostBackups
from perseid.driver.journal_writer import JournalWriter
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.stream_store import StreamStore
from perseid.graph.graph import Graph
from perseid.graph.topology import Topology
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, InflightEpoch, Manifest, ShardSnapshot
from perseid.storage.records import Partitioned
from perseid.vocabulary import CheckpointId, Epoch, SourceName, UnitName


class StorageWorker:
    """Carries out, in order, what the controller wants of storage."""

    def __init__(
        self,
        graph: Graph,
        topology: Topology,
        lease: Lease,
        ledger: Ledger,
        ledger_lock: threading.Lock,
        checkpoints: Checkpoints,
        streams: StreamStore[Any],
        journal_writer: JournalWriter,
        now_ms: Callable[[], int],
        post: Callable[[on.Event], None],
        broadcast: Callable[[dict[str, Any]], None],
        backups: HostBackups,
        write_commits: Callable[[], None],
    ) -> None:
        self._graph, self._topology, self._lease = graph, topology, lease
        self._ledger, self._lock, self._checkpoints = ledger, ledger_lock, checkpoints
        self._streams, self._journal_writer, self._now_ms = streams, journal_writer, now_ms
        self._post, self._broadcast, self._backups = post, broadcast, backups
        self._write_commits = write_commits
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
                self._store(command)
            except Exception as error:
                match command:
                    case do.SaveInflight(checkpoint) | do.CommitCheckpoint(PendingCheckpoint(id=checkpoint)):
                        self._post(on.CheckpointFailed(checkpoint, str(error)))
                    case do.WritePartition(operator, _, _, version):
                        self._post(on.PartitionWritten(operator, version, str(error)))
                    case do.AbortCheckpoint() | do.Trim():
                        self._journal_writer.notice(notices.StorageFailed(type(command).__name__, str(error)))

    def _store(self, command: do.StorageCommand) -> None:
        match command:
            case do.SaveInflight(checkpoint, stream, epoch):
                path = layout.inflight(checkpoint, stream, epoch)
                size = self._streams.save(stream, epoch, path)
                self._journal_writer.notice(notices.InflightSaved(checkpoint, stream, epoch, size))
                self._post(on.InflightSaved(checkpoint, stream, epoch, path))
            case do.CommitCheckpoint(pending, scheme, covered):
                self._commit_checkpoint(pending, scheme, {**pending.cuts, **covered})
            case do.WritePartition(operator, declared, shards, version):
                with self._lock:
                    self._ledger.append(Partitioned(operator, declared, shards))
                self._post(on.PartitionWritten(operator, version))
            case do.AbortCheckpoint(checkpoint):
                self._checkpoints.delete(checkpoint)
                self._forget(checkpoint)
            case do.Trim(delete, oldest):
                self._trim(delete, oldest)
            case _:
                assert_never(command)

    def _commit_checkpoint(self, pending: PendingCheckpoint, scheme: str, covered: dict[UnitName, Epoch]) -> None:
        self._lease.check()
        self._write_commits()  # first: after a crash in between nobody would commit these epochs any more
        shards = tuple(s for _, s in sorted(pending.saved.items()) if isinstance(s, ShardSnapshot))
        manifest = Manifest(
            id=pending.id,
            graph=self._graph.name,
            created_ms=self._now_ms(),
            units=dict(pending.cuts),
            shards=shards,
            inflight=tuple(InflightEpoch(s, e, p) for (s, e), p in sorted(pending.inflight.items())),
            event_times_ms=dict(self._ledger.event_times_ms(min(pending.cuts.values()))),
            scheme=scheme,
        )
        self._checkpoints.commit(manifest)
        own = f"{layout.checkpoint(pending.id)}/"  # under baseline it also names files of earlier ones
        size = sum(s.file.bytes for s in shards if s.file.path.startswith(own))
        self._journal_writer.checkpoint_committed(pending.id, min(pending.cuts.values()), size)
        cuts = {o: epoch for unit, epoch in covered.items() for o in self._topology.unit(unit).operators}
        self._broadcast({"kind": "covered", "cuts": cuts})
        self._post(on.CheckpointCommitted(pending.id))
        self._backups.committed(s for s in shards if s.file.path.startswith(own))

    def _forget(self, *checkpoints: CheckpointId) -> None:
        """What hosts have of these."""
        paths = [layout.checkpoint(checkpoint) for checkpoint in checkpoints]
        self._broadcast({"kind": "forget", "paths": paths})
        self._backups.forgotten(paths)

    def _trim(self, delete: tuple[CheckpointId, ...], oldest: CompletedCheckpoint) -> None:
        for checkpoint in delete:
            self._checkpoints.delete(checkpoint)
        if delete:
            self._forget(*delete)
        for source in self._graph.sources:
            first = self._ledger.admitted(Epoch(oldest.cuts[UnitName(source.unit)] + 1))
            if first is not None:
                source.source.trim(first.slices[SourceName(source.name)][0])
        for name in {s.name for s in self._topology.streams if s.durable}:
            consumers = [s.consumer for s in self._topology.streams if s.name == name]
            self._streams.trim(name, min(oldest.cuts[consumer] for consumer in consumers))
        with self._lock:
            self._ledger.trim(min(oldest.cuts.values()))
