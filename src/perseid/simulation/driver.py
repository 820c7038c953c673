"""A simulated driver: carries out the controller's commands in virtual time and tells it what came of them (``spark.shell``).

One driver is one generation on the root. It may die with everything it started, or sleep and wake when another has taken over;
then the root refuses whatever it still wants to write.

Invariant: messages to and from one host keep their order, as on one connection.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.shard import Refusal
from perseid.errors import CorruptData, StorageFailed
from perseid.graph.topology import UnitShape
from perseid.scaling.routing import Route, RoutingTable
from perseid.simulation.admission import Admission
from perseid.simulation.host import Host, Request
from perseid.simulation.jobs import EpochJob, Job, JobFailed, ReplayJob, Stuck, failure_of, rebuilt
from perseid.simulation.keeper import Keeper
from perseid.simulation.root import Snapshot, slices
from perseid.simulation.streams import Streams
from perseid.simulation.values import Rows, State, share
from perseid.storage.records import Admitted
from perseid.vocabulary import Attempt, Epoch, HostId, ShardId, StreamName, UnitName

if TYPE_CHECKING:
    from perseid.simulation.world import World

SNAPSHOT_BYTES_PER_ROW = 16


class SimulatedDriver:
    """One driver's life."""

    def __init__(self, world: World) -> None:
        self.world, self.topology, self.clock, self.root = world, world.topology, world.clock, world.root
        self.generation = world.root.open()
        self.alive, self.asleep_ms = True, 0
        self.stopped: do.StopApplication | None = None
        self.controller = world.machines_of_engine.controller(
            world.topology, world.scenario.settings, world.root.past(), self.clock.now_ms
        )
        self.inputs = {
            u.name: [s.name for s in self.topology.streams if s.consumer == u.name] for u in self.topology.units
        }
        self.outputs = {
            u.name: [s.name for s in self.topology.streams if s.producer == u.name] for u in self.topology.units
        }
        self._durable = {s.name for s in self.topology.streams if s.durable}
        self._sources = {u.name: u.sources for u in self.topology.units}
        self._retaining = frozenset().union(*(u.retaining for u in self.topology.units))
        self.hosts: dict[HostId, Host] = {}
        self.living: dict[HostId, Host] = {}  # whose heart beats
        self.silent = 0  # hosts that should beat and do not
        self.jobs: dict[Attempt, Job] = {}
        self.finished: dict[UnitName, Epoch] = {u.name: Epoch(0) for u in self.topology.units}
        self.streams = Streams(
            self.topology, self.root, lambda unit, epoch, routing: rebuilt(self, unit, epoch, routing)
        )
        self.keeper, self.admission = Keeper(self), Admission(self)
        self._next_host = 1
        self._homes: dict[ShardId, list[Host]] = {}
        self._deferred: list[on.Event] = []
        self.tell(on.Ticked(), 0)
        self.clock.after(world.scenario.settings.heartbeat_ms // 2, self._pulse)

    # -- the controller -------------------------------------------------------------------------------------------

    @property
    def asleep(self) -> bool:
        return self.clock.now_ms < self.asleep_ms

    @property
    def fenced(self) -> bool:
        """Has another driver taken the root over? It finds out when it wants to write there."""
        return self.generation != self.root.generation

    def tell(self, event: on.Event, ms: int) -> None:
        """The controller will hear of this."""
        self.clock.after(ms, self.handle, event)

    def handle(self, event: on.Event) -> None:
        if not self.alive or self.stopped is not None:
            return
        if self.asleep:
            self.clock.at(self.asleep_ms, self.handle, event)
            return
        world = self.world
        if isinstance(event, on.SnapshotsForked):
            world.snapshots_taken(event)
        commands = self.controller.handle(event, self.clock.now_ms)
        world.log.append((self.clock.now_ms, self.generation, event))
        if world.checked and not commands:
            self.controller.check()
        self._carry_out(commands)

    def _carry_out(self, commands: tuple[do.Command, ...]) -> None:
        world = self.world
        if commands:
            self.controller.check()
        for command in commands:
            world.log.append((self.clock.now_ms, self.generation, command))
            world.witness.commanded(self.generation, command)
            self._do(command)

    def _pulse(self) -> None:
        """Hearts beat, time passes."""
        if not self.alive or self.stopped is not None:
            return
        if not self.asleep:
            self._beat(self.clock.now_ms)
            self.handle(on.Ticked())
            if self.fenced and self.world.random.random() < 0.2:  # as when the lease is renewed
                self.handle(on.FatalError("another driver has taken over"))
        self.clock.after(self.world.pulse_ms(self), self._pulse)

    def _beat(self, now_ms: int) -> None:
        """Hosts that are well are heard, also those that were given up and do not know it yet."""
        for id in [id for id, host in self.living.items() if not host.alive and host.dropped]:
            del self.living[id]
        hosts = self.living.values()
        silent = [h for h in hosts if not h.dropped and (not h.alive or now_ms < h.machine.well_ms)]
        self.silent = len(silent)
        detector = self.controller.detector
        if self.world.instant and not silent and not detector.suspects:
            detector.paused(now_ms)  # what many heartbeats say, said once
            return
        for host in hosts:
            if host.alive and now_ms >= host.machine.well_ms:
                self.controller.handle(host.heartbeat, now_ms)  # commands nothing

    def _do(self, command: do.Command) -> None:
        match command:
            case do.TakeSnapshots(host):
                self.world.snapshots_asked(command)
                self.send(self.hosts[host], self._snapshot, self.hosts[host], command)
            case do.RunEpoch(attempt=attempt):
                self.jobs[attempt] = EpochJob(self, command)
            case do.CommitEpoch(unit, epoch):
                self.admission.commit(unit, epoch)
            case do.AdmitEpoch(epoch):
                self.admission.admit(epoch)
            case do.ReplayShards(attempt=attempt):
                self.jobs[attempt] = ReplayJob(self, command)
            case do.CancelUnit(_, attempt):
                self.clock.after(self.world.some("message"), self._cancel, attempt)
            case do.StartHost():
                self._start_host()
            case do.DropHost(host):
                self._drop(self.hosts[host])
            case do.RestoreShards(host):
                self.send(self.hosts[host], self._restore, self.hosts[host], command)
            case do.AskSizes() | do.Quieten():
                for one in list(self.living.values()):
                    if isinstance(command, do.AskSizes):
                        self.send(one, self._ask_sizes, one, command)
                    else:
                        self.send(one, self._quieten, one)
            case do.CatchUpShards(host):
                self.send(self.hosts[host], self._catch_up, self.hosts[host], command)
            case do.DropShards(host, shards):
                self.send(self.hosts[host], self.hosts[host].forget, shards)
            case do.ReleaseHost(host):
                self._drop(self.hosts[host])
            case do.WritePartition():
                self.world.witness.divided(self, command)
                self.keeper.submit(command)
            case do.ScaleEnded(request, before):
                self.world.scaled(len(request.slots), before)
            case do.CheckpointBegan() | do.Noted() | do.AskToScale() | do.ScaleBegan() | do.ScaleGivenUp():
                pass  # for the journal
            case do.ReleaseStream(stream, epoch):
                self.keeper.release(stream, epoch)
            case do.ResetStreams(inflight, finished):
                self.streams.reset(inflight)
                self.finished.update(finished)
            case do.RecoveryBegan(reason):
                self.world.recovery_began(self.generation, reason)
            case do.RecoveryEnded(plan, duration_ms):
                self.world.recovery_ended(plan, duration_ms)
            case do.StopApplication():
                self._stop(command)
            case _:
                self.keeper.submit(command)

    def _cancel(self, attempt: Attempt) -> None:
        if attempt in self.jobs:
            self.jobs[attempt].cancelled = True

    def _stop(self, command: do.StopApplication) -> None:
        self.stopped = command
        self.admission.finish()
        self.keeper.finish()
        self.end_hosts()

    def die(self) -> None:
        """The driver's process is gone, and with it everything in its memory."""
        self.alive = False
        self.end_hosts()

    def end_hosts(self) -> None:
        """Hosts end when they see that their driver is gone; those asleep see it later."""
        for host in self.hosts.values():
            self.clock.after(self.world.random.randint(0, 100), self._end, host)

    def _end(self, host: Host) -> None:
        if self.clock.now_ms < host.machine.asleep_ms:
            self.clock.at(host.machine.asleep_ms + self.world.random.randint(0, 100), self._end, host)
        elif host.alive:
            self.world.process_ended(host)

    # -- hosts ----------------------------------------------------------------------------------------------------

    def _start_host(self) -> None:
        self.clock.after(self.world.some("start"), self._place_host)

    def _place_host(self) -> None:
        if not self.alive or self.stopped is not None:
            return
        machine = self.world.free_machine()
        if machine is None:
            self.world.waiting.append(self)  # as a Spark task without a slot waits
            return
        if self.world.mishap(0.5):
            self.tell(on.HostStartFailed("Spark could not run its task"), 200)
            return
        log = self.world.machines_of_engine.shard_log
        host = Host(HostId(self._next_host), machine, self.generation, log, self.world.cells, self._retaining)
        self._next_host += 1
        self.hosts[host.id] = self.living[host.id] = host
        self.world.process_started(host)
        self.word(host, on.HostRegistered(host.id))

    def _drop(self, host: Host) -> None:
        """Given up: its connection is closed. It ends when it sees that, and does what it likes until then."""
        host.dropped = True
        self.clock.after(self.world.random.randint(0, 50), self._end, host)

    def lost(self, host: Host, silently: bool) -> None:
        """A host's process is gone; unless power or network went with it, its connection says so."""
        if not silently:
            self.word(host, on.HostDisconnected(host.id, "its connection broke"))

    def send(self, host: Host, action: Any, *args: Any) -> None:
        """A message to a host."""
        delay_ms = 0 if self.world.instant else self.world.some("message")
        host.inbound_ms = max(host.inbound_ms, self.clock.now_ms + delay_ms)
        self.clock.at(host.inbound_ms, self._deliver, host, action, args)

    def _deliver(self, host: Host, action: Any, args: tuple[Any, ...]) -> None:
        until = max(host.machine.asleep_ms, host.machine.cut_off_ms)
        if self.clock.now_ms < until:
            self.clock.at(until, self._deliver, host, action, args)
        elif host.alive:
            action(*args)

    def word(self, host: Host, event: on.Event) -> None:
        """A message from a host. One that was given up may still be heard: what it says must not count."""
        if self.world.instant:
            self._hear(host, event)
            return
        host.outbound_ms = max(host.outbound_ms, self.clock.now_ms + self.world.some("message"))
        self.clock.at(host.outbound_ms, self._hear, host, event)

    def _hear(self, host: Host, event: on.Event) -> None:
        if self.clock.now_ms < host.machine.cut_off_ms:
            self.clock.at(host.machine.cut_off_ms, self._hear, host, event)
        else:
            self.handle(event)

    def _restore(self, host: Host, command: do.RestoreShards) -> None:
        ms = self.world.some("restore") * host.machine.pace(self.clock.now_ms) * self.root.pace(self.clock.now_ms)
        host.inbound_ms = max(host.inbound_ms, self.clock.now_ms + int(ms))  # what comes after it waits for it
        self.clock.at(host.inbound_ms, self._deliver, host, self._restored, (host, command))

    def _restored(self, host: Host, command: do.RestoreShards) -> None:
        try:
            for route, parts, epoch in command.shards:
                state = host.restore(
                    self.root, self.clock.now_ms, command.version, route, parts, epoch, command.retain_from
                )
                if not self.fenced:
                    self.world.witness.loaded(route, epoch, state)
        except (CorruptData, StorageFailed) as error:
            corrupt, storage = isinstance(error, CorruptData), isinstance(error, StorageFailed)
            self.word(host, on.RestoreFailed(host.id, command.version, str(error), corrupt, storage))
        else:
            reached = {route.shard: self._caught_up(host, route.shard, command) for route, _, _ in command.shards}
            self.word(host, on.ShardsRestored(host.id, command.version, reached=reached))

    def _caught_up(self, host: Host, shard: ShardId, command: do.RestoreShards) -> Epoch:
        """By the input that its last home on this machine kept, as far as it is there and whole."""
        homes = self._homes.setdefault(shard, [])
        last = next((h for h in reversed(homes) if h.machine is host.machine and h is not host), None)
        homes.append(host)
        kept = last.shards[shard].kept if last is not None and shard in last.shards else {}

        def found(epoch: Epoch) -> Request | None:
            return kept.get(epoch) if self.world.random.random() < self.world.scenario.kept else None

        upto = command.upto.get(self.topology.unit_of(shard.operator), Epoch(0))
        return host.catch_up(shard, upto, found)

    def _catch_up(self, host: Host, command: do.CatchUpShards) -> None:
        """By the input that the shards before them keep on the same machine, as far as it is there and whole."""

        def found(route: Route, epoch: Epoch) -> Request | None:
            mine = self.world.cells.within(route.shard.operator, route.slots)
            sources = [r for r in command.before if r.slots[0] < route.slots[1] and route.slots[0] < r.slots[1]]
            kept = []
            for source in sources:
                home = self.hosts[source.host] if source.host is not None else None
                there = home is not None and home.machine is host.machine and source.shard in home.shards
                request = home.shards[source.shard].kept.get(epoch) if home is not None and there else None
                if request is None or self.world.random.random() >= self.world.scenario.kept:
                    return None
                kept.append(request)
            rows, missing = kept[0].rows, sum(request.missing for request in kept)
            came = share(rows, mine, self.world.cells.count(route.shard.operator)) - missing
            return kept[0]._replace(shard=route.shard, cells=mine, came=came, missing=missing)

        reached = {r.shard: host.catch_up(r.shard, command.upto, functools.partial(found, r)) for r in command.shards}
        self.word(host, on.ShardsCaughtUp(host.id, command.version, reached))

    def covered(self, cuts: Mapping[UnitName, Epoch]) -> None:
        """A checkpoint is committed: hosts let go of the input it covers."""
        for host in self.living.values():
            for shard, held in host.shards.items():
                upto = cuts[self.topology.unit_of(shard.operator)]
                held.kept = {epoch: request for epoch, request in held.kept.items() if epoch > upto}

    # -- sizes ----------------------------------------------------------------------------------------------------

    def _ask_sizes(self, host: Host, ask: do.AskSizes) -> None:
        mine = [h.watch for shard, h in host.shards.items() if ask.shards is None or shard in ask.shards]
        if mine:
            self.word(host, on.SizesReported(host.id, ask.query, tuple(watch.answer(ask) for watch in mine)))

    def _quieten(self, host: Host) -> None:
        for held in host.shards.values():
            held.watch.quieten()

    def _sized(self, host: Host, request: Request) -> None:
        """A shard says how large it is, if it has to: sizes rise and fall, each shard's in its own time."""
        size = 100 * ((request.epoch + 3 * request.shard.index) % 7)
        for notice in host.shards[request.shard].watch.sized(self.clock.now_ms, size):
            self.word(host, notice)

    def _snapshot(self, host: Host, command: do.TakeSnapshots) -> None:
        now = self.clock.now_ms
        if not host.standing_at(command.shards, command.epoch):
            self.word(host, on.CheckpointFailed(command.checkpoint, "a shard is not there", host.id))
            return
        states = [(route, host.shards[route.shard].state) for route in command.shards]
        forked = on.SnapshotsForked(host.id, command.checkpoint, command.unit)
        pace = host.machine.pace(now) * self.root.pace(now)
        if not command.synchronous:
            self.word(host, forked)
        last = 0
        for route, state in states:
            last += int(self.world.some("snapshot") * pace)
            self.clock.after(last, self._write, host, command, route, state)
        if command.synchronous:
            self.clock.after(last, self._deliver, host, self.word, (host, forked))

    def _write(self, host: Host, command: do.TakeSnapshots, route: Route, state: State) -> None:
        """A forked child goes on when its host is killed; it sleeps and falls with the machine."""
        now, machine, shard = self.clock.now_ms, host.machine, route.shard
        if now < machine.asleep_ms:
            self.clock.at(machine.asleep_ms, self._write, host, command, route, state)
            return
        if now < machine.down_ms or (command.synchronous and not host.alive):
            return
        path = f"{command.checkpoint}/{shard.operator}-{shard.index}"
        size = 64 + SNAPSHOT_BYTES_PER_ROW * self.world.scenario.epoch_rows
        try:
            self.root.write_snapshot(now, path, state, size)
        except StorageFailed as error:
            if host.alive:
                self.word(host, on.CheckpointFailed(command.checkpoint, str(error), host.id))
            return
        if host.alive:
            saved = Snapshot(shard.operator, shard.index, route.slots, command.epoch, path, state, size)
            self.word(host, on.SnapshotWritten(command.checkpoint, shard, saved))

    # -- what jobs ask --------------------------------------------------------------------------------------------

    def reach(self, routing: RoutingTable, shards: Iterable[ShardId]) -> None:
        """Raise ``JobFailed`` if a task cannot reach one of these shards' hosts, ``Stuck`` if it has to wait for it."""
        now = self.clock.now_ms
        for id in {routing.routes[shard].host for shard in shards}:
            assert id is not None
            host = self.hosts[id]
            if not host.alive or now < host.machine.cut_off_ms:
                raise JobFailed("host", f"host {id} cannot be reached", (id,))
            if now < host.machine.asleep_ms:
                raise Stuck

    def ask(self, routing: RoutingTable, request: Request) -> State:
        """Ask a shard. Raises ``JobFailed`` or ``Stuck``."""
        id = routing.routes[request.shard].host
        assert id is not None
        host = self.hosts[id]
        now, machine = self.clock.now_ms, host.machine
        if not host.alive or now < machine.cut_off_ms:
            raise JobFailed("host", f"host {id} cannot be reached", (id,))
        if now < machine.asleep_ms:
            raise Stuck
        answer = host.ask(request)
        if isinstance(answer, Refusal):
            raise failure_of(answer, request.shard)
        if self.world.sized and not request.recall:
            self._sized(host, request)
        return answer

    def ask_late(self, routing: RoutingTable, request: Request) -> None:
        """A task that outlived its job asks when nobody waits for the answer."""
        id = routing.routes[request.shard].host
        assert id is not None
        host = self.hosts[id]
        self.clock.after(self.world.random.choice([5, 100, 2_000]), self._deliver, host, host.ask, (request,))

    def admitted(self, epoch: Epoch) -> Admitted:
        admitted = self.root.admitted(epoch)
        if admitted is None:
            self.root.check(self.generation)  # another driver may have trimmed it since
        assert admitted is not None, f"epoch {epoch} is not in the ledger"
        return admitted

    def source_rows(self, unit: UnitName, epoch: Epoch) -> list[Rows]:
        names = self._sources[unit]
        return slices(self.admitted(epoch), names) if names else []

    def durable(self, stream: StreamName) -> bool:
        return stream in self._durable

    def pace_of(self, routing: RoutingTable, unit: UnitShape) -> float:
        """A job is as slow as its slowest host."""
        now = self.clock.now_ms
        if now >= self.world.slow_until_ms:
            return 1.0
        ids = {route.host for operator in unit.operators for route in routing.of(operator)}
        return max((self.hosts[id].machine.pace(now) for id in ids if id is not None), default=1.0)

    def unit_finished(self, unit: UnitName, epoch: Epoch) -> None:
        self.finished[unit] = epoch
        self.world.epoch_finished(unit, epoch)

    def replayed(self, unit: UnitName, shards: frozenset[ShardId], first: Epoch, last: Epoch) -> None:
        self.world.replayed(self, unit, shards, first, last)
