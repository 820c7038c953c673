"""The controller's part in checkpoints: start them when they are due, align the units, complete or abort them.

One checkpoint at a time. The decision when is the policy's, where each unit's snapshot lies is the aligner's, what belongs to
the checkpoint is the pending checkpoint's; this module moves tokens and acknowledgements between them. Under an individual
scheme (M2) a checkpoint is one unit's, and its manifest names the newest line of such snapshots that fit together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, replace
from itertools import pairwise

from perseid.checkpoint.acknowledgements import Hold
from perseid.checkpoint.alignment import Aligner, AlignmentCommand, ForwardToken
from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint, UnitSnapshot
from perseid.checkpoint.policy import Decision, Policy, Reason, Standing
from perseid.checkpoint.recovery_line import with_snapshot
from perseid.checkpoint.schemes import Scheme, UnitSchemes
from perseid.checkpoint.size_reports import SizeReport
from perseid.engine.commands import (
    AbortCheckpoint,
    CommitCheckpoint,
    SaveInflight,
    TakeSnapshots,
    Trim,
)
from perseid.engine.events import CheckpointCommitted, CheckpointFailed, InflightSaved, SnapshotsForked, SnapshotWritten
from perseid.engine.notices import CheckpointDecided, Outcome, PeriodTooShort
from perseid.engine.pipeline import Standings
from perseid.graph.topology import Topology
from perseid.scaling.routing import Route, RoutingTable
from perseid.vocabulary import CheckpointId, Epoch, HostId, ShardId, UnitName


@dataclass(slots=True)
class Checkpointing:
    """All checkpoints of an application: the one on its way, and those that are there."""

    topology: Topology
    schemes: UnitSchemes
    keep: int
    next_id: CheckpointId
    completed: list[CompletedCheckpoint]  # newest first
    last_started_ms: int
    shards: InitVar[Iterable[ShardId]]
    pending: PendingCheckpoint | None = None
    aligners: dict[UnitName, Aligner] = field(default_factory=dict)
    forking: dict[UnitName, set[HostId]] = field(default_factory=dict)  # hosts that have not said yet that they forked
    unsaved: list[SaveInflight] = field(default_factory=list)  # wait until their producer has finished the epoch
    committing: bool = False
    done: CompletedCheckpoint | None = None  # what the pending one will be, once its manifest is durable
    decision: Decision | None = None  # why the pending one was started
    trimmed_by: CheckpointId | None = None  # the newest ever completed here: what streams and outputs are trimmed by
    retired: set[CheckpointId] = field(default_factory=set)  # given up, or not kept though newer ones need their files
    found: int = 0  # at the start: a driver may die before it trims
    now_ms: int = 0
    warned: bool = False  # that the period is shorter than an epoch
    policy: Policy = field(init=False)
    everybody: frozenset[UnitName] = field(init=False)

    def __post_init__(self, shards: Iterable[ShardId]) -> None:
        self.trimmed_by = self.completed[0].id if self.completed else None
        self.found = max(1, len(self.completed))
        self.everybody = frozenset(u.name for u in self.topology.units)
        self.policy = self.schemes.policy(self.topology, frozenset(shards), self.last_started_ms)

    @property
    def scheme(self) -> Scheme:
        """The application's."""
        return self.schemes.application

    @property
    def busy(self) -> bool:
        """Is one on its way that another would have to wait for?"""
        return self.pending is not None

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Epochs that a pending checkpoint has yet to save."""
        return self.pending.holds if self.pending is not None else ()

    @property
    def newest(self) -> CompletedCheckpoint | None:
        return self.completed[0] if self.completed else None

    # -- when -----------------------------------------------------------------------------------------------------

    def running(self, now_ms: int) -> tuple[Outcome, ...]:
        """The application runs, again."""
        return self.policy.begin(now_ms)

    def sized(self, report: SizeReport, now_ms: int) -> tuple[Outcome, ...]:
        return self.policy.take_in(report, now_ms)

    def repartitioned(self, shards: Iterable[ShardId], now_ms: int) -> tuple[Outcome, ...]:
        return self.policy.repartitioned(frozenset(shards), now_ms)

    def start_if_due(self, now_ms: int, pipeline: Standings, routing: RoutingTable) -> tuple[Outcome, ...]:
        """Is it time, and is there anything new to save?"""
        self.now_ms = now_ms
        commands = self.policy.advance(now_ms)
        if self.pending is not None:
            return commands
        newest = min((pipeline.units[u].position for u in self.topology.source_units), default=pipeline.committed)
        if self.policy.decide(Standing(now_ms, self.everybody, newest)) is None:
            return commands  # not even if all have something new: this is asked after every event
        if not (self.scheme.individual or pipeline.settled):
            return commands
        decision = self.policy.decide(Standing(now_ms, self._moved(pipeline), newest))
        return commands if decision is None else (*commands, *self.start(now_ms, pipeline, routing, decision))

    def worthwhile(self, pipeline: Standings) -> bool:
        return bool(self._moved(pipeline))

    def _moved(self, pipeline: Standings) -> frozenset[UnitName]:
        newest = self.newest
        return frozenset(
            u for u, s in pipeline.units.items() if s.position > (newest.own_cut(u) if newest else Epoch(0))
        )

    def last(self, now_ms: int, pipeline: Standings, routing: RoutingTable) -> tuple[Outcome, ...]:
        """The application ends: save what is new."""
        moved = self._moved(pipeline)
        one = next((u.name for u in self.topology.units if u.name in moved), None) if self.scheme.individual else None
        return self.start(now_ms, pipeline, routing, Decision(Reason.FINAL, frozenset({one}) if one else None))

    # -- where ----------------------------------------------------------------------------------------------------

    def start(self, now_ms: int, pipeline: Standings, routing: RoutingTable, decision: Decision) -> tuple[Outcome, ...]:
        """Command all units at once; sources get their token with it. A unit alone has its token where it stands."""
        self.last_started_ms, self.decision = now_ms, decision
        units = tuple(u for u in self.topology.units if decision.units is None or u.name in decision.units)
        together = decision.units is None
        self.pending = PendingCheckpoint(
            self.next_id,
            now_ms,
            shards={route.shard: u.name for u in units for operator in u.operators for route in routing.of(operator)},
            streams=self.topology.streams if together else (),
            units=tuple(u.name for u in units),
        )
        self.next_id = CheckpointId(self.next_id + 1)
        self.aligners = {
            u.name: Aligner(
                u.name,
                self.topology.upstream(u.name) if together else frozenset(),
                self.schemes.of(u.name).synchronous,
                pipeline.units[u.name].position,
            )
            for u in units
        }
        # One token for all sources of units that stop, at an epoch none of these has passed.
        stopping = [a for a in self.aligners.values() if a.synchronous and not a.upstream]
        token = max((a.position for a in stopping), default=None)
        for aligner in self.aligners.values():
            self._route(aligner.start(token if aligner in stopping else None))
        for aligner in self.aligners.values():
            self._cut_known(aligner)
        began = CheckpointDecided(self.pending.id, decision)
        return (began, *self.policy.started(decision, now_ms), *self.saves_due(pipeline))

    def _route(self, commands: tuple[AlignmentCommand, ...]) -> None:
        """Carry tokens down."""
        for command in commands:
            if isinstance(command, ForwardToken):
                for unit in self.topology.downstream(command.unit) & self.aligners.keys():
                    self.aligners[unit].token_arrived(command.unit, command.epoch)
                    self._cut_known(self.aligners[unit])

    def _cut_known(self, aligner: Aligner) -> None:
        pending = self.pending
        if pending is None or aligner.cut is None or aligner.unit in pending.cuts:
            return
        found = pending.cut_known(aligner.unit, aligner.cut)
        self.unsaved += [SaveInflight(pending.id, stream, epoch) for stream, epoch in found]

    def saves_due(self, pipeline: Standings) -> tuple[Outcome, ...]:
        """In-flight epochs that are there by now; a cut may lie at an epoch that is still being worked on."""
        if not self.unsaved:
            return ()
        producers = {s.name: s.producer for s in self.topology.streams}
        due = [c for c in self.unsaved if pipeline.units[producers[c.stream]].finished >= c.epoch]
        self.unsaved = [c for c in self.unsaved if c not in due]
        return tuple(due)

    def holds_back(self, unit: UnitName, epoch: Epoch, now_ms: int) -> bool:
        """Must the unit wait before it starts this epoch: for its snapshot, or for a decision that may put its cut here?"""
        aligner = self.aligners.get(unit)
        if aligner is None:
            return unit in self.topology.source_units and self.policy.ponders(now_ms)
        return aligner.holds_back(epoch)

    def snapshots_due(self, pipeline: Standings, routing: RoutingTable) -> tuple[Outcome, ...]:
        """Units that stand at their cut take their snapshots now."""
        if self.pending is None:
            return ()
        commands: list[Outcome] = []
        for unit, aligner in self.aligners.items():
            state = pipeline.units[unit]
            if not state.idle or unit in self.forking or not aligner.due(state.finished):
                continue
            commands += self._waited(unit, state.finished)
            hosts: dict[HostId, list[Route]] = {}
            for route in (r for operator in self.topology.unit(unit).operators for r in routing.of(operator)):
                if route.host is not None:
                    hosts.setdefault(route.host, []).append(route)
            self.forking[unit] = set(hosts)
            commands += [
                TakeSnapshots(host, self.pending.id, unit, state.finished, tuple(hosts[host]), aligner.synchronous)
                for host in sorted(hosts)
            ]
            if not hosts:
                commands += self._unit_taken(unit)
        return tuple(commands)

    def last_size(self, unit: UnitName, routes: tuple[Route, ...]) -> int | None:
        """How large these shards were when they were last saved; None if they never were."""
        return self.newest.own_size(unit, {route.shard: route.slots for route in routes}) if self.newest else None

    def _waited(self, unit: UnitName, epoch: Epoch) -> list[Outcome]:
        """A period shorter than an epoch gets fewer checkpoints than it asks for: say so, once."""
        assert self.pending is not None
        waited_ms = self.now_ms - self.pending.started_ms
        if self.warned or waited_ms <= self.scheme.period.ms:
            return []
        self.warned = True
        return [PeriodTooShort(unit, epoch, waited_ms, self.scheme.period.ms)]

    def forked(self, event: SnapshotsForked) -> tuple[Outcome, ...]:
        if self.pending is None or self.pending.id != event.checkpoint:
            return ()
        self.forking[event.unit].discard(event.host)
        return tuple(self._unit_taken(event.unit)) if not self.forking[event.unit] else ()

    def _unit_taken(self, unit: UnitName) -> list[Outcome]:
        self._route(self.aligners[unit].snapshot_taken())
        return self._complete()

    def written(self, event: SnapshotWritten) -> tuple[Outcome, ...]:
        if self.pending is None or self.pending.id != event.checkpoint:
            return ()
        self.pending.shard_saved(event.shard, event.snapshot)
        return tuple(self._complete())

    def inflight_saved(self, event: InflightSaved) -> tuple[Outcome, ...]:
        if self.pending is None or self.pending.id != event.checkpoint:
            return ()
        self.pending.inflight_saved(event.stream, event.epoch, event.path)
        return tuple(self._complete())

    def _complete(self) -> list[Outcome]:
        if self.pending is None or self.committing or not self.pending.complete:
            return []
        if not all(aligner.taken for aligner in self.aligners.values()):
            return []
        self.committing = True
        done = self.done = self._done(self.pending)
        whole = replace(
            self.pending,
            cuts=dict(done.cuts),
            saved=dict(done.shards),
            inflight=dict(done.inflight),
            units=tuple(done.cuts),
        )
        covered = {unit: done.own_cut(unit) for unit in done.alone}
        return [CommitCheckpoint(whole, self.scheme.name, covered)]

    def _done(self, pending: PendingCheckpoint) -> CompletedCheckpoint:
        """What the pending checkpoint is once it is committed."""
        if self.decision is None or self.decision.units is None:
            return CompletedCheckpoint(pending.id, dict(pending.cuts), dict(pending.saved), dict(pending.inflight))
        (unit,) = pending.units
        own = UnitSnapshot(frozenset({pending.id}), pending.cuts[unit], dict(pending.saved))
        return with_snapshot(self.topology, self.newest, pending.id, unit, own)

    def committed(self, event: CheckpointCommitted) -> tuple[Trim, ...]:
        """Its manifest is durable: from now on recovery starts here, and older checkpoints may go."""
        pending = self.pending
        if pending is None or pending.id != event.checkpoint:
            return ()
        done = self.done or self._done(pending)
        self.completed.insert(0, done)
        self.trimmed_by = done.id
        dropped = []
        while len(self.completed) > self.keep and self._enough(self.completed[:-1]):
            dropped.append(self.completed.pop())
        self.retired |= {id for c in dropped for id in (c.id, *c.needs)} - {c.id for c in self.completed}
        self._clear()
        if not self._enough(self.completed):
            return ()  # the beginning of the streams still counts as one to fall back to
        needed = frozenset().union(*(c.needs for c in self.completed))
        gone, self.retired = self.retired - needed, self.retired & needed
        # A corrupt one that was passed over may come back with the next driver, and lie behind newer ones in time but not
        # in epochs: what is let go is what none of them needs.
        cuts = {unit: min(c.cuts[unit] for c in self.completed) for unit in done.cuts}
        return (Trim(tuple(sorted(gone)), replace(self.completed[-1], cuts=cuts)),)

    def _enough(self, kept: list[CompletedCheckpoint]) -> bool:
        """Are so many kept that every unit has ``keep`` snapshots of its own to fall back to?"""
        if not self.scheme.individual:
            return len(kept) >= self.keep
        return all(len({c.cuts[unit] for c in kept}) >= self.keep for unit in self.everybody)

    def failed(self, event: CheckpointFailed) -> bool:
        """A part could not be made durable. Was it one of a checkpoint that is on its way?"""
        if self.pending is None or self.pending.id != event.checkpoint:
            return False
        self.committing = False
        return True

    def abort(self, reason: str) -> tuple[Outcome, ...]:
        """Give up the one on its way; one whose parts are all durable already needs nobody any more and goes on."""
        if self.pending is None or self.committing:
            return ()
        command = AbortCheckpoint(self.pending.id, reason)
        self.retired.add(self.pending.id)  # a child may write its snapshot after all: with the next trim that goes, too
        if self.decision is not None:
            self.policy.aborted(self.decision, self.now_ms)
        self._clear()
        return (command,)

    def discard(self, checkpoint: CheckpointId) -> None:
        """A completed checkpoint turned out to be corrupt."""
        self.completed = [c for c in self.completed if c.id != checkpoint]

    def went_back(self) -> None:
        """The whole application goes back to the newest line: what single units have saved since is not where they stand."""
        if self.completed:
            self.completed[0] = replace(self.completed[0], alone={})

    def _clear(self) -> None:
        self.pending, self.committing, self.decision, self.done = None, False, None, None
        self.aligners, self.forking, self.unsaved = {}, {}, []

    def check(self) -> None:
        self.policy.check()
        if self.pending is not None:
            self.pending.check()
        for aligner in self.aligners.values():
            aligner.check()
        for newer, older in pairwise(self.completed):
            assert newer.id > older.id
        # A root may hold more than ``keep`` at a start, when old ones could not be deleted: they go with the next checkpoint.
        assert len(self.completed) <= max(self.keep, self.found) or self.scheme.individual
