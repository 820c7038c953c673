"""Second copies in a simulated world: state on its way between hosts, rows that tasks keep, the first answer, hearts.

Tasks run on any machine where a host of their driver lives, and keep their rows there (``channel.kept_rows``). A task that asks a shard
with a standby does what ``spark.first_answer`` does, in one step: whoever may answer does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perseid.engine import messages as msg
from perseid.engine.host_effects import Captured, Received
from perseid.engine.shard import Refusal
from perseid.engine.unit_job import TaskFailed
from perseid.recovery.pulse import Pulse
from perseid.scaling.routing import Route
from perseid.simulation.checkers import broken
from perseid.simulation.disk import Came
from perseid.simulation.values import State
from perseid.standby.beats import Beats
from perseid.vocabulary import Epoch, HostId, ShardId

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver
    from perseid.simulation.host import Host

STATE_BYTES = 1


class Stuck(Exception):
    """A host does not answer; the task waits."""


class CopyLines:
    """What one host sends to others and takes from them."""

    def __init__(self, driver: SimulatedDriver, host: Host) -> None:
        self._driver, self._world, self._host = driver, driver.world, host

    def send(self, command: msg.SendCopy, shards: Sequence[Captured]) -> None:
        """It takes its time, and may come to nothing."""
        self._world.clock.after(self._world.some("copy"), self._arrive, command, tuple(shards))

    def _arrive(self, command: msg.SendCopy, shards: Sequence[Captured]) -> None:
        now, other = self._world.clock.now_ms, self._driver.hosts.all[HostId(command.to.port)]
        mine = self._host.machine
        if not self._host.alive:
            return
        if now < mine.asleep_ms:
            self._world.clock.at(mine.asleep_ms, self._arrive, command, shards)
            return
        gone = not other.alive or now < other.machine.cut_off_ms or now < mine.cut_off_ms
        if gone or self._world.mishap(0.5):
            self._driver.hosts.word(self._host, msg.CopyNotSent(command.number, "the connection broke"))
            return
        if now < other.machine.asleep_ms:
            self._world.clock.at(other.machine.asleep_ms, self._arrive, command, shards)
            return
        from perseid.simulation.host import Live

        received = []
        for one in shards:
            image: Any = one.image
            before, state, answers = image
            live = Live(one.entry.shard, state) if one.entry.since is None else None
            received.append(Received(one.entry, live, (before, state), dict(answers)))
        entries = tuple([one.entry for one in shards])
        message = msg.CopyShards(command.number, entries, command.back, command.answers)
        refusal = other.logic.take_copy(message, received, STATE_BYTES, 1)
        if refusal:
            self._driver.hosts.word(self._host, msg.CopyNotSent(command.number, refusal))

    def read_rows(
        self, shard: ShardId, epoch: Epoch, peers: Sequence[msg.Address]
    ) -> tuple[msg.ApplyEpoch, Came] | None:
        key, machines = (self._host.generation, shard), [self._host.machine]
        for peer in peers:
            other = self._driver.hosts.all[HostId(peer.port)]
            if other.alive and other.machine.well(self._world.clock.now_ms):
                machines.append(other.machine)
        for machine in machines:
            found = machine.disk.rows.get(key, {}).get(epoch)
            if found is not None:
                return found
        return None

    def forget_rows(self, upto: Mapping[ShardId, Epoch]) -> None:
        for shard, last in upto.items():
            kept = self._host.machine.disk.rows.get((self._host.generation, shard), {})
            for epoch in [epoch for epoch in kept if epoch <= last]:
                del kept[epoch]


class Hearts:
    """The processes beside hosts that say how these are. Where a machine sleeps, every other one is awake and says so."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._beats = driver, Beats()
        self._due_ms: dict[HostId, tuple[int, int]] = {}  # and how often

    def wanted(self, host: HostId, beat_ms: int) -> None:
        now_ms = self._driver.clock.now_ms
        self._due_ms[host] = now_ms + beat_ms, beat_ms
        self._beats.watch(host, beat_ms, now_ms)

    def look(self, now_ms: int) -> None:
        """What has come, and what has not."""
        for host, (due_ms, beat_ms) in list(self._due_ms.items()):
            one = self._driver.hosts.all[host]
            if not one.alive or one.dropped:
                del self._due_ms[host]
                self._beats.gone(host)
            elif due_ms <= now_ms:
                self._due_ms[host] = now_ms + beat_ms, beat_ms
                asleep, cut_off = now_ms < one.machine.asleep_ms, now_ms < one.machine.cut_off_ms
                if not cut_off and (not asleep or host % 2):
                    for event in self._beats.arrived(host, Pulse.STOPPED if asleep else Pulse.IDLE, now_ms):
                        self._driver.handle(event)
        for event in self._beats.tick(now_ms):
            self._driver.handle(event)


def keep_rows(driver: SimulatedDriver, request: msg.ApplyEpoch, rows: Came) -> None:
    """A task keeps what it is about to send, on its machine; now and then its disk is full."""
    world = driver.world
    hosts = [host for host in driver.hosts.living.values() if host.alive and host.machine.well(world.clock.now_ms)]
    if hosts and not world.mishap(0.2):
        disk = world.random.choice(hosts).machine.disk
        disk.rows.setdefault((driver.generation, request.shard), {})[request.epoch] = request, rows


def first_answer(driver: SimulatedDriver, route: Route, request: msg.Request, rows: Came | None) -> State:
    """Of the places of a shard. Raises ``TaskFailed`` or ``Stuck``."""
    world, now = driver.world, driver.clock.now_ms
    if isinstance(request, msg.ApplyEpoch) and rows is not None:
        keep_rows(driver, request, rows)
    found: list[State] = []
    lost, waits = 0, False
    for number, id in enumerate(route.places):
        host = driver.hosts.all[id]
        if not host.alive or now < host.machine.cut_off_ms:
            lost += 1
            continue
        if now < host.machine.asleep_ms:
            waits = True
            if number == 0 and isinstance(request, msg.ApplyEpoch) and rows is not None and world.mishap(4):
                driver.clock.after(world.random.choice([5, 100]), driver.hosts.ask_late, host, request, rows)
            continue
        said = host.logic.ask(request, rows)
        if not isinstance(said, Refusal):
            found.append(said.answer or ())
            if route.patience_ms:
                break
        elif said.kind == "suspended":
            waits = True
        elif said.kind == "stale":
            lost += 1
        else:
            raise TaskFailed(said.kind, said.message, host=None, shard=request.shard)
    if len(set(found)) > 1:
        broken("copies", f"shard {request.shard}: two copies gave different answers to epoch {request.epoch}")
    if found:
        return found[0]
    if waits:
        raise Stuck
    raise TaskFailed("host", f"host {route.places[0]} cannot be reached", host=route.places[0], shard=request.shard)
