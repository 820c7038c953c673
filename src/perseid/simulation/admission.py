"""Admission in a simulation: ``engine.admission`` in virtual time, over sources that give what the world says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.engine.admission import Admission
from perseid.storage.records import Admitted, Committed, Partitioned, Record
from perseid.vocabulary import Epoch, Offset, OperatorName, SourceName, UnitName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver


@dataclass(frozen=True, slots=True)
class SimulatedInput:
    """A source that has rows for so many epochs."""

    driver: SimulatedDriver
    name: SourceName

    def end(self, start: Offset) -> Offset:
        return start if self.finished(start) else Offset(start + self.driver.world.arrived(self.name))

    def finished(self, start: Offset) -> bool:
        return not self.driver.world.has_more(Epoch(self.driver.root.ledger.last_admitted + 1))

    @property
    def pending(self) -> bool:
        return not self.finished(Offset(0))  # when it gave nothing: what it has is on its way

    @property
    def grows(self) -> bool:
        return False


class SimulatedLedger:
    """The ledger on the root, as one driver reads and writes it."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._root, self._witness = driver, driver.root, driver.world.witness

    @property
    def last_admitted(self) -> Epoch:
        return self._root.ledger.last_admitted

    @property
    def last_time_ms(self) -> int:
        return self._root.ledger.last_time_ms

    @property
    def ended(self) -> bool:
        return self._root.ledger.ended

    def committed(self, unit: UnitName) -> Epoch:
        return self._root.ledger.committed.get(unit, Epoch(0))

    def offset(self, source: SourceName) -> Offset:
        return self._root.ledger.offsets.get(source, Offset(0))

    @property
    def trimmed_to(self) -> Epoch:
        return self._root.ledger.base.epoch

    @property
    def partitioned(self) -> Mapping[OperatorName, Partitioned]:
        return self._root.ledger.partitioned

    def admitted(self, epoch: Epoch) -> Admitted | None:
        return self._root.admitted(epoch)

    def event_times_ms(self, epoch: Epoch) -> Mapping[OperatorName, int]:
        return self._root.ledger.event_times_ms(epoch)

    def trim(self, epoch: Epoch) -> None:
        driver = self._driver
        self._root.reach(driver.clock.now_ms)
        self._root.trim(driver.generation, epoch)
        self._witness.trimmed(epoch)
        driver.world.trimmed(epoch)

    def append(self, *records: Record) -> None:
        driver = self._driver
        self._root.append(driver.generation, driver.clock.now_ms, list(records))
        self._witness.appended(records)


class SimulatedAdmission:
    """Calls the machine when something is new, and when it wants to be called."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world = driver, driver.world
        sources = [name for unit in driver.topology.units for name in unit.sources]
        self.machine = Admission(
            {name: SimulatedInput(driver, name) for name in sources},
            [unit.name for unit in driver.topology.units],
            driver.ledger,
            driver.world.scenario.admission,
            lambda newest_ms: max(driver.clock.now_ms, newest_ms),
            lambda at_ms, idle: driver.reports.book.timer_due(at_ms, {}),
        )
        self._due_ms: int | None = None  # the next step

    def commit(self, unit: UnitName, epoch: Epoch) -> None:
        self.machine.commit(Committed(epoch, unit, self._driver.event_times_ms.pop((unit, epoch), {})))
        self._soon()

    def admit(self, epoch: Epoch) -> None:
        self.machine.want(epoch, self._driver.clock.now_ms)
        self.wait()

    def wait(self) -> None:
        """For the rows of the epoch that is wanted."""
        wanted, now = self.machine.wanted, self._driver.clock.now_ms
        if wanted is None:
            return
        wait_ms = self._world.next_slice_ms(wanted)
        if wait_ms:
            self.machine.not_before(now + wait_ms)
            self._at(now + wait_ms)
        else:
            self._soon()

    def abandon(self) -> None:
        for event in self.machine.abandon():
            self._driver.tell(event, 0)

    def _soon(self) -> None:
        """As soon as storage has answered."""
        now = self._driver.clock.now_ms
        at_ms = now + int(self._world.some("storage") * self._driver.root.pace(now))
        if self._due_ms is None or at_ms < self._due_ms:
            self._at(at_ms)

    def _at(self, at_ms: int) -> None:
        self._due_ms = at_ms
        self._driver.clock.at(at_ms, self._step, at_ms)

    def _step(self, due_ms: int) -> None:
        driver = self._driver
        if driver.asleep:
            driver.clock.at(driver.asleep_ms, self._step, due_ms)
            return
        if due_ms != self._due_ms or not driver.alive or driver.stopped is not None:
            return
        now = driver.clock.now_ms
        self._due_ms = None
        for event in self.machine.step(now):
            driver.tell(event, 0)
        next_ms = self.machine.next_ms(now)
        if next_ms is not None:
            self._at(next_ms)
