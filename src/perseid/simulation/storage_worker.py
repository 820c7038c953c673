"""Slow work on the root in virtual time, in the order of the commands: ``engine.storage_steps`` over the simulated root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.driver.backups import HostsToldOfCheckpoints
from perseid.engine import commands as do
from perseid.engine.root_history import needs
from perseid.engine.storage_steps import StorageSteps
from perseid.engine.unit_job import TaskFailed
from perseid.errors import PerseidError, PropertyBroken
from perseid.simulation.copies import Stuck
from perseid.simulation.root import Manifest
from perseid.vocabulary import CheckpointId, Offset, OperatorName, SourceName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver


class SimulatedCheckpoints:
    """The checkpoints of the root, as one driver writes them."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._root, self._world = driver, driver.root, driver.world

    def check(self) -> None:
        self._root.check(self._driver.generation)

    def commit(
        self, done: CompletedCheckpoint, event_times_ms: Mapping[OperatorName, int], command: do.CommitCheckpoint
    ) -> None:
        now, world = self._driver.clock.now_ms, self._world
        files = needs(done.id, done.shards.values(), done.inflight.values())
        manifest = Manifest(done.id, done.cuts, done.shards, done.inflight, needs=files)
        self._root.commit(self._driver.generation, now, manifest)
        world.witness.checkpoint_committed(manifest, event_times_ms, command.covered)
        world.checkpoint_committed(now - command.pending.started_ms, manifest)

    def delete(self, checkpoint: CheckpointId) -> None:
        self._root.reach(self._driver.clock.now_ms)
        self._root.delete(self._driver.generation, checkpoint)


class SimulatedStorageWorker:
    """Carries out, in order, what the controller wants of storage."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world = driver, driver.world
        self._queue: list[do.StorageCommand] = []
        self._busy = False
        self._steps = StorageSteps(
            driver.topology,
            SimulatedCheckpoints(driver),
            driver.ledger,
            driver.streams,
            HostsToldOfCheckpoints(driver.hosts.broadcast, driver.backups),
            driver.admission.machine.write_commits,
            self._trim_source,
            lambda event: driver.tell(event, 0),
        )

    def submit(self, command: do.StorageCommand) -> None:
        self._queue.append(command)
        if not self._busy:
            self._next()

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
        try:
            self._steps.carry_out(command)
        except PropertyBroken:
            raise  # what a checker says is no trouble of storage
        except (PerseidError, TaskFailed, Stuck) as error:
            self._steps.failed(command, str(error))

    def _trim_source(self, source: SourceName, start: Offset) -> None:
        self._world.witness.source_trimmed(source, start)
