"""The controller: events in, commands out. No clock, no thread, no socket, no file, no Spark.

After every event it looks at what is true now and commands what follows from it (``_advance``), so that no order of events can
make it forget something. Shells (Spark, simulation) carry the commands out and tell what came of them.

Invariants, checked by ``check``: a unit with lost shards runs nothing but replays; routing covers every slot; no unit is ahead of
the one above it; a checkpoint is pending only while nothing is lost; nothing is scaled while something is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.checkpoint.schemes import Scheme
from perseid.checkpoint.size_reports import SizeReport
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.checkpointing import Checkpointing
from perseid.engine.notices import Outcome
from perseid.engine.pipeline import Pipeline
from perseid.engine.progress import Phase
from perseid.engine.recovering import Recovering
from perseid.engine.recovery_steps import RecoverySteps
from perseid.engine.scaling_steps import ScalingSteps
from perseid.engine.state_requests import StateRequestSteps
from perseid.engine.unit_ends import UnitEnds
from perseid.graph.topology import Topology
from perseid.recovery.detection import Death, Detector
from perseid.scaling.bottleneck import AutoScaling, Bottlenecks
from perseid.scaling.machine import Scaling
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, Shards, even_slots, numbered
from perseid.vocabulary import Attempt, CheckpointId, Epoch, HostId, OperatorName, ShardId, StreamName, UnitName

FINAL_CHECKPOINTS = 3


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the controller needs to know of the user's settings."""

    scheme: Scheme
    hosts: int
    spares: int = 1
    most_hosts: int | None = (
        None  # spares among them, while an operator is scaled or after; None: no more than at the start
    )
    queue: int = 2
    keep: int = 3
    heartbeat_ms: int = 100
    operator_retries: int = 2
    epoch_retries: int = 8
    storage_retries: int = 17  # with the pauses between them about a minute: a full disk may be freed
    dead_letters: bool = False
    scaling: AutoScaling | None = None
    scalable: frozenset[OperatorName] = frozenset()  # operators that may be divided without being asked for
    parallel_recovery: int = 1  # so many shards take over from one that is lost (S4)
    final_checkpoint: bool = True


@dataclass(frozen=True, slots=True)
class RootHistory:
    """What the checkpoint root tells of earlier runs."""

    checkpoints: Sequence[CompletedCheckpoint] = ()  # newest first
    admitted: Epoch = Epoch(0)
    oldest_epoch: Epoch = Epoch(1)  # the first one whose slices the ledger still has
    next_checkpoint: CheckpointId = CheckpointId(1)
    set_aside: Mapping[tuple[UnitName, Epoch], frozenset[OperatorName]] = field(default_factory=dict)
    shards: Mapping[OperatorName, Shards] = field(default_factory=dict)  # where they are not as declared


