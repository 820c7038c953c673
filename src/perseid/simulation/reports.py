"""Reports of simulated shards: messages of their hosts, of which now and then one is late or lost (``engine.reports``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perseid.engine.messages import Report
from perseid.engine.reports import ReportBook
from perseid.simulation.host import Host

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

TIMER_MS = 300  # from its setting until it is due


class SimulatedReports:
    """What the hosts of one driver have reported to it."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world = driver, driver.world
        self.book: ReportBook[Report] = ReportBook()

    def heard(self, host: Host, report: Report) -> None:
        """A shard has applied an epoch, or was asked for it once more."""
        world = self._world
        if not world.mishaps or world.random.random() >= world.mishaps / 5:
            self.book.arrived(report.shard, report)
            return
        match world.random.choice(["lost", "late", "timer"]):
            case "late":
                self._driver.clock.after(world.random.choice([20, 400, 4_000]), self._late, host, report)
            case "timer":
                due_ms = self._driver.clock.now_ms + TIMER_MS
                self.book.arrived(report.shard, replace(report, next_timer_ms=due_ms))

    def _late(self, host: Host, report: Report) -> None:
        """A host that was given up is not listened to."""
        if not host.dropped and report.shard in self._driver.controller.routing.routes:
            self.book.arrived(report.shard, report)
