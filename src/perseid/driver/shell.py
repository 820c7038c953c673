"""The Spark shell: carries out the controller's commands with threads, sockets, files and Spark jobs, and tells it what came of them.

One thread runs the controller; one per unit runs its jobs; one admits epochs; one does the slow work on storage; one per
host listens. They speak through the controller's queue and share no decisions.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from perseid.checkpoint.schemes import Scheme
from perseid.clocks import EpochTime, steady_ms, wall_ms
from perseid.driver.admission import AdmissionThread
from perseid.driver.backups import HostBackups, HostsToldOfCheckpoints
from perseid.driver.event_recorder import EventRecorder
from perseid.driver.hosts import HostLink, Hosts
from perseid.driver.journal_writer import JournalWriter, Shape
from perseid.driver.loads import Loads
from perseid.driver.reports import Report, Reports
from perseid.driver.room import Room, engine_settings
from perseid.driver.root_history import check_owner, keep_before, own_root, read_history
from perseid.driver.root_requests import RootRequests
from perseid.driver.same_fate import advice_on_place
from perseid.driver.scale_requests import ScaleRequests
from perseid.driver.settings import Settings
from perseid.driver.state_requests import StateRequests
from perseid.driver.storage_worker import RootCheckpoints, StorageWorker
from perseid.driver.unit_workers import Workers
from perseid.driver.watermarks import EventTimes, event_time_key, event_times, inputs_of_sources
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import messages as msg
from perseid.engine import notices
from perseid.engine.controller import Controller
from perseid.engine.event_time_alignment import EventTimeAlignment
from perseid.engine.host_messages import event_of, snapshot_message, standby_message
from perseid.engine.progress import Progress
from perseid.engine.storage_steps import StorageSteps
from perseid.engine.stream_store import StreamStore
from perseid.errors import PerseidError, PerseidWarning, StorageFailed
from perseid.graph.graph import Graph
from perseid.graph.outline import outline
from perseid.graph.topology import Topology
from perseid.host.apply import OperatorSpec
from perseid.metrics.progress_feed import ProgressFeed
from perseid.metrics.query_progress import QueryProgress
from perseid.scaling.routing import RoutingTable
from perseid.sources.source import MalformedSource
from perseid.spark.arrow_batches import bound_by_rows
from perseid.spark.compile import Compiled, compile_graph
from perseid.spark.frames import Frames
from perseid.spark.own_session import sibling_of
from perseid.spark.query_listeners import QueryListeners
from perseid.spark.streams import SparkStreamRows
from perseid.spark.task_slots import SlotWatch
from perseid.spark.unit_worker import UnitWorker
from perseid.standby.of_graph import standby_of
from perseid.storage import layout
from perseid.storage.journal import Journal
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints
from perseid.storage.records import Admitted, Committed
from perseid.storage.store import STAGING, Store
from perseid.vocabulary import (
    Attempt,
    CheckpointId,
    Epoch,
    HostId,
    Offset,
    OperatorName,
    ShardId,
    SourceName,
    StreamName,
    UnitName,
)

LEASE_RENEWAL_S = 1.0
TICK_S = 0.02
GRACE_S = 12.0  # for an end that is not waited for any longer


class Shell:
    """Everything with a side effect."""

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        store: Store,
        settings: Settings,
        own_schemes: Mapping[UnitName, Scheme],
        topology: Topology,
        graph: Graph,
        room: Room,
    ) -> None:
        self.store, self.settings, self.topology, self.graph, self.spark = store, settings, topology, graph, spark
        self.own_schemes = own_schemes
        self.ended = threading.Event()
        self.error: str | None = None
        self.unsaved: str | None = None  # why the last checkpoint failed
        self._ending = threading.Lock()  # taken for good by whoever ends it
        self._events: queue.SimpleQueue[on.Event] = queue.SimpleQueue()
        self._advised: set[str] = set()
        self._undo = contextlib.ExitStack()
        try:
            self._open(name, room)
        except BaseException:
            self._undo.close()
            raise

    def _open(self, name: str, room: Room) -> None:
        graph, store, settings, spark = self.graph, self.store, self.settings, self.spark
        self.lease = Lease.acquire(store, owner=name, now_ms=wall_ms, timeout=settings.lease_timeout)
        self._undo.callback(self.lease.release)
        # Before anything is read: from here on no driver before this one can change what is read.
        self.store = store = store.fenced(STAGING, self.lease.fence)
        change = check_owner(store, graph, settings.allow_removed)
        journal = Journal(store, self.lease.generation, now_ms=wall_ms, limits=settings.journal_limits)
        self.reports = Reports()
        self.journal_writer = JournalWriter(name, journal, self.reports)
        self._undo.callback(self.journal_writer.close)
        self.event_recorder = EventRecorder(store, self.lease.generation, settings.journal_limits, self.journal_writer)
        self._undo.callback(self.event_recorder.close)
        self.ledger = Ledger.open(store, self.lease)
        self.ledger_lock = threading.Lock()
        self.checkpoints = Checkpoints(store, self._unreadable, lease=self.lease)
        self.checkpoints.discard_unfinished()
        for source in graph.sources:
            source.source.open(spark, layout.source(SourceName(source.name)), store)
            self._undo.callback(source.source.close)
        for sink in graph.sinks:
            sink.sink.open(spark, store)
            self._undo.callback(sink.sink.close)
        self._master = spark.conf.get("spark.master", "local") or "local"
        own = self.own = sibling_of(spark)
        self.compiled: Compiled = compile_graph(spark, own, graph)
        if own is not spark:
            bound_by_rows(own, self.compiled.schemas.values())
        for warning in self.compiled.warnings:
            self._advise(warning)
        self.event_times = EventTimes(graph, self.ledger, self.compiled.timed)
        self.alignment = self._aligned()
        past = read_history(store, graph, self.ledger, self.checkpoints)
        if change is not None:
            keep_before(store, graph, change, past)
            for text in change.told:
                self._advise(f"the code has changed: {text}")
        own_root(store, graph)
        self.loads = Loads()
        self.state_requests = StateRequests(graph, store, self.post)
        self.scale_requests = ScaleRequests(graph, self.loads, lambda: self.controller.routing, self.post)
        self.root_requests = RootRequests(self.scale_requests, self.state_requests, self.post)
        scalable = self.scale_requests.scalable
        engine = engine_settings(settings, room, self.own_schemes, scalable, standby_of(graph))
        self.controller = Controller(self.topology, engine, past, steady_ms())
        self.event_recorder.started(self.controller)
        secret = secrets.token_bytes(32)
        self.hosts = Hosts(
            own,
            store,
            secret,
            self._specs(),
            settings.heartbeat.ms,
            settings.keep_input,
            self.post,
            self.journal_writer.host_ready,
            self._host_said,
            name,
        )
        self.slot_watch = SlotWatch(spark, name, lambda: self.hosts.waiting, self.journal_writer.warning)
        self._undo.callback(self.slot_watch.end)
        self.backups = HostBackups(
            self.topology,
            self.hosts.send,
            lambda: self.hosts.addresses,
            lambda host, path, size: self.journal_writer.notice(notices.BackedUp(host, path, size)),
            lambda: self.controller.routing,
        )
        rows = SparkStreamRows(own, store, self.compiled.schemas, self._again)
        kinds = {s.name: s.preservation for s in self.topology.streams}
        self.streams = StreamStore(kinds, rows, alone=threading.Lock())
        self._frames = {
            u.name: Frames(
                spark, own, graph, u, self.compiled, secret, self.streams.read, self.event_times.watermark_ms
            )
            for u in graph.units
        }
        self.workers = Workers([UnitName(u.name) for u in graph.units], self._worker)
        self.admission = AdmissionThread(
            {SourceName(s.name): s.source for s in graph.sources},
            [UnitName(u.name) for u in graph.units],
            self.ledger,
            self.ledger_lock,
            settings,
            EpochTime(settings.clock),
            lambda at_ms, idle: self.reports.timer_due(at_ms, self.event_times.next_watermarks_ms(idle)),
            self.post,
            lambda epoch: self.journal_writer.admitted(epoch, self.admission.counts(epoch), self.admission.last_ms),
            self.event_times if self.compiled.timed else None,
            self.alignment,
        )
        steps = StorageSteps(
            self.topology,
            RootCheckpoints(graph.name, self.lease, self.checkpoints, self.journal_writer, wall_ms),
            self.ledger,
            self.streams,
            HostsToldOfCheckpoints(self.hosts.broadcast, self.backups),
            self.admission.write_commits,
            self._trim_source,
            self.post,
            lambda c, size: self.journal_writer.notice(notices.InflightSaved(c.checkpoint, c.stream, c.epoch, size)),
        )
        self.storage_worker = StorageWorker(steps, self.journal_writer, store)
        self.journal_writer.feed = self._progress_feed(name)
        self.journal_writer.app_started(self.lease.generation, self.controller, past, room.hosts, self._shape())

    def _progress_feed(self, name: str) -> ProgressFeed:
        """Who hears of epochs: the user's function, and Spark's listeners where there are any."""
        query = QueryProgress(name, self.store.root, self.lease.generation)
        spark, own = QueryListeners(self.spark, query), self.settings.on_progress
        feed = ProgressFeed(
            query,
            [spark.tell] if own is None else [own, spark.tell],
            wanted=spark.wanted if own is None else lambda: True,
            ended=spark.ended,
        )
        self._undo.callback(feed.close)
        return feed

    def _shape(self) -> Shape:
        """What a picture of the application needs, for the journal."""
        scheme = self.settings.checkpoint
        return Shape(outline(self.graph), scheme.name, scheme.period.ms)

    def begin(self) -> None:
        """From here on it runs."""
        threading.Thread(target=self._loop, name="perseid-controller", daemon=True).start()
        self.post(on.Ticked())

    def post(self, event: on.Event) -> None:
        self._events.put(event)

    def _advise(self, message: str) -> None:
        """Tell the user of something in the application, once, however many hosts see it."""
        if message not in self._advised:
            self._advised.add(message)
            self.journal_writer.warning(message)
            warnings.warn(message, PerseidWarning, stacklevel=2)

    def _unreadable(self, checkpoint: CheckpointId, error: Exception) -> None:
        self.journal_writer.notice(notices.CheckpointFailed(checkpoint, str(error)))
        self.journal_writer.say(f"checkpoint {checkpoint} cannot be used: {error}")

    def _specs(self) -> tuple[OperatorSpec, ...]:
        return tuple(
            OperatorSpec(
                OperatorName(node.name),
                node.operator,
                dict(node.key),
                self.compiled.operators[node.name].key_types,
                node.input_names,
                node.event_time,
                self.compiled.operators[node.name].output_arrow,
                OperatorName(node.name) in self.topology.retaining,
            )
            for node in self.graph.operators
        )

    def _worker(self, name: UnitName) -> UnitWorker:
        return UnitWorker(
            self.spark,
            self.graph,
            next(u for u in self.graph.units if u.name == name),
            self.topology.unit(name),
            self.topology.retaining,
            self._frames[name],
            self.streams,
            self.ledger,
            self.lease,
            self.reports,
            lambda: self.hosts.addresses,
            self.post,
            self._unit_finished,
            self.journal_writer.malformed,
        )

    def _aligned(self) -> EventTimeAlignment | None:
        if self.settings.align is None:
            return None
        inputs = inputs_of_sources(self.graph, self.compiled.timed)
        alignment = EventTimeAlignment(self.settings.align.ms, inputs)
        before = self.ledger.event_times_ms(self.ledger.last_admitted)
        alignment.seen((), before, [name for names in inputs.values() for name in names])
        return alignment

    def _timed_inputs(self, unit: UnitName) -> list[OperatorName]:
        """The inputs with event time of a unit's operators, as the ledger names them."""
        mine = {node.name for node in self.graph.operators if node.unit == unit}
        timed = self.compiled.timed.items()
        return [event_time_key(operator, name) for operator, names in timed if operator in mine for name in names]

    # -- what others ask ------------------------------------------------------------------------------------------

    def _rows(self, admitted: Admitted) -> int | None:
        counts = [s.source.rows(*admitted.slice_of(SourceName(s.name))) for s in self.graph.sources]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _trim_source(self, source: SourceName, start: Offset) -> None:
        next(s.source for s in self.graph.sources if s.name == source).trim(start)

    def _again(self, stream: StreamName, epoch: Epoch, routing: RoutingTable) -> DataFrame:
        """A stream's epoch once more, from the answers that these hosts keep."""
        unit = self.graph.node(stream).unit
        admitted = self.ledger.admitted(epoch)
        assert admitted is not None
        frames = self._frames[unit].recall(admitted, routing, self.hosts.addresses)
        return frames.node_to_run(stream)

    def _unit_finished(self, unit: UnitName, admitted: Admitted, reports: Mapping[ShardId, Report]) -> None:
        self.event_times.finished(unit, admitted, reports)
        if self.alignment is not None:
            taken = [source for source, (start, end) in admitted.slices.items() if start < end]
            self.alignment.seen(taken, event_times(reports), self._timed_inputs(unit))
        self.journal_writer.finished(unit, admitted, reports, self._rows(admitted), len(self.topology.units))

    def progress(self) -> Progress:
        sources = [s.source for s in self.graph.sources]
        malformed = sum(s.malformed_lines for s in sources if isinstance(s, MalformedSource))
        waits = [self.slot_watch.text, self.admission.trouble, self.controller.trouble]
        seen = self.journal_writer.progress(self.controller, self.hosts.links, "; ".join(filter(None, waits)))
        abandoned = self.ended.is_set() and self.error is not None  # the controller may not know
        return replace(seen, malformed_lines=malformed, phase="failed" if abandoned else seen.phase)

    # -- hosts' messages ------------------------------------------------------------------------------------------

    def _host_said(self, link: HostLink, message: msg.FromHost) -> None:
        match message:
            case msg.Report():
                self.reports.arrived(message)
            case msg.Warned(text):
                self.journal_writer.warning(text)
            case msg.Advised(text):
                with contextlib.suppress(PerseidWarning):  # one that is an error must not end the thread of a host
                    self._advise(text)
            case msg.Restored(_, _, sizes, _, copies):
                self.journal_writer.restored(sizes)
                if copies:
                    self.journal_writer.notice(notices.ShardsRestored(link.id, copies))
            case msg.BackedUp():
                self.backups.told(link.id, message)
            case msg.GaveWay(checkpoint, ms):
                self.journal_writer.notice(notices.SnapshotAwaited(link.id, checkpoint, ms))
            case msg.Saved():
                self.journal_writer.snapshot_written(message)
            case msg.LoadMeasured():
                self.loads.told(message)
                load = self.loads.host_load(link.id, message)
                self.journal_writer.host_load(load, message)
                self.post(on.LoadReported(load))
                for hot in self.loads.hot_keys(self.controller.routing):
                    self.journal_writer.hot_key(hot)
            case (
                msg.Heartbeat()
                | msg.NotRestored()
                | msg.CaughtUp()
                | msg.Forked()
                | msg.NotSaved()
                | msg.Sizes()
                | msg.CopyTaken()
                | msg.CopyNotSent()
                | msg.CopyMissing()
                | msg.CopiesStand()
                | msg.AnswerDiffered()
                | on.SizeHalved()
                | on.SizeTurned()
            ):
                pass  # for the controller alone
            case _:
                assert_never(message)
        event = event_of(link.id, message)
        if event is not None:
            self.post(event)

    # -- the controller's thread ----------------------------------------------------------------------------------

    def _loop(self) -> None:
        renewed = ticked = time.monotonic()
        while not self.ended.is_set():
            try:
                try:
                    self._handle(self._events.get(timeout=TICK_S))
                except queue.Empty:
                    ticked = 0.0
                now = time.monotonic()
                if now - ticked > TICK_S:  # also when there is always something to hear
                    ticked = now
                    self._handle(on.Ticked())
                if now - renewed > LEASE_RENEWAL_S:
                    renewed = now
                    with contextlib.suppress(
                        StorageFailed
                    ):  # a full disk: nobody else can take the lease there, either
                        self.lease.renew()
                        self.root_requests.look(self.store)
            except Exception as error:
                message = str(error) if isinstance(error, PerseidError) else f"{type(error).__name__}: {error}"
                self._fail(message)

    def _handle(self, event: on.Event) -> None:
        self.journal_writer.event(event)
        now_ms = steady_ms()
        commands = self.controller.handle(event, now_ms)
        self.event_recorder.handled(event, now_ms, commands, self.controller)
        for command in commands:
            self.journal_writer.command(command)
            advice = advice_on_place(command, self._master)
            if advice is not None:
                with contextlib.suppress(PerseidWarning):  # one that is an error must not end the controller
                    self._advise(advice)
        self._carry_out(commands)

    def _fail(self, message: str) -> None:
        """Nothing can be done about it. Should the controller not even take that in, the application ends without it."""
        try:
            self._handle(on.FatalError(message))
        except Exception:
            self._begin_end(message)

    def _carry_out(self, commands: tuple[notices.Outcome, ...]) -> None:
        wanted, finished = None, False
        for command in commands:
            match command:
                case do.CommitEpoch(unit, epoch):
                    finished = True
                    self.admission.commit(Committed(epoch, unit, self.event_times.of_epoch(unit, epoch)))
                case do.AdmitEpoch(epoch):
                    wanted = epoch
                case do.AbandonAdmission():
                    self.admission.abandon()
                case do.RunEpoch() | do.ReplayShards():
                    self.workers.submit(command)
                case do.CancelUnit(unit, attempt):
                    self.workers.cancel(unit, attempt)
                case do.StartHost():
                    self.hosts.launch()
                case do.DropHost(host):
                    self.hosts.drop(host)
                    self.backups.lost(host)
                case do.RestoreShards():
                    self._restore(command)
                case do.CatchUpShards(host):
                    self.hosts.send(host, self.hosts.homes.catch_up(command))
                case do.DropShards(host, shards):
                    self.hosts.send(host, msg.Drop(shards))
                case do.ReleaseHost(host):
                    self.hosts.release(host)
                    self.backups.lost(host)
                case do.AskToScale(proposal):
                    self.scale_requests.ask(proposal.operator, proposal.shards, proposal.reason)
                case notices.Scaled() | notices.ScaleGivenUp():
                    self.reports.keep_only(self.controller.routing.routes)
                    self.scale_requests.told(command)
                case do.Answered():
                    self.state_requests.told(command)
                case do.SendCopy(host) | do.AnswerShards(host) | do.SuspendShards(host) | do.StartHeart(host):
                    self._tell_of_copies(host, command)
                case do.ForgetRows(upto):
                    self.hosts.broadcast(msg.ForgetRows(upto))
                case do.TakeSnapshots():
                    self.hosts.send(command.host, snapshot_message(command, layout.snapshot))
                case do.ReleaseStream(stream, epoch):
                    self.streams.release(stream, epoch)  # here and now: late, it would take from what a reset put back
                case do.ResetStreams(inflight):
                    self.event_times.reset()
                    self.streams.reset(inflight)
                case do.OfferInflight(inflight):
                    self.streams.offer(inflight)
                case do.StopApplication(error, unsaved):
                    self._begin_end(error, unsaved)
                case do.AskSizes():
                    self.hosts.broadcast(command)
                case do.Quieten():
                    self.hosts.broadcast(command)
                case notices.RecoveryStarted():
                    self.reports.keep_only(self.controller.routing.routes)
                case notices.Notice():
                    pass  # the journal has it
                case do.SaveInflight() | do.CommitCheckpoint() | do.AbortCheckpoint() | do.WritePartition() | do.Trim():
                    self.storage_worker.submit(command)
                case _:
                    assert_never(command)
        if finished or wanted is not None:  # one append for both
            self.admission.go_on(wanted)

    def _tell_of_copies(
        self, host: HostId, command: do.SendCopy | do.AnswerShards | do.SuspendShards | do.StartHeart
    ) -> None:
        if isinstance(command, do.StartHeart):
            self.hosts.pulses.wanted(host, command.beat_ms)
        message = standby_message(command, self.hosts.addresses)
        if message is not None:
            self.hosts.send(host, message)
        elif isinstance(command, do.SendCopy):
            self.post(on.CopyNotTaken(command.number, f"host {command.to} is gone"))

    def _restore(self, command: do.RestoreShards) -> None:
        self.reports.forget(route.shard for route, _, _ in command.shards)
        message = self.hosts.homes.restore(command, self.topology.unit_of, self.backups.address)
        self.hosts.send(command.host, message)

    # -- the end --------------------------------------------------------------------------------------------------

    def _running(self, unit: UnitName) -> Attempt | None:
        state = self.controller.pipeline.units[unit]
        return None if state.idle else state.attempt

    def _begin_end(self, error: str | None, unsaved: str | None = None) -> None:
        if self._ending.acquire(blocking=False):
            threading.Thread(target=self._end, args=(error, unsaved), name="perseid-end", daemon=True).start()

    def _end(self, error: str | None, unsaved: str | None) -> None:
        """Every step has a limit, or is left behind by ``abandon``."""
        with contextlib.suppress(Exception):
            self.workers.stop(self._running)
            self.admission.stop()
            self.storage_worker.stop()
        with contextlib.suppress(Exception):
            self.hosts.stop()
        with contextlib.suppress(Exception):
            self.workers.join()
            self.journal_writer.notice(notices.AppStopped(error or "finished", unsaved))
        with contextlib.suppress(Exception):
            self._undo.close()
        self._ended(error, unsaved)

    def _ended(self, error: str | None, unsaved: str | None = None) -> None:
        if not self.ended.is_set():
            self.error, self.unsaved = error, unsaved
            self.ended.set()
            self.scale_requests.ended(error)
            self.state_requests.ended(error)

    def abandon(self, reason: str) -> None:
        """End it whatever is stuck: the controller, a unit's job, Spark. Its hosts are given back, at the latest by force.

        What was admitted and not finished is done by the next start. Where a step of the end hangs, the lease is not released: it runs
        out, since nobody renews it.
        """
        self._begin_end(reason)
        if not self.ended.wait(GRACE_S):
            self.hosts.kill()
            self._ended(reason)