@dataclass(slots=True)
class Controller:
    """Decides everything that is not data."""

    topology: Topology
    settings: EngineSettings
    past: RootHistory
    now_ms: int
    phase: Phase = "starting"
    hosts: set[HostId] = field(default_factory=set)
    starting_hosts: int = 0
    admitting: bool = False  # an AdmitEpoch is out
    abandoning: bool = False  # and was taken back
    sources_idle: bool = False  # nothing new at the last look; the shell looks again by itself
    stopping: bool = False
    error: str | None = None
    # These may have rows in the dead letters. What sinks hold was computed without them, so every replay leaves them out, too.
    set_aside: dict[tuple[UnitName, Epoch], set[OperatorName]] = field(default_factory=dict)
    final_failures: int = 0  # of the last checkpoint
    final_failure: str = ""  # and why the newest of them
    trims: list[do.Trim] = field(default_factory=list)  # wait for the end of a recovery
    oldest_epoch: Epoch = Epoch(1)
    restored: CheckpointId | None = None  # the last recovery went back to it, and reads its in-flight epochs
    faults: int = 0
    pipeline: Pipeline = field(init=False)
    detector: Detector = field(init=False)
    checkpoints: Checkpointing = field(init=False)
    routing: RoutingTable = field(init=False)
    recovering: Recovering | None = field(init=False)
    pool: Pool = field(init=False)
    unit_ends: UnitEnds = field(init=False)
    recovery: RecoverySteps = field(init=False)
    scaling: Scaling | None = None
    scale_replay: Attempt | None = None  # the job that feeds new shards, also when their scale was given up meanwhile
    scale: ScalingSteps = field(init=False)
    asked: StateRequestSteps = field(init=False)
    bottlenecks: Bottlenecks | None = None
    numbers: dict[OperatorName, int] = field(default_factory=dict)  # the highest ever given to a shard, used or not

    def __post_init__(self) -> None:
        s = self.settings
        self.pipeline = Pipeline(self.topology, s.queue, self.past.admitted)
        self.detector = Detector(s.heartbeat_ms)
        even = {o: numbered(even_slots(count)) for o, count in self.topology.operators.items()}
        self.routing = RoutingTable.initial({**even, **self.past.shards})
        found, shards = list(self.past.checkpoints), self.routing.routes
        self.checkpoints = Checkpointing(
            self.topology, s.scheme, s.keep, self.past.next_checkpoint, found, self.now_ms, shards
        )
        self.recovering = Recovering(set(self.routing.routes), True, "start", self.now_ms, step_ms=self.now_ms)
        self.pool = Pool(s.hosts, s.spares, s.most_hosts)
        self.bottlenecks = Bottlenecks(s.scaling, s.scalable) if s.scaling is not None else None
        self.unit_ends, self.recovery, self.scale = UnitEnds(self), RecoverySteps(self), ScalingSteps(self)
        self.asked = StateRequestSteps(self)
        self.scale.settle_pool()
        self.oldest_epoch = self.past.oldest_epoch
        self.set_aside = {key: set(operators) for key, operators in self.past.set_aside.items()}

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
            case on.SnapshotWritten():
                commands = self.checkpoints.written(event)
                partial = self.checkpoints.pending is not None and not self.checkpoints.committing
            case on.SnapshotsForked():
                self.detector.work_ended(event.host, self.now_ms)
                commands = self.checkpoints.forked(event)
                partial = bool(self.checkpoints.forking.get(event.unit))
            case on.SizesReported():
                commands = self._sized(event)
                partial = not commands  # with the last of them a policy has something to say
            case on.LoadReported():
                commands = self.scale.loaded(event.load)
                partial = not commands
            case _:
                commands = self._take_in(event)
        return commands if partial else (*commands, *self._advance())

    def _sized(self, report: SizeReport) -> tuple[Outcome, ...]:
        return self.checkpoints.sized(report, self.now_ms) if self.recovering is None else ()

    def _take_in(self, event: on.RareEvent) -> tuple[Outcome, ...]:
        match event:
            case on.SizeHalved() | on.SizeTurned():
                return self._sized(event)
            case on.Ticked():
                return self.bury(self.detector.tick(self.now_ms))
            case on.HostRegistered(host):
                self.starting_hosts = max(0, self.starting_hosts - 1)
                self.hosts.add(host)
                self.detector.host_registered(host, self.now_ms)
            case on.HostStartFailed():
                self.starting_hosts = max(0, self.starting_hosts - 1)
            case on.HostDisconnected(host, reason):
                return self.bury(self.detector.lost(host, reason, self.now_ms))
            case on.EpochAdmitted(epoch):
                self.admitting, self.sources_idle = False, False
                self.pipeline.admitted = max(self.pipeline.admitted, epoch)
            case on.NothingToAdmit(finished):
                self.admitting, self.sources_idle = False, True
                if finished:
                    self.stopping = True
            case on.UnitFinished() | on.UnitFailed() | on.ReplayFinished():
                return self.unit_ends.handle(event)
            case on.ShardsRestored(host, version, phases, reached):
                self.detector.work_ended(host, self.now_ms)
                self.scale.restored(event)
                if self.recovering is not None and self.recovering.version == version:
                    self.recovering.restored(host, dict(phases), dict(reached), self.now_ms)
            case on.RestoreFailed(host):
                self.detector.work_ended(host, self.now_ms)
                return (*self.scale.restore_failed(event), *self.recovery.restore_failed(event))
            case on.CheckpointAsked(number):
                return self.asked.checkpoint(number)
            case on.RestoreAsked(number, operator):
                return tuple(self.asked.restore(number, operator))
            case on.ScaleRequested(request):
                return self.scale.requested(request)
            case on.ShardsCaughtUp(host):
                self.detector.work_ended(host, self.now_ms)
                self.scale.restored(event)
            case on.PartitionWritten():
                return (*self.scale.written_down(event), *self.recovery.written_down(event))
            case on.InflightSaved():
                return self.checkpoints.inflight_saved(event)
            case on.CheckpointFailed(checkpoint, message, host):
                if host is not None:
                    self.detector.work_ended(host, self.now_ms)
                if self.checkpoints.pending is None or self.checkpoints.pending.id != checkpoint:
                    return ()
                self.checkpoints.committing = False
                if self.stopping:
                    self.final_failures, self.final_failure = self.final_failures + 1, message
                deaths = self.detector.trouble_reported(host, message, self.now_ms) if host is not None else ()
                return (*self.checkpoints.abort(message), *self.bury(deaths))
            case on.CheckpointCommitted():
                return self._checkpoint_committed(event)
            case on.StopRequested():
                self.stopping = True
            case on.FatalError(message):
                self.error = self.error or message
            case _:
                assert_never(event)
        return ()

    def bury(self, deaths: tuple[Death, ...]) -> tuple[Outcome, ...]:
        """Hosts died: their shards are lost. Whatever number of them, whoever saw it: one recovery."""
        commands: list[Outcome] = []
        for death in deaths:
            self.hosts.discard(death.host)
            self.unit_ends.host_died(death.host)
            commands.append(do.DropHost(death.host, death.reason))
            commands += self.scale.host_died(death.host)
            shards = set(self.routing.shards_on(death.host))
            if shards:
                self.faults += 1
                commands += self.recovery.lose(shards, f"host {death.host}: {death.reason}", detect_ms=death.silent_ms)
        return tuple(commands)

    def _checkpoint_committed(self, event: on.CheckpointCommitted) -> tuple[Outcome, ...]:
        self.trims += self.checkpoints.committed(event)
        self.detector.trouble_ended()
        return self.trim()

    def trim(self) -> tuple[Outcome, ...]:
        """Let go what newer checkpoints cover; but not while a recovery is on its way back from an older one."""
        if self.recovering is not None and self.recovering.plan is not None:
            return ()
        trims, self.trims = self.trims, []
        for trim in trims:
            self.oldest_epoch = Epoch(min(trim.oldest.cuts.values()) + 1)
            self.set_aside = {key: mine for key, mine in self.set_aside.items() if key[1] >= self.oldest_epoch}
        return (*trims, *self.released())

    def released(self) -> list[Outcome]:
        """Stream epochs that nobody will ask for again: every consumer is past them, or a checkpoint covers them."""
        pending, newest = self.checkpoints.pending, self.checkpoints.newest
        needless: dict[StreamName, Epoch] = {}
        for stream in self.topology.streams:
            if stream.durable:
                continue  # trimmed with the oldest checkpoint
            upto = self.pipeline.units[stream.consumer].finished
            if stream.preservation == "buffered":
                upto = newest.own_cut(stream.consumer) if newest else Epoch(0)
                if self.recovering is not None and self.recovering.plan is not None:
                    upto = min(upto, self.recovering.plan.base.get(stream.consumer, upto))
            if self.scaling is not None and stream.consumer == self.scaling.unit and self.scaling.keeps_input:
                upto = min(upto, self.scaling.base)
            if pending is not None:  # epochs that a pending checkpoint still has to save
                unsaved = [e for s, e in pending.wanted_inflight - pending.inflight.keys() if s == stream.name]
                upto = min([upto, *(Epoch(e - 1) for e in unsaved)])
            needless[stream.name] = min(upto, needless.get(stream.name, upto))
        return [do.ReleaseStream(name, upto) for name, upto in needless.items() if upto]

    @property
    def trouble(self) -> str:
        """Why the next epoch is not to be had, in a sentence; empty while all is well."""
        said = [
            f"unit {unit!r}: epoch {state.finished + 1}, attempt {state.tries + 1}: {state.error}"
            for unit, state in self.pipeline.units.items()
            if state.tries
        ]
        if self.recovering is not None and self.phase != "starting":
            said += self.recovery.trouble(self.recovering)
        return "; ".join(said)

    # -- what follows from what is true now -----------------------------------------------------------------------

    def _advance(self) -> tuple[Outcome, ...]:
        if self.error is not None:
            return self._end()
        commands: list[Outcome] = []
        for _ in range(self.pool.to_start(len(self.hosts), self.starting_hosts)):
            self.starting_hosts += 1
            commands.append(do.StartHost())
        if self.recovering is not None:
            commands += self.recovery.advance()
        if self.recovering is None:
            self.phase = "stopping" if self.stopping else "running"
            commands += self.scale.advance()
            if self.scaling is None or not self.scaling.stands_on_checkpoint:
                commands += self.asked.advance()
                commands += self.checkpoints.start_if_due(self.now_ms, self.pipeline, self.routing)
        commands += self._run()
        if len(self.hosts) > self.pool.size:
            commands += self.scale.release_hosts()
        if self.stopping and not (self.recovering or self.scaling or self.admitting) and self.pipeline.quiet:
            commands += self._finish()
        return tuple(commands)

    def cancel(self, unit: UnitName) -> list[Outcome]:
        """Let the unit come to rest."""
        state = self.pipeline.units[unit]
        if state.idle or state.cancelled:
            return []
        state.cancelled, state.cancelled_ms = True, self.now_ms
        return [do.CancelUnit(unit, state.attempt)]

    def replay(
        self,
        unit: UnitName,
        attempt: Attempt,
        shards: tuple[ShardId, ...],
        first: Epoch,
        last: Epoch,
        routing: RoutingTable,
        *,
        again: bool,
        beside: bool = False,
    ) -> do.ReplayShards:
        """Feed these epochs to these shards, and to nobody else."""
        aside = {e: frozenset(s) for (u, e), s in self.set_aside.items() if u == unit and first <= e <= last}
        consumed = self.pipeline.consumed(unit)
        return do.ReplayShards(unit, attempt, first, last, shards, routing, consumed, aside, again=again, beside=beside)

    def _run(self) -> list[Outcome]:
        commands: list[Outcome] = []
        if self.phase == "starting":
            return commands
        waiting = set[UnitName]()
        if self.recovering is not None:
            everything = self.recovering.everything
            waiting = set(self.pipeline.units) if everything else self.topology.units_of(self.recovering.lost)
        else:
            commands += self._snapshots()
            if self.scaling is not None and self.scaling.holds:
                waiting = {self.scaling.unit}
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
                    set_aside=frozenset(self.set_aside.get((unit, epoch), ())),
                    find=self.settings.dead_letters,
                    again=again,
                )
            )
        if self.pipeline.may_admit() and not (self.admitting or self.stopping or self.recovering):
            self.admitting, self.abandoning = True, False
            commands.append(do.AdmitEpoch(Epoch(self.pipeline.admitted + 1)))
        elif self.admitting and self.stopping and not self.abandoning:
            self.abandoning = True
            commands.append(do.AbandonAdmission())
        return commands

    def _covered(self, unit: UnitName) -> Epoch:
        """Up to where a checkpoint covers a unit's answers: the newest, or the one from which units below are on their way back."""
        checkpoint = self.checkpoints.newest
        if self.recovering is not None and self.recovering.plan is not None:
            checkpoint = self.recovery.chosen(self.recovering.plan)
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
        if self.checkpoints.pending is not None:
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
        for part in (self.pipeline, self.detector, self.checkpoints, self.routing):
            part.check()
        if self.scaling is not None:
            self.scaling.check()
            assert self.scaling.hosts <= self.hosts
            assert self.recovering is None or not self.scaling.stands_on_checkpoint
        if self.recovering is not None:
            self.recovering.check()
            assert self.checkpoints.pending is None or self.checkpoints.committing
            for unit in self.topology.units_of(self.recovering.lost) if self.recovering.plan is not None else ():
                state = self.pipeline.units[unit]
                assert state.idle or state.replaying or state.cancelled
        else:
            assert self.routing.hosts <= self.hosts, (
                f"shards without a living host: on {self.routing.hosts - self.hosts}"
            )
