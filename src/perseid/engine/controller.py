"""The controller: events in, commands out. No clock, no thread, no socket, no file, no Spark.

After every event it looks at what is true now and commands what follows from it (``_advance``), so that no order of events can
make it forget something. Shells (Spark, simulation) carry the commands out and tell what came of them.

Its parts are machines of their own, none of which knows the controller: each owns its state, sees the rest as a frozen ``View``, and
returns commands and changes. The controller alone makes changes, all of them in ``_make``, and is itself changed only by ``handle``.

Invariants, checked by ``check``: a unit with lost shards runs nothing but replays; routing covers every slot; no unit is ahead of
the one above it; a checkpoint is pending only while nothing is lost; nothing is scaled while something is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from perseid.checkpoint.acknowledgements import Acknowledgements
from perseid.checkpoint.schemes import UnitSchemes
from perseid.checkpoint.size_reports import SizeReport
from perseid.engine import changes as to
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.checkpointing import Checkpointing
from perseid.engine.host_starts import HostStarts
from perseid.engine.notices import Outcome
from perseid.engine.pipeline import Pipeline
from perseid.engine.progress import Phase
from perseid.engine.recovering import Recovering
from perseid.engine.recovery_steps import RecoverySteps
from perseid.engine.scaling_steps import ScalingSteps
from perseid.engine.settings import EngineSettings, RootHistory
from perseid.engine.state_requests import StateRequestSteps
from perseid.engine.unit_ends import host_died, unit_failed
from perseid.engine.view import View
from perseid.graph.topology import Topology
from perseid.recovery.detection import Death, Detector
from perseid.scaling.bottleneck import Bottlenecks
from perseid.scaling.machine import Scaling
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.vocabulary import Attempt, Epoch, HostId, OperatorName, ShardId, UnitName

FINAL_CHECKPOINTS = 3


@dataclass(slots=True)
class Controller:
    """Decides everything that is not data."""

    topology: Topology
    settings: EngineSettings
    past: RootHistory
    now_ms: int
    phase: Phase = "starting"
    hosts: frozenset[HostId] = frozenset()
    admitting: bool = False  # an AdmitEpoch is out
    abandoning: bool = False  # and was taken back
    sources_idle: bool = False  # nothing new at the last look; the shell looks again by itself
    stopping: bool = False
    error: str | None = None
    # These may have rows in the dead letters. What sinks hold was computed without them, so every replay leaves them out, too.
    set_aside: dict[tuple[UnitName, Epoch], frozenset[OperatorName]] = field(default_factory=dict)
    final_failures: int = 0  # of the last checkpoint
    final_failure: str = ""  # and why the newest of them
    trims: list[do.Trim] = field(default_factory=list)  # wait for the end of a recovery
    oldest_epoch: Epoch = Epoch(1)
    faults: int = 0
    numbers: dict[OperatorName, int] = field(default_factory=dict)  # the highest ever given to a shard, used or not
    pipeline: Pipeline = field(init=False)
    detector: Detector = field(init=False)
    checkpoints: Checkpointing = field(init=False)
    acknowledgements: Acknowledgements = field(init=False)
    routing: RoutingTable = field(init=False)
    pool: Pool = field(init=False)
    starts: HostStarts = field(init=False)
    recovery: RecoverySteps = field(init=False)
    scale: ScalingSteps = field(init=False)
    asked: StateRequestSteps = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        self.pipeline = Pipeline(self.topology, s.queue, self.past.admitted)
        self.detector = Detector(s.heartbeat_ms)
        even = {o: numbered(even_slots(count)) for o, count in self.topology.operators.items()}
        self.routing = RoutingTable.initial({**even, **self.past.shards})
        found, shards = list(self.past.checkpoints), self.routing.routes
        self.checkpoints = Checkpointing(
            self.topology,
            UnitSchemes(s.scheme, s.unit_schemes),
            s.keep,
            self.past.next_checkpoint,
            found,
            self.now_ms,
            shards,
        )
        self.acknowledgements = Acknowledgements(self.topology)
        self._covered_now()
        self.recovery = RecoverySteps(Recovering(set(shards), True, "start", self.now_ms, step_ms=self.now_ms))
        self.scale = ScalingSteps(Bottlenecks(s.scaling, s.scalable) if s.scaling is not None else None)
        self.asked = StateRequestSteps()
        self.pool = Pool(s.hosts, s.spares, s.most_hosts)
        self.starts = HostStarts(s.hosts, s.start_timeout_ms, s.slots, self.now_ms)
        self._settle_pool()
        self.oldest_epoch = self.past.oldest_epoch
        self.set_aside = dict(self.past.set_aside)

    # -- what others may look at ----------------------------------------------------------------------------------

    @property
    def recovering(self) -> Recovering | None:
        """What is lost, and how far the way back has been gone."""
        return self.recovery.current

    @property
    def scaling(self) -> Scaling | None:
        """The scale that is on its way."""
        return self.scale.current

    @property
    def scale_replay(self) -> Attempt | None:
        """The job that feeds new shards, beside their unit's own."""
        return self.scale.attempt

    @property
    def trouble(self) -> str:
        """Why the next epoch is not to be had, in a sentence; empty while all is well."""
        said = [
            f"unit {unit!r}: epoch {state.finished + 1}, attempt {state.tries + 1}: {state.error}"
            for unit, state in self.pipeline.units.items()
            if state.tries
        ]
        return "; ".join(filter(None, [self.starts.trouble, *said, *self.recovery.trouble(self._view())]))

    def _view(self) -> View:
        """What parts may know, as of now."""
        recovery = self.recovery
        return View(
            self.now_ms,
            self.topology,
            self.settings,
            self.phase == "starting",
            self.stopping,
            self.hosts,
            self.pool,
            self.routing,
            self.pipeline,
            self.checkpoints,
            recovery.lost,
            recovery.restored,
            self.oldest_epoch,
            self.set_aside,
            self.numbers,
        )

    # -- events ---------------------------------------------------------------------------------------------------

    def handle(self, event: on.Event, now_ms: int) -> tuple[Outcome, ...]:
        """Take in one event; return what must be done."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        if self.phase in ("stopped", "failed"):
            return ()
        partial = False  # is this a part of something that is not yet whole? Then nothing follows from it yet
        match event:  # first those of which every host, or every shard, has its own
            case on.HeartbeatArrived():
                self.detector.heartbeat_arrived(event.host, self.now_ms)
                return ()  # nothing follows from it; there are more of them than of all else together
            case on.HeartbeatsArrived(silent):
                self.detector.heartbeats_arrived(self.now_ms, silent=silent)
                return ()
            case on.SnapshotWritten():
                commands = self.checkpoints.written(event)
                partial = self.checkpoints.incomplete(event.checkpoint)
            case on.SnapshotsForked():
                self.detector.work_ended(event.host, self.now_ms)
                commands = self.checkpoints.forked(event)
                partial = self.checkpoints.still_forking(event)
            case on.SizesReported():
                commands = self._sized(event)
                partial = not commands  # with the last of them a policy has something to say
            case on.LoadReported():
                commands = self._loaded(event)
                partial = not commands
            case _:
                commands = self._take_in(event)
        return commands if partial else (*commands, *self._advance())

    def _sized(self, report: SizeReport) -> tuple[Outcome, ...]:
        return self.checkpoints.sized(report, self.now_ms) if self.recovering is None else ()

    def _loaded(self, event: on.LoadReported) -> tuple[Outcome, ...]:
        wanted = self.recovering is None and not self.stopping
        return self._do(self.scale.loaded(event.load, self.routing)) if wanted else ()

    def _take_in(self, event: on.RareEvent) -> tuple[Outcome, ...]:
        match event:
            case on.SizeHalved() | on.SizeTurned():
                return self._sized(event)
            case on.Ticked():
                died = self._hosts_died(self.detector.tick(self.now_ms))
                self.error = self.error or self.starts.looked(
                    len(self.hosts), self.now_ms, starting=self.phase == "starting"
                )
                return died
            case on.HostRegistered(host):
                self.starts.registered()
                self.hosts |= {host}
                self.detector.host_registered(host, self.now_ms)
            case on.HostStartFailed(reason, hopeless):
                self.error = self.error or self.starts.failed(reason, hopeless, self.now_ms)
            case on.HostDisconnected(host, reason):
                return self._hosts_died(self.detector.lost(host, reason, self.now_ms))
            case on.EpochAdmitted(epoch):
                self.admitting, self.sources_idle = False, False
                self.pipeline.admitted = max(self.pipeline.admitted, epoch)
            case on.NothingToAdmit(finished):
                self.admitting, self.sources_idle = False, True
                if finished:
                    self.stopping = True
            case on.UnitFinished() | on.UnitFailed() | on.ReplayFinished():
                return self._unit_ended(event)
            case on.ShardsRestored(host):
                self.detector.work_ended(host, self.now_ms)
                self.scale.shards_ready(event)
                self.recovery.shards_restored(event, self.now_ms)
            case on.RestoreFailed(host):
                self.detector.work_ended(host, self.now_ms)
                scale = self._do(self.scale.restore_failed(event, self._view()))
                return (*scale, *self._do(self.recovery.restore_failed(event, self._view())))
            case on.CheckpointRequested(number):
                return self._do(self.asked.checkpoint(number, self._view()))
            case on.RestoreRequested(number, operator):
                return self._do(self.asked.restore(number, operator, self._view()))
            case on.ScaleRequested(request):
                return self._do(self.scale.requested(request, self._view()))
            case on.ShardsCaughtUp(host):
                self.detector.work_ended(host, self.now_ms)
                self.scale.shards_ready(event)
            case on.PartitionWritten():
                scale = self._do(self.scale.partition_written(event, self._view()))
                return (*scale, *self._do(self.recovery.partition_written(event, self._view())))
            case on.InflightSaved():
                return self.checkpoints.inflight_saved(event)
            case on.CheckpointFailed():
                return self._checkpoint_failed(event)
            case on.CheckpointCommitted():
                trims, following = self.checkpoints.committed(event)
                self.trims += trims
                self._covered_now()
                self.detector.trouble_ended()
                return (*following, *self._trim())
            case on.StopRequested():
                self.stopping = True
            case on.FatalError(message):
                self.error = self.error or message
            case _:
                assert_never(event)
        return ()

    def _unit_ended(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[Outcome, ...]:
        if event.attempt == self.scale.attempt:
            return self._scale_replay_ended(event)
        if not self.pipeline.is_current(event.unit, event.attempt):
            return ()
        match event:
            case on.UnitFinished(unit, epoch):
                assert not self.pipeline.units[unit].replaying
                self.acknowledgements.done(unit, self.pipeline.finished(unit))
                return (do.CommitEpoch(unit, epoch), *self.released())
            case on.ReplayFinished(unit):
                self.pipeline.ended(unit)
                self.recovery.replay_finished(unit)
                return ()
            case on.UnitFailed():
                return self._do(unit_failed(event, self._view()))
            case _:
                assert_never(event)

    def _scale_replay_ended(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[Outcome, ...]:
        """Its shards are nobody's yet: nothing is lost with them."""
        failure = event if isinstance(event, on.UnitFailed) else None
        if failure is not None:
            for host in failure.hosts:
                self.detector.suspected(host)
            self.error = failure.message if failure.kind == "fenced" else self.error
        return self._do(self.scale.replay_ended(failure, self._view()))

    def _checkpoint_failed(self, event: on.CheckpointFailed) -> tuple[Outcome, ...]:
        host, message = event.host, event.message
        if host is not None:
            self.detector.work_ended(host, self.now_ms)
        commands = self.checkpoints.failed(event)
        if commands is None:
            return ()
        if self.stopping:
            self.final_failures, self.final_failure = self.final_failures + 1, message
        deaths = self.detector.trouble_reported(host, message, self.now_ms) if host is not None else ()
        return (*commands, *self._hosts_died(deaths))

    # -- changes --------------------------------------------------------------------------------------------------

    def _do(self, steps: Iterable[to.Step]) -> tuple[Outcome, ...]:
        """Make the changes that a part wants, in their order; return the commands among them, and those that follow."""
        commands: list[Outcome] = []
        for step in steps:
            if isinstance(step, to.Change):
                commands += self._make(step)
            else:
                commands.append(step)
        return tuple(commands)

    def _make(self, change: to.Change) -> list[Outcome]:
        """Make one change."""
        commands: list[Outcome] = []
        match change:
            case to.Failed(message):
                self.error = message
            case to.Routed(table):
                self.routing = table
            case to.ShardsNumbered(operator, highest):
                self.numbers[operator] = highest
            case to.PoolGrown(hosts):
                self.pool = self.pool.growing(hosts)
            case to.PoolSettled():
                self._settle_pool()
            case to.ShardsLost(shards, reason, everything):
                commands += self._lose(shards, reason, everything=everything)
            case to.EverythingBack(divided):
                commands += self._go_on(divided)
            case to.Repartitioned():
                commands += self.checkpoints.repartitioned(self.routing.routes, self.now_ms)
            case to.HostSuspected(host):
                self.detector.suspected(host)
            case to.HostUnreachable(host, reason):
                commands += self._hosts_died(self.detector.lost(host, reason, self.now_ms))
            case to.HostWorks(host, state_bytes):
                self.detector.work_began(host, self.now_ms, state_bytes)
            case to.HostReleased(host):
                self.hosts -= {host}
                self.detector.lost(host, "released", self.now_ms)
            case to.UnitCancelled(unit):
                self.pipeline.cancelled(unit, self.now_ms)
                commands.append(do.CancelUnit(unit, self.pipeline.units[unit].attempt))
            case to.UnitStands(unit, state):
                self.pipeline.units[unit] = state
            case to.UnitsPutBack(base):
                self._put_back(base)
            case to.ReplayBegan(unit, last, attempt):
                begun = self.pipeline.started(unit, last, replaying=True)
                assert begun == attempt
            case to.ReplayFailed(unit, message, cancelled):
                self.recovery.replay_failed(unit, message, self.now_ms, cancelled=cancelled)
            case to.AttemptTaken(attempt):
                taken = self.pipeline.next_attempt()
                assert taken == attempt
            case to.RowsSetAside(unit, epoch, operators):
                known = self.set_aside.get((unit, epoch), frozenset())
                self.set_aside[(unit, epoch)] = known | operators
            case to.CheckpointWanted(decision):
                commands += self.checkpoints.start(self.now_ms, self.pipeline, self.routing, decision)
            case to.CheckpointGivenUp(reason):
                commands += self.checkpoints.abort(reason)
            case to.CheckpointCorrupt(checkpoint):
                self.checkpoints.discard(checkpoint)
                self._covered_now()
            case to.InflightCorrupt(checkpoint):
                self.checkpoints.discard(checkpoint)
                self._covered_now()
                self.recovery.inflight_corrupt()
            case _ as never:
                assert_never(never)
        return commands

    def _hosts_died(self, deaths: tuple[Death, ...]) -> tuple[Outcome, ...]:
        """Hosts died: their shards are lost. Whatever number of them, whoever saw it: one recovery."""
        commands: list[Outcome] = []
        for death in deaths:
            self.hosts -= {death.host}
            commands += self._do(host_died(death.host, self._view()))
            commands.append(do.DropHost(death.host, death.reason))
            commands += self._do(self.scale.host_died(death.host, self._view()))
            shards = self.routing.shards_on(death.host)
            if shards:
                self.faults += 1
                reason = f"host {death.host}: {death.reason}"
                commands += self._lose(shards, reason, detect_ms=death.silent_ms)
        return tuple(commands)

    def _lose(
        self, shards: Iterable[ShardId], reason: str, *, everything: bool = False, detect_ms: int = 0
    ) -> list[Outcome]:
        """These shards are gone: what is being scaled or checkpointed is given up, and a recovery begins, or begins anew."""
        everything |= self.settings.scheme.replays_sources
        given_up = self._do(self.scale.give_up(reason, self._view(), again=True))
        self.recovery.shards_lost(set(shards), reason, self.now_ms, everything=everything, detect_ms=detect_ms)
        return [*given_up, *self.checkpoints.abort(reason)]

    def _put_back(self, base: Mapping[UnitName, Epoch]) -> None:
        self.checkpoints.went_back()
        self._covered_now()
        for unit, epoch in base.items():
            self.pipeline.put_back(unit, epoch)
            self.acknowledgements.done(unit, epoch)

    def _go_on(self, divided: bool) -> list[Outcome]:
        """Everything lost is back."""
        self.pipeline.go_on()
        again = self.checkpoints.repartitioned(self.routing.routes, self.now_ms) if divided else ()
        return [*(again or self.checkpoints.running(self.now_ms)), *(self._trim() if self.trims else ())]

    def _settle_pool(self) -> None:
        """As many hosts as at the start; more where operators were scaled out beyond what they were declared with."""
        counts = {o: len(self.routing.of(o)) for o in self.topology.operators}
        scaled = [count for o, count in counts.items() if count > self.topology.operators[o]]
        self.pool = self.pool.settled(max([self.settings.hosts, *scaled]))

    def _trim(self) -> tuple[Outcome, ...]:
        """Let go what newer checkpoints cover; but not while a recovery is on its way back from an older one."""
        if self.recovery.planned:
            return ()
        trims, self.trims = self.trims, []
        for trim in trims:
            self.oldest_epoch = Epoch(min(trim.oldest.cuts.values()) + 1)
            self.set_aside = {key: mine for key, mine in self.set_aside.items() if key[1] >= self.oldest_epoch}
        return (*trims, *self.released())

    def released(self) -> list[Outcome]:
        """Stream epochs that nobody will ask for again."""
        holds = self.checkpoints.holds + self.scale.holds(self.topology)
        if self.recovery.current is not None:
            holds += self.recovery.current.holds(self.topology)
        return [do.ReleaseStream(name, upto) for name, upto in self.acknowledgements.forgettable(holds).items()]

    def _covered_now(self) -> None:
        """Checkpoints acknowledge what they cover."""
        newest = self.checkpoints.newest
        units = self.pipeline.units
        self.acknowledgements.covered({u: newest.own_cut(u) if newest is not None else Epoch(0) for u in units})

    # -- what follows from what is true now -----------------------------------------------------------------------

    def _advance(self) -> tuple[Outcome, ...]:
        if self.error is not None:
            return self._end()
        commands: list[Outcome] = []
        if self.starts.may_ask(self.now_ms):
            missing = self.pool.to_start(len(self.hosts), self.starts.coming)
            self.starts.requested(missing)
            commands += [do.StartHost()] * missing
        if self.recovery.current is not None:
            commands += self._recover()
        if self.recovery.current is None:
            self.phase = "stopping" if self.stopping else "running"
            if self.scale.current is not None:
                commands += self._do(self.scale.advance(self._view()))
            if self.scale.current is None or not self.scale.current.stands_on_checkpoint:
                if self.asked.open:
                    commands += self._do(self.asked.advance(self._view()))
                # Somebody who waits until none is on its way would wait for ever if each began before another ends.
                awaited = self.scale.current is not None or self.asked.checkpoints
                if not (awaited and self.checkpoints.busy):
                    commands += self.checkpoints.start_if_due(self.now_ms, self.pipeline, self.routing)
        commands += self._run()
        if len(self.hosts) > self.pool.size:
            commands += self._do(self.scale.hosts_to_release(self._view()))
        if self.stopping and not (self.recovering or self.scaling or self.admitting) and self.pipeline.quiet:
            commands += self._finish()
        return tuple(commands)

    def _recover(self) -> list[Outcome]:
        """The next step of the recovery; the one after it, too, if nobody has to answer first."""
        if self.phase != "starting":
            self.phase = "recovering"
        planned = self.recovery.planned
        commands = [*self._do(self.recovery.advance(self._view()))]
        if not planned and self.recovery.at_once:
            commands += self._do(self.recovery.advance(self._view()))
        return commands

    def _run(self) -> list[Outcome]:
        recovering, scaling = self.recovery.current, self.scale.current
        commands: list[Outcome] = []
        if self.phase == "starting":
            return commands
        waiting = set[UnitName]()
        if recovering is not None:
            everything = recovering.everything
            waiting = set(self.pipeline.units) if everything else self.topology.units_of(recovering.lost)
        else:
            commands += self._snapshots()
            if scaling is not None and scaling.holds:
                waiting = {scaling.unit}
        for unit in self.pipeline.units:
            epoch = self.pipeline.may_run(unit, self.now_ms)
            if epoch is None or unit in waiting or self.checkpoints.holds_back(unit, epoch, self.now_ms):
                continue
            again = epoch <= self.pipeline.units[unit].tried
            if again and waiting & self.topology.above(unit):
                continue  # it may have to ask them once more, which have no answer yet
            attempt = self.pipeline.started(unit, epoch)
            commands.append(
                do.RunEpoch(
                    unit,
                    epoch,
                    attempt,
                    self.routing,
                    release=self.pipeline.consumed(unit),
                    release_covered=self._covered(unit),
                    set_aside=self.set_aside.get((unit, epoch), frozenset()),
                    find=self.settings.dead_letters,
                    again=again,
                )
            )
        if self.pipeline.may_admit() and not (self.admitting or self.stopping or recovering):
            self.admitting, self.abandoning = True, False
            commands.append(do.AdmitEpoch(Epoch(self.pipeline.admitted + 1)))
        elif self.admitting and self.stopping and not self.abandoning:
            self.abandoning = True
            commands.append(do.AbandonAdmission())
        return commands

    def _covered(self, unit: UnitName) -> Epoch:
        """Up to where a checkpoint covers a unit's answers: the newest, or the one from which units below are on their way back."""
        recovering = self.recovery.current
        checkpoint = self.checkpoints.newest
        if recovering is not None and recovering.plan is not None:
            checkpoint = self.recovery.chosen(recovering.plan, self.checkpoints.completed)
        return checkpoint.own_cut(unit) if checkpoint else Epoch(0)

    def _snapshots(self) -> tuple[Outcome, ...]:
        commands = (
            *self.checkpoints.snapshots_due(self.pipeline, self.routing),
            *self.checkpoints.saves_due(self.pipeline),
        )
        for command in commands:
            if isinstance(command, do.TakeSnapshots):
                size = self.checkpoints.last_size(command.unit, command.shards)
                self.detector.work_began(command.host, self.now_ms, size)
        return commands

    def _finish(self) -> list[Outcome]:
        """Everything admitted is done: one last checkpoint, so that the next start has nothing to replay; then stop."""
        if self.checkpoints.pending:
            return []
        if not self.settings.final_checkpoint or not self.checkpoints.worthwhile(self.pipeline):
            return list(self._end())
        if self.final_failures >= FINAL_CHECKPOINTS:
            return list(self._end(unsaved=self.final_failure))
        return [*self.checkpoints.last(self.now_ms, self.pipeline, self.routing), *self._snapshots()]

    def _end(self, unsaved: str | None = None) -> tuple[Outcome, ...]:
        self.phase = "failed" if self.error else "stopped"
        return (do.StopApplication(self.error, unsaved),)

    def check(self) -> None:
        """Assert the invariants; every test calls it after every event."""
        for part in (
            self.pipeline,
            self.detector,
            self.checkpoints,
            self.routing,
            self.recovery,
            self.scale,
            self.starts,
        ):
            part.check()
        if self.scaling is not None:
            assert self.scaling.hosts <= self.hosts
            assert self.recovering is None or not self.scaling.stands_on_checkpoint
        if self.recovering is not None:
            assert all(steps.done is not None for steps in self.checkpoints.pending.values())
            for unit in self.topology.units_of(self.recovering.lost) if self.recovering.plan is not None else ():
                state = self.pipeline.units[unit]
                assert state.idle or state.replaying or state.cancelled
        else:
            assert self.routing.hosts <= self.hosts, (
                f"shards without a living host: on {self.routing.hosts - self.hosts}"
            )
