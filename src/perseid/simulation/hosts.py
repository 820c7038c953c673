"""Hosts as a simulated driver has them: started, told, heard, given up (``driver.hosts``).

Invariant: messages to and from one host keep their order, as on one connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perseid.engine import events as on
from perseid.simulation.host import Host
from perseid.vocabulary import HostId

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

VANISHED_MS = 11_000


class Hosts:
    """All hosts of one driver, those that are gone with them."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world, self._clock = driver, driver.world, driver.clock
        self._retaining = driver.topology.retaining
        self.all: dict[HostId, Host] = {}  # ever started
        self.living: dict[HostId, Host] = {}  # whose heart beats
        self.silent = 0  # hosts that should beat and do not
        self._posted: list[tuple[Host, Any, tuple[Any, ...]]] = []  # messages that arrive at once

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._clock.after(self._world.some("start"), self.place)

    def place(self) -> None:
        """Spark runs its task where there is room."""
        driver, world = self._driver, self._world
        if not driver.alive or driver.stopped is not None:
            return
        machine = world.free_machine()
        if machine is None:
            world.waiting.append(driver)  # as a Spark task without a slot waits
            return
        if world.mishap(0.5):
            driver.tell(on.HostStartFailed("Spark could not run its task"), 200)
            return
        id, log = HostId(len(self.all) + 1), world.machines_of_engine.shard_log
        host = Host(id, machine, driver.generation, log, self._retaining)
        self.all[id] = self.living[id] = host
        world.process_started(host)
        self.word(host, on.HostRegistered(host.id))

    def drop(self, host: Host) -> None:
        """Given up: its connection is closed. It ends when it sees that, and does what it likes until then."""
        host.dropped = True
        self._clock.after(self._world.random.randint(0, 50), self._end, host)

    def lost(self, host: Host, *, silently: bool) -> None:
        """A process is gone; unless power or network went with it, its connection says so."""
        if silently:
            self.vanished(host)
        elif self.all.get(host.id) is host:
            self.word(host, on.HostDisconnected(host.id, "its connection broke"))

    def vanished(self, host: Host) -> None:
        """Its machine does not answer any more, which the driver's own notices in a while (``channel.connection``)."""
        if self.all.get(host.id) is host:
            self._driver.tell(on.HostDisconnected(host.id, "its machine does not answer"), VANISHED_MS)

    def end(self) -> None:
        """Hosts end when they see that their driver is gone; those asleep see it later."""
        for host in self.all.values():
            self._clock.after(self._world.random.randint(0, 100), self._end, host)

    def _end(self, host: Host) -> None:
        if self._clock.now_ms < host.machine.asleep_ms:
            self._clock.at(host.machine.asleep_ms + self._world.random.randint(0, 100), self._end, host)
        elif host.alive:
            self._world.process_ended(host)

    def beat(self, now_ms: int) -> None:
        """Hosts that are well are heard, also those that were given up and do not know it yet."""
        hosts = self.living.values()
        quiet = [h for h in hosts if not h.alive or now_ms < h.deaf_ms or now_ms < h.machine.well_ms]
        unheard = {h.id for h in quiet}
        self.silent = len([h for h in quiet if not h.dropped])
        for host in quiet:
            if host.dropped and not host.alive:
                del self.living[host.id]
        controller = self._driver.controller
        if self._world.instant:
            controller.detector.heartbeats_arrived(now_ms, silent=unheard)
            return
        for host in hosts:
            if host.id not in unheard:
                self._driver.decide(host.heartbeat)  # commands nothing

    # -- messages -------------------------------------------------------------------------------------------------

    def send(self, id: HostId, action: Any, *told: Any) -> None:
        """A message to a host: what it does then, and what it is told."""
        now, host = self._clock.now_ms, self.all[id]
        args = (host, *told)
        if self._world.instant and host.inbound_ms <= now:
            if not self._posted:
                self._clock.after(0, self._deliver_posted)
            self._posted.append((host, action, args))
            return
        delay_ms = 0 if self._world.instant else self._world.some("message")
        host.inbound_ms = max(host.inbound_ms, now + delay_ms)
        self._clock.at(host.inbound_ms, self.deliver, host, action, args)

    def _deliver_posted(self) -> None:
        posted, self._posted = self._posted, []
        now = self._clock.now_ms
        for host, action, args in posted:
            if host.inbox or now < host.machine.well_ms:
                self.deliver(host, action, args)
            elif host.alive:
                action(*args)

    def deliver(self, host: Host, action: Any, args: tuple[Any, ...]) -> None:
        """It does what it is told as soon as it is awake and can be reached, one after the other."""
        machine, now = host.machine, self._clock.now_ms
        if host.inbox or (now < machine.well_ms and now < machine.deaf_until_ms):
            host.inbox.append((action, args))
            if len(host.inbox) == 1:
                self._clock.at(machine.deaf_until_ms, self._awake, host)
        elif host.alive:
            action(*args)

    def _awake(self, host: Host) -> None:
        if self._clock.now_ms < host.machine.deaf_until_ms:
            self._clock.at(host.machine.deaf_until_ms, self._awake, host)
            return
        waiting, host.inbox = host.inbox, []
        for action, args in waiting:
            if host.alive:
                action(*args)

    def word(self, host: Host, event: on.Event) -> None:
        """A message from a host. One that was given up may still be heard: what it says must not count."""
        if self._world.instant:
            if host.outbox or self._clock.now_ms < host.machine.cut_off_ms:
                self._hear(host, event)
            else:
                self._driver.handle(event)
            return
        host.outbound_ms = max(host.outbound_ms, self._clock.now_ms + self._world.some("message"))
        self._clock.at(host.outbound_ms, self._hear, host, event)

    def _hear(self, host: Host, event: on.Event) -> None:
        if host.outbox or self._clock.now_ms < host.machine.cut_off_ms:
            host.outbox.append(event)
            if len(host.outbox) == 1:
                self._clock.at(host.machine.cut_off_ms, self._reached, host)
        else:
            self._driver.handle(event)

    def _reached(self, host: Host) -> None:
        if self._clock.now_ms < host.machine.cut_off_ms:
            self._clock.at(host.machine.cut_off_ms, self._reached, host)
            return
        waiting, host.outbox = host.outbox, []
        for event in waiting:
            self._driver.handle(event)
