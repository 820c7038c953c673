"""The keeper in a simulation: slow work on the root, in the order of the commands (``driver.storage_worker``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.stream_store import StreamGone
from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.simulation.jobs import JobFailed, Stuck
from perseid.simulation.root import Manifest, Snapshot
from perseid.storage.records import Partitioned
from perseid.vocabulary import CheckpointId, Epoch, StreamName, UnitName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver


class Keeper:
    """Carries out, in order, what the controller wants of storage."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world = driver, driver.world
        self._queue: list[do.StorageCommand] = []
        self._busy = False

    def submit(self, command: do.StorageCommand) -> None:
        self._queue.append(command)
        if not self._busy:
            self._next()

    def release(self, stream: StreamName, epoch: Epoch) -> None:
        """At once: what is done later could take from what a recovery has put back meanwhile."""
        driver, root = self._driver, self._driver.root
        newest = max(root.manifests, default=None)
        manifest = root.manifests[newest] if newest is not None else None
        if not driver.fenced:
            self._world.witness.released(stream, epoch, driver.finished, manifest)
        driver.streams.release(stream, epoch)

    def finish(self) -> None:
        """Do what is left."""
        queue, self._queue = self._queue, []
        for command in queue:
            self._carry_out(command)

    def _next(self) -> None:
        self._busy = bool(self._queue)
        if self._busy:
            now = self._driver.clock.now_ms
            self._driver.clock.after(int(self._world.some("storage") * self._driver.root.pace(now)), self._slow)

    def _slow(self) -> None:
        driver = self._driver
        if driver.asleep:
            driver.clock.at(driver.asleep_ms, self._slow)
        elif driver.alive:
            if self._queue:
                self._carry_out(self._queue.pop(0))
            self._next()

    def _carry_out(self, command: do.StorageCommand) -> None:
        driver = self._driver
        try:
            self._store(command)
        except (StorageFailed, CorruptData, Fenced, StreamGone, JobFailed, Stuck) as error:
            match command:
                case do.SaveInflight(checkpoint) | do.CommitCheckpoint(PendingCheckpoint(id=checkpoint)):
                    driver.tell(on.CheckpointFailed(checkpoint, str(error)), 0)
                case do.WritePartition(operator, _, _, version):
                    driver.tell(on.PartitionWritten(operator, version, str(error)), 0)
                case do.AbortCheckpoint() | do.Trim():
                    pass  # the root has more than it needs

    def _store(self, command: do.StorageCommand) -> None:
        driver, root, now = self._driver, self._driver.root, self._driver.clock.now_ms
        match command:
            case do.SaveInflight(checkpoint, stream, epoch):
                path = f"{checkpoint}/{stream}/{epoch}"
                driver.streams.save(stream, epoch, path)
                driver.tell(on.InflightSaved(checkpoint, stream, epoch, path), 0)
            case do.CommitCheckpoint(pending, _, covered):
                self._commit(pending, covered)
                driver.errands.covered({**pending.cuts, **covered})
            case do.WritePartition(operator, declared, shards, version):
                root.append(driver.generation, now, [Partitioned(operator, declared, shards)])
                driver.tell(on.PartitionWritten(operator, version), 0)
            case do.AbortCheckpoint(checkpoint):
                root.reach(now)
                root.delete(driver.generation, checkpoint)
            case do.Trim(delete, oldest):
                root.reach(now)
                self._trim(delete, oldest)
            case _:
                assert_never(command)

    def _commit(self, pending: PendingCheckpoint, alone: Mapping[UnitName, Epoch]) -> None:
        driver, root = self._driver, self._driver.root
        self._write_commits()
        shards = {shard: s for shard, s in pending.saved.items() if isinstance(s, Snapshot)}
        manifest = Manifest(pending.id, dict(pending.cuts), shards, dict(pending.inflight))
        root.commit(driver.generation, driver.clock.now_ms, manifest)
        self._world.witness.checkpoint_committed(manifest, alone)
        self._world.checkpoint_committed(driver.clock.now_ms - pending.started_ms, manifest)
        driver.tell(on.CheckpointCommitted(pending.id), 0)

    def _write_commits(self) -> None:
        """Of the epochs that a checkpoint covers, before it is one."""
        self._driver.admission.machine.write_commits()

    def _trim(self, delete: tuple[CheckpointId, ...], oldest: CompletedCheckpoint) -> None:
        driver, root = self._driver, self._driver.root
        for checkpoint in delete:
            root.delete(driver.generation, checkpoint)
        streams: dict[StreamName, Epoch] = {}
        for stream in driver.topology.streams:
            if stream.durable:
                upto = oldest.cuts[stream.consumer]
                streams[stream.name] = min(upto, streams.get(stream.name, upto))
        epoch = Epoch(min(oldest.cuts.values()))
        root.trim(driver.generation, epoch, streams)
        self._world.witness.trimmed(epoch, streams)
        self._world.trimmed(epoch)
