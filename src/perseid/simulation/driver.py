"""A simulated driver: carries out the controller's commands in virtual time and tells it what came of them (``driver.shell``).

One driver is one generation on the root. It may die with everything it started, or sleep and wake when another has taken over;
then the root refuses whatever it still wants to write.

Invariant: nothing is done for a driver that is dead or has stopped; what is due while it sleeps is done when it wakes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, assert_never

from perseid.driver.backups import HostBackups
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import messages as msg
from perseid.engine import notices
from perseid.engine.host_messages import event_of, snapshot_message, standby_message
from perseid.engine.notices import Outcome
from perseid.engine.root_history import history, partitioned, usable
from perseid.engine.settings import RootHistory
from perseid.engine.shard import Refusal
from perseid.engine.stream_store import StreamStore
from perseid.engine.unit_job import TaskFailed
from perseid.graph.topology import UnitShape
from perseid.scaling.routing import RoutingTable
from perseid.simulation.admission import SimulatedAdmission, SimulatedLedger
from perseid.simulation.copies import Hearts, Stuck, first_answer
from perseid.simulation.disk import Came
from perseid.simulation.host import Host, Link
from perseid.simulation.hosts import Hosts
from perseid.simulation.jobs import EpochJob, Job, ReplayJob, rebuilt
from perseid.simulation.loads import Loads
from perseid.simulation.oracle import in_order, outlets
from perseid.simulation.reports import SimulatedReports
from perseid.simulation.root import slices
from perseid.simulation.storage_worker import SimulatedStorageWorker
from perseid.simulation.streams import SimulatedStreamRows
from perseid.simulation.values import Rows, State
from perseid.storage import layout
from perseid.storage.records import Admitted
from perseid.vocabulary import Attempt, Epoch, HostId, OperatorName, ShardId, StreamName, UnitName

if TYPE_CHECKING:
    from perseid.simulation.world import World


class SimulatedDriver:
    """One driver's life."""

    def __init__(self, world: World) -> None:
        self.world, self.topology, self.clock, self.root = world, world.topology, world.clock, world.root
        self.generation = world.root.open()
        self.ledger = SimulatedLedger(self)
        self.alive, self.asleep_ms = True, 0
        self.stopped: do.StopApplication | None = None
        made_of = (world.topology, world.scenario.settings, self._history(), self.clock.now_ms)
        self.controller = world.machines_of_engine.controller(*made_of)
        self.event_log = world.event_log(self.generation)
        if self.event_log is not None:
            self.event_log.started(*made_of, date_ms=self.clock.now_ms)
        self.inputs = {
            u.name: [s.name for s in self.topology.streams if s.consumer == u.name] for u in self.topology.units
        }
        self.outputs = {
            u.name: [s.name for s in self.topology.streams if s.producer == u.name] for u in self.topology.units
        }
        self.order = {u.name: in_order(u) for u in self.topology.units}
        self.outlets = {u.name: outlets(u) for u in self.topology.units}
        self._sources = {u.name: u.sources for u in self.topology.units}
        self.jobs: dict[Attempt, Job] = {}
        self.event_times_ms: dict[tuple[UnitName, Epoch], Mapping[OperatorName, int]] = {}  # of epochs to be committed
        self.finished: dict[UnitName, Epoch] = {u.name: Epoch(0) for u in self.topology.units}
        producers = {s.name: s.producer for s in self.topology.streams}
        self.blocks = SimulatedStreamRows(
            self, lambda stream, epoch, routing: rebuilt(self, producers[stream], epoch, routing)
        )
        self.streams = StreamStore({s.name: s.preservation for s in self.topology.streams}, self.blocks)
        self.hosts = Hosts(self)
        self.hearts = Hearts(self)
        self.backups = HostBackups(
            self.topology, self.hosts.send, self._addresses, lambda *_: None, lambda: self.controller.routing
        )
        self.reports = SimulatedReports(self)
        self.admission = SimulatedAdmission(self)
        self.storage_worker = SimulatedStorageWorker(self)
        self.loads = Loads(self, world.scenario.load) if world.scenario.load is not None else None
        self.tell(on.Ticked(), 0)
        self.clock.after(world.scenario.settings.heartbeat_ms // 2, self._pulse)

    def _history(self) -> RootHistory:
        """What it finds on the root, and writes down before it begins."""
        root, ledger = self.root, self.ledger
        found = usable(root.readable(), ledger.trimmed_to)
        divided = partitioned(self.topology.operators, ledger.partitioned, found)
        ledger.append(*divided)
        first = layout.first_checkpoint(root.newest_folder(), self.generation)
        return history(found, ledger, divided, first, {})

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
        world, now = self.world, self.clock.now_ms
        if now < self.asleep_ms:
            self.clock.at(self.asleep_ms, self.handle, event)
            return
        commands = self.decide(event)
        world.log.append((now, self.generation, event))
        if commands:
            self._carry_out(commands)
        elif world.checked:
            self.controller.check()

    def decide(self, event: on.Event) -> tuple[Outcome, ...]:
        """Give it to the controller, now."""
        now_ms = self.clock.now_ms
        outcomes = self.controller.handle(event, now_ms)
        if self.event_log is not None:
            self.event_log.handled(event, now_ms, outcomes)
            if self.event_log.wants_state:
                self.event_log.state(self.controller, now_ms, date_ms=now_ms)
        return outcomes

    def heard(self, host: Host, what: msg.FromHost | Link) -> None:
        """A host said something, or its connection did."""
        if isinstance(what, on.HostRegistered | on.HostDisconnected):
            self.handle(what)
            return
        if isinstance(what, msg.Report) and not host.dropped:
            self.reports.heard(host, what)
        elif isinstance(what, msg.BackedUp) and not host.dropped:
            self.backups.told(host.id, what)
        elif isinstance(what, msg.LoadMeasured) and self.loads is not None:
            self.loads.told(host.id, what)
        event = event_of(host.id, what)
        if event is not None:
            self.handle(event)

    def _addresses(self) -> dict[HostId, msg.Address]:
        return {host.id: host.address for host in self.hosts.living.values() if not host.dropped}

    def _carry_out(self, commands: tuple[Outcome, ...]) -> None:
        self.controller.check()
        now, generation = self.clock.now_ms, self.generation
        tell, commanded = self.world.log.append, self.world.witness.commanded
        for command in commands:
            tell((now, generation, command))
            commanded(generation, command)
            self._do(command)

    def _pulse(self) -> None:
        """Hearts beat, time passes."""
        if not self.alive or self.stopped is not None:
            return
        if not self.asleep:
            self.hosts.beat(self.clock.now_ms)
            self.hearts.look(self.clock.now_ms)
            for host in self.hosts.living.values():
                stands = host.logic.stands() if host.alive and host.machine.well(self.clock.now_ms) else None
                if stands is not None:
                    self.hosts.word(host, stands)
            self.handle(on.Ticked())
            if self.fenced and self.world.random.random() < 0.2:  # as when the lease is renewed
                self.handle(on.FatalError("another driver has taken over"))
        self.clock.after(self.world.pulse_ms(self), self._pulse)

    def _do(self, command: Outcome) -> None:
        match command:
            case do.TakeSnapshots():
                self.world.snapshots_commanded(command)
                self.hosts.send(command.host, snapshot_message(command, layout.snapshot))
            case do.RunEpoch(attempt=attempt):
                self.jobs[attempt] = EpochJob(self, command)
            case do.ReleaseStream(stream, epoch):
                self._release(stream, epoch)
            case do.CommitEpoch(unit, epoch):
                self.admission.commit(unit, epoch)
            case do.AdmitEpoch(epoch):
                self.admission.admit(epoch)
            case do.AbandonAdmission():
                self.admission.abandon()
            case do.ReplayShards(attempt=attempt):
                self.jobs[attempt] = ReplayJob(self, command)
            case do.CancelUnit(_, attempt):
                self.clock.after(self.world.some("message"), self._cancel, attempt)
            case do.StartHost():
                self.hosts.start()
            case do.DropHost(host):
                self.hosts.drop(self.hosts.all[host])
                self.backups.lost(host)
            case do.RestoreShards(host):
                self.reports.book.forget([route.shard for route, _, _ in command.shards])
                backup = self.backups.address
                self.hosts.send(host, self.hosts.homes.restore(command, self.topology.unit_of, backup))
            case do.AskSizes():
                self.hosts.broadcast(command)
            case do.Quieten():
                self.hosts.broadcast(command)
            case do.CatchUpShards(host):
                self.hosts.send(host, self.hosts.homes.catch_up(command))
            case do.DropShards(host, shards):
                self.hosts.send(host, msg.Drop(shards))
            case do.ReleaseHost(host):
                self.hosts.release(self.hosts.all[host])
                self.backups.lost(host)
            case do.SendCopy(host) | do.AnswerShards(host) | do.SuspendShards(host) | do.StartHeart(host):
                message = standby_message(command, self._addresses())
                if message is not None:
                    self.hosts.send(host, message)
                elif isinstance(command, do.SendCopy):
                    self.tell(on.CopyNotTaken(command.number, f"host {command.to} is gone"), 1)
            case do.ForgetRows(upto):
                self.hosts.broadcast(msg.ForgetRows(upto))
            case do.WritePartition():
                self.world.witness.divided(self, command)
                self.storage_worker.submit(command)
            case notices.ScaleGivenUp():
                self.reports.book.keep_only(self.controller.routing.routes)
            case notices.Scaled(request, before):
                self.reports.book.keep_only(self.controller.routing.routes)
                self.world.scaled(len(request.slots), before)
            case do.AskToScale(proposal):
                if self.loads is not None:
                    self.loads.ask(proposal)
            case do.Answered():
                pass  # nobody waits for it
            case do.ResetStreams(inflight, finished):
                self.streams.reset(inflight)
                self.finished.update(finished)
            case do.OfferInflight(inflight):
                self.streams.offer(inflight)
            case notices.RecoveryStarted(reason):
                self.reports.book.keep_only(self.controller.routing.routes)
                self.world.recovery_began(self.generation, reason)
            case notices.RecoveryFinished(plan, duration_ms):
                self.world.recovery_ended(plan, duration_ms)
            case notices.Notice():
                pass  # for people
            case do.StopApplication():
                self._stop(command)
            case do.SaveInflight() | do.CommitCheckpoint() | do.AbortCheckpoint() | do.Trim():
                self.storage_worker.submit(command)
            case _:
                assert_never(command)

    def _release(self, stream: StreamName, epoch: Epoch) -> None:
        """At once: what is done later could take from what a recovery has put back meanwhile."""
        newest = max(self.root.manifests, default=None)
        manifest = self.root.manifests[newest] if newest is not None else None
        if not self.fenced:
            self.world.witness.released(stream, epoch, self.finished, manifest)
        self.streams.release(stream, epoch)

    def _cancel(self, attempt: Attempt) -> None:
        if attempt in self.jobs:
            self.jobs[attempt].cancelled = True

    def _stop(self, command: do.StopApplication) -> None:
        self.stopped = command
        self.world.done = self.world.driver is self
        self.admission.machine.finish()
        self.storage_worker.finish()
        self.hosts.end()

    def die(self) -> None:
        """The driver's process is gone, and with it everything in its memory."""
        self.alive = False
        self.hosts.end()

    # -- what jobs ask --------------------------------------------------------------------------------------------

    def reach(self, routing: RoutingTable, shards: Iterable[ShardId]) -> None:
        """Raise ``TaskFailed`` if a task cannot reach one of these shards' hosts, ``Stuck`` if it has to wait for it."""
        now = self.clock.now_ms
        alone = [shard for shard in shards if not routing.routes[shard].standbys]
        for id, shard in {routing.routes[shard].host: shard for shard in alone}.items():
            assert id is not None
            host = self.hosts.all[id]
            if not host.alive or now < host.machine.cut_off_ms:
                raise TaskFailed("host", f"host {id} cannot be reached", host=id, shard=shard)
            if now < host.machine.asleep_ms:
                raise Stuck

    def ask(self, routing: RoutingTable, request: msg.Request, rows: Came | None) -> State:
        """Ask a shard. Raises ``TaskFailed`` or ``Stuck``."""
        if routing.routes[request.shard].standbys:
            return first_answer(self, routing.routes[request.shard], request, rows)
        id = routing.routes[request.shard].host
        assert id is not None
        host = self.hosts.all[id]
        now, machine = self.clock.now_ms, host.machine
        if not host.alive or now < machine.cut_off_ms:
            raise TaskFailed("host", f"host {id} cannot be reached", host=id, shard=request.shard)
        if now < machine.asleep_ms:
            raise Stuck
        found = host.logic.ask(request, rows)
        if isinstance(found, Refusal):
            raise TaskFailed(found.kind, found.message, host=None, shard=request.shard)
        return found.answer or ()

    def ask_late(self, routing: RoutingTable, request: msg.ApplyEpoch, rows: Came) -> None:
        """A task that outlived its job asks when nobody waits for the answer."""
        id = routing.routes[request.shard].host
        assert id is not None
        host = self.hosts.all[id]
        self.clock.after(self.world.random.choice([5, 100, 2_000]), self.hosts.ask_late, host, request, rows)

    def admitted(self, epoch: Epoch) -> Admitted:
        admitted = self.root.admitted(epoch)
        if admitted is None:
            self.root.check(self.generation)  # another driver may have trimmed it since
        assert admitted is not None, f"epoch {epoch} is not in the ledger"
        return admitted

    def source_rows(self, unit: UnitName, epoch: Epoch) -> list[Rows]:
        names = self._sources[unit]
        return slices(self.admitted(epoch), names) if names else []

    def stream_rows(self, stream: StreamName, epoch: Epoch, routing: RoutingTable, *, again: bool = False) -> Rows:
        """An epoch of a stream for a job under this routing."""
        return self.blocks.of(self.streams.read(stream, epoch, routing, again=again))

    def pace_of(self, routing: RoutingTable, unit: UnitShape) -> float:
        """A job is as slow as its slowest host."""
        now = self.clock.now_ms
        if now >= self.world.slow_until_ms:
            return 1.0
        ids = {route.host for operator in unit.operators for route in routing.of(operator)}
        return max((self.hosts.all[id].machine.pace(now) for id in ids if id is not None), default=1.0)

    def unit_finished(self, unit: UnitName, epoch: Epoch, event_times_ms: Mapping[OperatorName, int]) -> None:
        self.finished[unit] = epoch
        self.event_times_ms[(unit, epoch)] = event_times_ms
        self.world.epoch_finished(unit, epoch)

    def replayed(self, unit: UnitName, shards: frozenset[ShardId], first: Epoch, last: Epoch) -> None:
        self.world.replayed(self, unit, shards, first, last)
