"""Admission and commits in a simulation: one durable append for both, tried again while storage fails (``driver.admission``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perseid.engine import events as on
from perseid.errors import Fenced, StorageFailed
from perseid.storage.records import Admitted, Committed, Record
from perseid.vocabulary import Epoch, Offset, SourceName, UnitName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

PATIENCE_MS = 60_000
RETRY_MS = 500


class Admission:
    """Admits epochs when asked, and writes down which are done."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world = driver, driver.world
        self._sources = [name for unit in driver.topology.units for name in unit.sources]
        self._commits: list[Record] = []
        self._wanted: Epoch | None = None
        self._failing_since: int | None = None
        self._scheduled = False
        self._due_ms = 0  # when the next epoch's rows are there

    def commit(self, unit: UnitName, epoch: Epoch) -> None:
        self._commits.append(Committed(epoch, unit, self._driver.event_times_ms.pop((unit, epoch), {})))
        self._soon()

    def write_commits(self) -> None:
        """All that are known by now: no checkpoint may cover an epoch that is not committed."""
        driver, commits = self._driver, self._commits
        driver.root.append(driver.generation, driver.clock.now_ms, commits)
        self._world.witness.appended(commits)
        self._commits = []

    def admit(self, epoch: Epoch) -> None:
        self._wanted = epoch
        self.wait()

    def wait(self) -> None:
        """For the rows of the epoch that is wanted."""
        if self._wanted is not None:
            wait_ms = self._world.next_slice_ms(self._wanted)
            self._due_ms = self._driver.clock.now_ms + wait_ms
            if wait_ms:
                self._driver.clock.after(wait_ms, self._soon)
            else:
                self._soon()

    def finish(self) -> None:
        """Write what is left."""
        self._wanted = None
        self._step()

    def _soon(self, ms: int | None = None) -> None:
        if not self._scheduled:
            self._scheduled = True
            root, now = self._driver.root, self._driver.clock.now_ms
            delay = self._world.some("storage") * root.pace(now) if ms is None else ms
            self._driver.clock.after(int(delay), self._scheduled_step)

    def _scheduled_step(self) -> None:
        driver = self._driver
        if driver.asleep:
            driver.clock.at(driver.asleep_ms, self._scheduled_step)
            return
        self._scheduled = False
        if driver.alive and driver.stopped is None:
            self._step()

    def _step(self) -> None:
        driver, root = self._driver, self._driver.root
        records, admitted = list(self._commits), None
        due = self._wanted is not None and driver.clock.now_ms >= self._due_ms
        if self._wanted is not None and due and self._world.has_more(self._wanted):
            admitted = Admitted(self._wanted, driver.clock.now_ms, self._slices())
            records.append(admitted)
        try:
            root.append(driver.generation, driver.clock.now_ms, records)
        except StorageFailed as error:
            self._failing_since = self._failing_since or driver.clock.now_ms
            if driver.clock.now_ms - self._failing_since > PATIENCE_MS:
                driver.tell(on.FatalError(str(error)), 0)
            else:
                self._soon(RETRY_MS)
            return
        except Fenced as error:
            driver.tell(on.FatalError(str(error)), 0)
            return
        self._failing_since = None
        self._world.witness.appended(records)
        self._commits.clear()
        if due:
            self._wanted = None
            driver.tell(on.EpochAdmitted(admitted.epoch) if admitted else on.NothingToAdmit(finished=True), 0)

    def _slices(self) -> dict[SourceName, tuple[Offset, Offset]]:
        found = {}
        for name in self._sources:
            start = self._driver.root.ledger.offsets.get(name, Offset(0))
            found[name] = (start, Offset(start + self._world.arrived(name)))
        return found
