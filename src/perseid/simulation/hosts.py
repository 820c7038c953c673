"""Hosts as a simulated driver has them: started, told, heard, given up (``driver.hosts``).

Invariant: messages to and from one host keep their order, as on one connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from perseid.engine import events as on
from perseid.engine.host import HostMachine
from perseid.engine.host_messages import Home, Homes
from perseid.engine.messages import ApplyEpoch, FromHost, Stop, ToHost
from perseid.simulation.disk import Came
from perseid.simulation.host import Host, HostWorld, Link
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
        self.homes = Homes()
        self.silent = 0  # hosts that should beat and do not
        self._posted: list[tuple[Host, ToHost]] = []  # messages that arrive at once

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
            driver.tell(on.HostStartFailed("Spark could not run its task"), 0)
            return
        id = HostId(len(self.all) + 1)
        host = Host(id, machine, driver.generation)
        effects, log = HostWorld(driver, host), world.machines_of_engine.shard_log
        host.logic = HostMachine(effects, self._retaining, shard_log=log)
        self.all[id] = self.living[id] = host
        self.homes.came(Home(id, host.address.machine, host.folder))
        world.process_started(host)
        self._arrives(host, on.HostRegistered(id, str(machine.number), str(machine.number)))

    def drop(self, host: Host) -> None:
        """Given up: its connection is closed. It ends when it sees that, and does what it likes until then."""
        self._given_up(host)
        self._clock.after(self._world.random.randint(0, 50), self.ends, host)

    def release(self, host: Host) -> None:
        """It holds nothing any more, and may end."""
        self.send(host.id, Stop(for_good=False))
        self._given_up(host)

    def _given_up(self, host: Host) -> None:
        host.dropped = True
        self.homes.gone(host.id)

    def lost(self, host: Host, *, silently: bool) -> None:
        """A process is gone; unless power or network went with it, its connection says so."""
        if silently:
            self.vanished(host)
        elif self.all.get(host.id) is host:
            self._arrives(host, on.HostDisconnected(host.id, "its connection broke"))

    def vanished(self, host: Host) -> None:
        """Its machine does not answer any more, which the driver's own notices in a while (``channel.connection``)."""
        if self.all.get(host.id) is host:
            self._driver.tell(on.HostDisconnected(host.id, "its machine does not answer"), VANISHED_MS)

    def end(self) -> None:
        """Hosts end when they see that their driver is gone; those asleep see it later."""
        for host in self.all.values():
            self._clock.after(self._world.random.randint(0, 100), self.ends, host)

    def ends(self, host: Host) -> None:
        if self._clock.now_ms < host.machine.asleep_ms:
            self._clock.at(host.machine.asleep_ms + self._world.random.randint(0, 100), self.ends, host)
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
        if self._world.instant:
            self._driver.decide(on.HeartbeatsArrived(frozenset(unheard)))
            return
        for host in hosts:
            if host.id not in unheard:
                self._driver.decide(host.heartbeat)  # commands nothing

    # -- messages -------------------------------------------------------------------------------------------------

    def broadcast(self, message: ToHost) -> None:
        """To all that are not given up."""
        for host in tuple(self.living.values()):
            if not host.dropped:
                self.send(host.id, message)

    def send(self, id: HostId, message: ToHost) -> None:
        now, host = self._clock.now_ms, self.all[id]
        if host.dropped:
            return
        if self._world.instant and host.inbound_ms <= now:
            if not self._posted:
                self._clock.after(0, self._deliver_posted)
            self._posted.append((host, message))
            return
        delay_ms = 0 if self._world.instant else self._world.some("message")
        host.inbound_ms = max(host.inbound_ms, now + delay_ms)
        self._clock.at(host.inbound_ms, self._deliver, host, message)

    def _deliver_posted(self) -> None:
        posted, self._posted = self._posted, []
        for host, message in posted:
            self._deliver(host, message)

    def _deliver(self, host: Host, message: ToHost) -> None:
        """It does what it is told as soon as it is awake, can be reached and has done what came before."""
        machine, now = host.machine, self._clock.now_ms
        if host.inbox or host.busy or (now < machine.well_ms and now < machine.deaf_until_ms):
            host.inbox.append(message)
            if len(host.inbox) == 1 and not host.busy:
                self._clock.at(machine.deaf_until_ms, self._awake, host)
        elif host.alive:
            host.logic.handle(message)

    def _awake(self, host: Host) -> None:
        if self._clock.now_ms < host.machine.deaf_until_ms:
            self._clock.at(host.machine.deaf_until_ms, self._awake, host)
            return
        while host.inbox and not host.busy:
            message = host.inbox.pop(0)
            if host.alive:
                host.logic.handle(message)

    def finish_work(self, host: Host, work: Callable[[], None]) -> None:
        """What it was busy with is done, if it is awake and reaches the root."""
        if self._clock.now_ms < host.machine.deaf_until_ms:
            self._clock.at(host.machine.deaf_until_ms, self.finish_work, host, work)
            return
        host.busy = False
        if host.alive:
            work()
            self._awake(host)

    def ask_late(self, host: Host, request: ApplyEpoch, rows: Came) -> None:
        """A task that outlived its job asks when nobody waits for the answer."""
        if self._clock.now_ms < host.machine.deaf_until_ms:
            self._clock.at(host.machine.deaf_until_ms, self.ask_late, host, request, rows)
        elif host.alive:
            host.logic.ask(request, rows)

    def word(self, host: Host, message: FromHost) -> None:
        """A message from a host. One that was given up may still be heard: what it says must not count."""
        self._arrives(host, message)

    def _arrives(self, host: Host, what: FromHost | Link) -> None:
        if self._world.instant:
            self._hear(host, what)
            return
        host.outbound_ms = max(host.outbound_ms, self._clock.now_ms + self._world.some("message"))
        self._clock.at(host.outbound_ms, self._hear, host, what)

    def _hear(self, host: Host, what: FromHost | Link) -> None:
        if host.outbox or self._clock.now_ms < host.machine.cut_off_ms:
            host.outbox.append(what)
            if len(host.outbox) == 1:
                self._clock.at(host.machine.cut_off_ms, self._reached, host)
        else:
            self._driver.heard(host, what)

    def _reached(self, host: Host) -> None:
        if self._clock.now_ms < host.machine.cut_off_ms:
            self._clock.at(host.machine.cut_off_ms, self._reached, host)
            return
        waiting, host.outbox = host.outbox, []
        for what in waiting:
            self._driver.heard(host, what)
