"""The controller: events in, commands out. No clock, no thread, no socket, no file, no Spark.

After every event it looks at what is true now and commands what follows from it (``_advance``), so that no order of events can
make it forget something. Shells (Spark, simulation) carry the commands out and tell what came of them.

Invariants, checked by ``check``: a unit with lost shards runs nothing but replays; routing covers every slot; no unit is ahead of
the one above it; a checkpoint is pending only while nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perseid.checkpoint.life import CompletedCheckpoint
from perseid.checkpoint.schemes import Scheme
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.checkpointing import Checkpointing
from perseid.engine.pipeline import Pipeline
from perseid.engine.progress import Phase
from perseid.engine.recovering import Recovering
from perseid.graph.topology import Topology
from perseid.recovery.detection import Death, Detector
from perseid.recovery.plan import Observation, RecoveryPlan, decide
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, place
from perseid.vocabulary import CheckpointId, Epoch, HostId, ShardId, StreamName, UnitName

RETRY_PAUSE_MS = 100
RETRY_PAUSE_LIMIT_MS = 5_000
BURST_PATIENCE_MS = 1_500
UNREACHABLE_FAILURES = 3
FINAL_CHECKPOINTS = 3


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the controller needs to know of the user's settings."""

    scheme: Scheme
    hosts: int
    spares: int = 1
    queue: int = 2
    keep: int = 3
    heartbeat_ms: int = 100
    operator_retries: int = 2
    epoch_retries: int = 8
    storage_retries: int = 17  # with the pauses between them about a minute: a full disk may be freed
    dead_letters: bool = False
    final_checkpoint: bool = True


@dataclass(frozen=True, slots=True)
class Past:
    """What the checkpoint root tells of earlier runs."""

    checkpoints: Sequence[CompletedCheckpoint] = ()  # newest first
    admitted: Epoch = Epoch(0)
    oldest_epoch: Epoch = Epoch(1)  # the first one whose slices the ledger still has
    next_checkpoint: CheckpointId = CheckpointId(1)
    set_aside: Mapping[tuple[UnitName, Epoch], frozenset[ShardId]] = field(default_factory=dict)


@dataclass(slots=True)
class Controller:
    """Decides everything that is not data."""

    topology: Topology
    settings: EngineSettings
    past: Past
    now_ms: int
    phase: Phase = "starting"
    hosts: set[HostId] = field(default_factory=set)
    starting_hosts: int = 0
    admitting: bool = False  # an AdmitEpoch is out
    sources_idle: bool = False  # nothing new at the last look; the shell looks again by itself
    stopping: bool = False
    error: str | None = None
    # Rows of these went to the dead letters. What sinks hold was computed without them, so every replay leaves them out, too.
    set_aside: dict[tuple[UnitName, Epoch], set[ShardId]] = field(default_factory=dict)
    final_failures: int = 0  # of the last checkpoint
    trims: list[do.Trim] = field(default_factory=list)  # wait for the end of a recovery
    oldest_epoch: Epoch = Epoch(1)
    restored: CheckpointId | None = None  # the application went back to it last, and reads its in-flight epochs
    faults: int = 0
    pipeline: Pipeline = field(init=False)
    detector: Detector = field(init=False)
    checkpoints: Checkpointing = field(init=False)
    routing: RoutingTable = field(init=False)
    recovering: Recovering | None = field(init=False)
    pool: Pool = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        self.pipeline = Pipeline(self.topology, s.queue, self.past.admitted)
        self.detector = Detector(s.heartbeat_ms)
        self.checkpoints = Checkpointing(
            self.topology, s.scheme, s.keep, self.past.next_checkpoint, list(self.past.checkpoints), self.now_ms
        )
        self.routing = RoutingTable.initial({o: n for u in self.topology.units for o, n in u.operators.items()})
        self.recovering = Recovering(set(self.topology.shards), True, "start", self.now_ms, step_ms=self.now_ms)
        self.pool = Pool(s.hosts, s.spares)
        self.oldest_epoch = self.past.oldest_epoch
        self.set_aside = {key: set(shards) for key, shards in self.past.set_aside.items()}

    # -- events ---------------------------------------------------------------------------------------------------

    def handle(self, event: on.Event, now_ms: int) -> tuple[do.Command, ...]:
        """Take in one event; return what must be done."""
        self.now_ms = max(self.now_ms, now_ms)
        if self.phase in ("stopped", "failed"):
            return ()
        if isinstance(event, on.HeartbeatArrived):
            self.detector.heartbeat_arrived(event.host, self.now_ms)
            return ()  # nothing follows from it; there are more of them than of all else together
        commands = self._take_in(event)
        return commands if self._one_of_many(event) else (*commands, *self._advance())

    def _one_of_many(self, event: on.Event) -> bool:
        """Is this a part of something that is not yet whole? Then nothing follows from it yet."""
        match event:
            case on.SnapshotsForked(unit=unit):
                return bool(self.checkpoints.forking.get(unit))
            case on.SnapshotWritten():
                return self.checkpoints.pending is not None and not self.checkpoints.committing
        return False

    def _take_in(self, event: on.Event) -> tuple[do.Command, ...]:
        match event:
            case on.SnapshotWritten():
                return self.checkpoints.written(event)
            case on.SnapshotsForked():
                self.detector.work_ended(event.host, self.now_ms)
                return self.checkpoints.forked(event)
            case on.Ticked():
                return self._bury(self.detector.tick(self.now_ms))
            case on.HostRegistered(host):
                self.starting_hosts = max(0, self.starting_hosts - 1)
                self.hosts.add(host)
                self.detector.host_registered(host, self.now_ms)
            case on.HostStartFailed():
                self.starting_hosts = max(0, self.starting_hosts - 1)
            case on.HostDisconnected(host, reason):
                return self._bury(self.detector.lost(host, reason, self.now_ms))
            case on.EpochAdmitted(epoch):
                self.admitting, self.sources_idle = False, False
                self.pipeline.admitted = max(self.pipeline.admitted, epoch)
            case on.NothingToAdmit(finished):
                self.admitting, self.sources_idle = False, True
                if finished:
                    self.stopping = True
            case on.UnitFinished() | on.UnitFailed() | on.ReplayFinished():
                return self._unit_ended(event)
            case on.ShardsRestored(host, version, phases, reached):
                self.detector.work_ended(host, self.now_ms)
                if self.recovering is not None and self.recovering.version == version:
                    self.recovering.restored(host, dict(phases), dict(reached), self.now_ms)
            case on.RestoreFailed(host):
                self.detector.work_ended(host, self.now_ms)
                return self._restore_failed(event)
            case on.InflightSaved():
                return self.checkpoints.inflight_saved(event)
            case on.CheckpointFailed(checkpoint, message, host):
                if host is not None:
                    self.detector.work_ended(host, self.now_ms)
                if self.checkpoints.pending is None or self.checkpoints.pending.id != checkpoint:
                    return ()
                self.checkpoints.committing = False
                self.final_failures += self.stopping
                deaths = self.detector.trouble_reported(host, message, self.now_ms) if host is not None else ()
                return (*self.checkpoints.abort(message), *self._bury(deaths))
            case on.CheckpointCommitted():
                return self._checkpoint_committed(event)
            case on.SizesReported() | on.SizeHalved() | on.SizeTurned():
                return self.checkpoints.sized(event, self.now_ms) if self.recovering is None else ()
            case on.StopRequested():
                self.stopping = True
            case on.FatalError(message):
                self.error = self.error or message
        return ()

    def _bury(self, deaths: tuple[Death, ...]) -> tuple[do.Command, ...]:
        """Hosts died: their shards are lost. Whatever number of them, whoever saw it: one recovery."""
        commands: list[do.Command] = []
        for death in deaths:
            self.hosts.discard(death.host)
            commands.append(do.DropHost(death.host, death.reason))
            shards = set(self.routing.shards_on(death.host))
            if shards:
                self.faults += 1
                commands += self._lose(shards, f"host {death.host}: {death.reason}", detect_ms=death.silent_ms)
        return tuple(commands)

    def _lose(
        self, shards: set[ShardId], reason: str, *, everything: bool = False, detect_ms: int = 0
    ) -> list[do.Command]:
        if self.recovering is None:
            self.recovering = Recovering(set(shards), everything, reason, self.now_ms - detect_ms, step_ms=self.now_ms)
            self.recovering.phases_ms["detect"] = detect_ms
        else:
            self.recovering.restart(shards, reason, self.now_ms)
            self.recovering.everything |= everything
        return list(self.checkpoints.abort(reason))

    def _unit_ended(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[do.Command, ...]:
        if not self.pipeline.is_current(event.unit, event.attempt):
            return ()
        state = self.pipeline.units[event.unit]
        match event:
            case on.UnitFinished(unit, epoch):
                assert not state.replaying
                self.pipeline.finished(unit)
                return (do.CommitEpoch(unit, epoch), *self._released())
            case on.ReplayFinished(unit):
                self.pipeline.ended(unit)
                if self.recovering is not None:
                    self.recovering.replaying.discard(unit)
                return ()
            case on.UnitFailed():
                return self._unit_failed(event)

    def _unit_failed(self, event: on.UnitFailed) -> tuple[do.Command, ...]:
        state = self.pipeline.units[event.unit]
        cancelled, replaying = state.cancelled, state.replaying
        self.pipeline.ended(event.unit)
        if replaying and self.recovering is not None and event.unit in self.recovering.replaying:
            self.recovering.restart(set(), event.message, self.now_ms)  # plan again: its shards are half fed
            self.recovering.failed_replays += event.kind != "cancelled"
        for host in event.hosts:
            self.detector.suspected(host)
        if event.kind == "fenced":
            self.error = event.message
            return ()
        commands: list[do.Command] = []
        known = self.recovering.lost if self.recovering is not None and not replaying else set[ShardId]()
        if event.kind in ("operator", "poisoned") and not known.issuperset(event.shards):
            commands += self._lose(set(event.shards), event.message.splitlines()[0])
        elif event.kind == "released":
            commands += self._lose(set(self.topology.shards), event.message, everything=True)
        elif event.kind == "corrupt" and self.restored is not None:  # an in-flight epoch: the one before has its own
            self.checkpoints.discard(self.restored)
            self.restored = None
            commands += self._lose(set(self.topology.shards), event.message, everything=True)
        if cancelled or event.kind in ("poisoned", "cancelled"):
            return tuple(commands)
        state.failures += 1
        state.not_before_ms = self.now_ms + min(RETRY_PAUSE_MS * 2 ** (state.failures - 1), RETRY_PAUSE_LIMIT_MS)
        if state.failures >= UNREACHABLE_FAILURES:
            for host in event.hosts:  # its heart beats, and yet no task gets through to it
                commands += self._bury(self.detector.lost(host, event.message, self.now_ms))
        limits = {"operator": self.settings.operator_retries, "storage": self.settings.storage_retries}
        if state.failures > limits.get(event.kind, self.settings.epoch_retries):
            if event.kind == "operator" and self.settings.dead_letters and not replaying:
                self.set_aside.setdefault((event.unit, Epoch(state.finished + 1)), set()).update(event.shards)
                state.failures = 0
            else:
                self.error = event.message
        return tuple(commands)

    def _restore_failed(self, event: on.RestoreFailed) -> tuple[do.Command, ...]:
        recovering = self.recovering
        if recovering is None or recovering.plan is None or recovering.version != event.version:
            return ()
        if event.corrupt and recovering.plan.checkpoint is not None:
            self.checkpoints.discard(recovering.plan.checkpoint)
        elif event.storage and recovering.failed_restores < self.settings.storage_retries:
            recovering.failed_restores += 1  # out of reach is not lost: it is waited for
            pause_ms = min(RETRY_PAUSE_MS * 2 ** (recovering.failed_restores - 1), RETRY_PAUSE_LIMIT_MS)
            recovering.not_before_ms = self.now_ms + pause_ms
        elif not event.corrupt:
            self.error = event.message
        recovering.restart(set(), event.message, self.now_ms)
        return ()

    def _checkpoint_committed(self, event: on.CheckpointCommitted) -> tuple[do.Command, ...]:
        self.trims += self.checkpoints.committed(event)
        self.detector.trouble_ended()
        return self._trim()

    def _trim(self) -> tuple[do.Command, ...]:
        """Let go what newer checkpoints cover; but not while a recovery is on its way back from an older one."""
        if self.recovering is not None and self.recovering.plan is not None:
            return ()
        trims, self.trims = self.trims, []
        for trim in trims:
            self.oldest_epoch = Epoch(min(trim.oldest.cuts.values()) + 1)
            self.set_aside = {key: shards for key, shards in self.set_aside.items() if key[1] >= self.oldest_epoch}
        return (*trims, *self._released())

    def _released(self) -> list[do.Command]:
        """Stream epochs that nobody will ask for again: every consumer is past them, or a checkpoint covers them."""
        pending, newest = self.checkpoints.pending, self.checkpoints.newest
        needless: dict[StreamName, Epoch] = {}
        for stream in self.topology.streams:
            if stream.durable:
                continue  # trimmed with the oldest checkpoint
            upto = self.pipeline.units[stream.consumer].finished
            if stream.preservation == "retained":
                upto = newest.own_cut(stream.consumer) if newest else Epoch(0)
                if self.recovering is not None and self.recovering.plan is not None:
                    upto = min(upto, self.recovering.plan.base.get(stream.consumer, upto))
            if pending is not None:  # epochs that a pending checkpoint still has to save
                unsaved = [e for s, e in pending.wanted_inflight - pending.inflight.keys() if s == stream.name]
                upto = min([upto, *(Epoch(e - 1) for e in unsaved)])
            needless[stream.name] = min(upto, needless.get(stream.name, upto))
        return [do.ReleaseStream(name, upto) for name, upto in needless.items() if upto]

    # -- what follows from what is true now -----------------------------------------------------------------------

    def _advance(self) -> tuple[do.Command, ...]:
        if self.error is not None:
            return self._end()
        commands: list[do.Command] = []
        for _ in range(self.pool.to_start(len(self.hosts), self.starting_hosts)):
            self.starting_hosts += 1
            commands.append(do.StartHost())
        if self.recovering is not None:
            commands += self._recover()
        if self.recovering is None:
            self.phase = "stopping" if self.stopping else "running"
            commands += self.checkpoints.start_if_due(self.now_ms, self.pipeline)
        commands += self._run()
        if self.stopping and self.recovering is None and self.pipeline.quiet and not self.admitting:
            commands += self._finish()
        return tuple(commands)

    def _recover(self) -> list[do.Command]:
        recovering = self.recovering
        assert recovering is not None
        if self.phase != "starting":
            self.phase = "recovering"
        if recovering.plan is None:
            return self._plan_recovery(recovering)
        commands: list[do.Command] = []
        if not recovering.restoring:
            catching_up = recovering.to_replay | recovering.replaying
            # A unit below may have to ask the one above for an epoch once more: that one comes first.
            ready = {u for u in recovering.to_replay if not catching_up & self.topology.above(u)}
            commands += self._replay(recovering, recovering.plan, ready)
        if recovering.done:
            recovering.step_done("catch_up", self.now_ms)
            for state in self.pipeline.units.values():
                state.not_before_ms = 0
            self.recovering = None
            duration = self.now_ms - recovering.since_ms
            commands.append(do.RecoveryEnded(recovering.plan, duration, dict(recovering.phases_ms)))
            commands += self.checkpoints.running(self.now_ms)
            commands += self._trim() if self.trims else ()
        return commands

    def _replay(self, recovering: Recovering, plan: RecoveryPlan, units: set[UnitName]) -> list[do.Command]:
        """Feed restored shards what they missed, unless kept input has brought them there already."""
        commands: list[do.Command] = []
        for unit in sorted(units):
            last = plan.replay[unit][1]
            mine = [s for s in plan.shards if self.topology.shards[s] == unit]
            stands, behind = recovering.behind(mine, plan.base[unit], last)
            recovering.to_replay.discard(unit)
            if not behind:
                continue
            recovering.replaying.add(unit)
            first = Epoch(stands + 1)
            commands.append(
                do.ReplayShards(
                    unit,
                    self.pipeline.started(unit, last, replaying=True),
                    first,
                    last,
                    behind,
                    self.routing,
                    self.pipeline.consumed(unit),
                    {
                        epoch: frozenset(shards)
                        for (u, epoch), shards in self.set_aside.items()
                        if u == unit and first <= epoch <= last
                    },
                    again=recovering.failed_replays > 0,
                )
            )
        return commands

    def _plan_recovery(self, recovering: Recovering) -> list[do.Command]:
        affected = {self.topology.shards[s] for s in recovering.lost}
        if recovering.everything:
            affected = set(self.pipeline.units)
        commands: list[do.Command] = []
        for unit in sorted(affected):
            state = self.pipeline.units[unit]
            if not state.idle and not state.cancelled:
                state.cancelled = True
                commands.append(do.CancelUnit(unit, state.attempt))
        if any(not self.pipeline.units[u].idle for u in affected) or not self._enough_hosts(recovering):
            return commands
        pausing = [recovering.not_before_ms]
        pausing += [s.not_before_ms for u, s in self.pipeline.units.items() if u in affected]
        if self.phase != "starting":  # hosts that die together are noticed one after the other: one burst, one recovery
            pausing.append(recovering.step_ms + self.settings.heartbeat_ms // 2)
        if self.now_ms < max(pausing, default=0):
            return commands
        seen = Observation(
            finished={u: s.finished for u, s in self.pipeline.units.items()},
            lost=frozenset(recovering.lost),
            checkpoints=tuple(self.checkpoints.completed),
            newest=self.checkpoints.trimmed_by,
            everything=recovering.everything,
            oldest_epoch=self.oldest_epoch,
        )
        plan = decide(self.topology, seen)
        if plan.mode == "application" and not recovering.everything:
            recovering.everything = True  # the units not affected so far must come to rest too
            recovering.lost |= set(self.topology.shards)
            return [*commands, *self.checkpoints.abort(recovering.reason), *self._plan_recovery(recovering)]
        recovering.plan = plan
        recovering.lost |= set(plan.shards)
        recovering.step_done("reload", self.now_ms)
        commands.append(do.RecoveryBegan(recovering.reason, plan))
        return [*commands, *self._restore(recovering)]

    def _enough_hosts(self, recovering: Recovering) -> bool:
        """One host will do to bring back a part; after a burst it pays to wait a moment for the others."""
        if len(self.hosts) >= self.settings.hosts:
            return True
        if self.phase == "starting" or not self.hosts:
            return False
        return len(recovering.lost) < len(self.topology.shards) or self.now_ms - recovering.step_ms >= BURST_PATIENCE_MS

    def _restore(self, recovering: Recovering) -> list[do.Command]:
        plan = recovering.plan
        assert plan is not None
        commands: list[do.Command] = []
        if plan.mode == "application":
            self.checkpoints.went_back()
            self.restored = plan.checkpoint
            chosen = next((c for c in self.checkpoints.completed if c.id == plan.checkpoint), None)
            for unit, epoch in plan.base.items():
                self.pipeline.units[unit].finished = self.pipeline.units[unit].put_back = epoch
            commands.append(do.ResetStreams(dict(chosen.inflight) if chosen else {}, dict(plan.base)))
        staying = {s: h for s in plan.shards if (h := self.routing.host_of(s)) in self.hosts and h is not None}
        load = {
            h: len([s for s in self.routing.shards_on(h) if s not in plan.shards or s in staying]) for h in self.hosts
        }
        working = {h: n for h, n in load.items() if n} if self.phase != "starting" else {}
        idle = sorted(h for h in self.hosts if h not in working)
        if self.phase == "starting":
            idle = idle[: self.settings.hosts]
        placed = {**place([s for s in plan.shards if s not in staying], working, idle), **staying}
        self.routing = self.routing.moved(dict(placed))
        recovering.version = self.routing.version
        shards_of: dict[HostId, list[ShardId]] = {}
        for shard in sorted(placed):
            shards_of.setdefault(placed[shard], []).append(shard)
        recovering.restoring = set(shards_of)
        recovering.to_replay = set(plan.replay)
        for host, mine in sorted(shards_of.items()):
            retain = min(self.pipeline.consumed(self.topology.shards[s]) for s in mine)
            shards = tuple((self.routing.routes[s], plan.shards[s], plan.base[self.topology.shards[s]]) for s in mine)
            self.detector.work_began(host, self.now_ms, sum(saved.state_bytes for _, saved, _ in shards if saved))
            upto = {unit: last for unit, (_, last) in plan.replay.items()}
            commands.append(do.RestoreShards(host, self.routing.version, shards, Epoch(retain + 1), upto))
        if not placed:
            commands += self._recover()
        return commands

    def _run(self) -> list[do.Command]:
        commands: list[do.Command] = []
        if self.phase == "starting":
            return commands
        waiting = set()
        if self.recovering is not None:
            waiting = {self.topology.shards[s] for s in self.recovering.lost}
            if self.recovering.everything:
                waiting = set(self.pipeline.units)
        else:
            commands += self._snapshots()
        for unit in self.pipeline.units:
            epoch = self.pipeline.may_run(unit, self.now_ms)
            if epoch is None or unit in waiting or self.checkpoints.holds_back(unit, epoch):
                continue
            again = epoch <= self.pipeline.units[unit].tried
            if again and waiting & self.topology.above(unit):
                continue  # it may have to ask them once more, which have no answer yet
            attempt = self.pipeline.started(unit, epoch)
            newest = self.checkpoints.newest
            commands.append(
                do.RunEpoch(
                    unit,
                    epoch,
                    attempt,
                    self.routing,
                    release=self.pipeline.consumed(unit),
                    release_covered=newest.own_cut(unit) if newest else Epoch(0),
                    set_aside=frozenset(self.set_aside.get((unit, epoch), ())),
                    again=again,
                )
            )
        if self.pipeline.may_admit() and not (self.admitting or self.stopping or self.recovering):
            self.admitting = True
            commands.append(do.AdmitEpoch(Epoch(self.pipeline.admitted + 1)))
        return commands

    def _snapshots(self) -> tuple[do.Command, ...]:
        commands = (
            *self.checkpoints.snapshots_due(self.pipeline, self.routing),
            *self.checkpoints.saves_due(self.pipeline),
        )
        for command in commands:
            if isinstance(command, do.TakeSnapshots):
                size = self.checkpoints.last_size(command.unit, command.shards)
                self.detector.work_began(command.host, self.now_ms, size)
        return commands

    def _finish(self) -> list[do.Command]:
        """Everything admitted is done: one last checkpoint, so that the next start has nothing to replay; then stop."""
        if self.checkpoints.pending is not None:
            return []
        wanted = self.settings.final_checkpoint and self.final_failures < FINAL_CHECKPOINTS
        if wanted and self.checkpoints.worthwhile(self.pipeline):
            return [*self.checkpoints.last(self.now_ms, self.pipeline), *self._snapshots()]
        return list(self._end())

    def _end(self) -> tuple[do.Command, ...]:
        self.phase = "failed" if self.error else "stopped"
        return (do.StopApplication(self.error),)

    def check(self) -> None:
        """Assert the invariants; every test calls it after every event."""
        for part in (self.pipeline, self.detector, self.checkpoints, self.routing):
            part.check()
        if self.recovering is not None:
            self.recovering.check()
            assert self.checkpoints.pending is None or self.checkpoints.committing
            for shard in self.recovering.lost:
                state = self.pipeline.units[self.topology.shards[shard]]
                assert state.idle or state.replaying or state.cancelled or self.recovering.plan is None
        else:
            homeless = self.routing.hosts - self.hosts
            assert not homeless, f"shards without a living host: on {homeless}"
