"""The controller's part in checkpoints: start them when they are due, complete or abort them, remember those that are there.

The decision when is the policy's; the way of one checkpoint is ``CheckpointSteps``'s. Several may be on their way at once as long as none
has a unit in its scope that another has: under an individual scheme (M2) each is one unit's, and its manifest names the newest
line of such snapshots that fit together. Manifests are written in the order in which checkpoints were started, one at a time, so that the
newest on the root is always the one that knows of all others.

Invariant: scopes of pending checkpoints are disjoint; only the oldest pending one is being committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, replace
from itertools import pairwise

from perseid.checkpoint.acknowledgements import Hold
from perseid.checkpoint.lifecycle import CompletedCheckpoint, UnitSnapshot
from perseid.checkpoint.policy import Decision, Policy, Reason, Standing
from perseid.checkpoint.recovery_line import with_snapshot
from perseid.checkpoint.schemes import Scheme, UnitSchemes
from perseid.checkpoint.size_reports import SizeReport
from perseid.engine.checkpoint_steps import CheckpointSteps
from perseid.engine.commands import AbortCheckpoint, Trim
from perseid.engine.events import CheckpointCommitted, CheckpointFailed, InflightSaved, SnapshotsForked, SnapshotWritten
from perseid.engine.notices import CheckpointDecided, Outcome, PeriodTooShort
from perseid.engine.pipeline import Standings
from perseid.graph.topology import Topology
from perseid.scaling.routing import Route, RoutingTable
from perseid.vocabulary import CheckpointId, Epoch, ShardId, UnitName


@dataclass(slots=True)
class Checkpointing:
    """All checkpoints of an application: those on their way, and those that are there."""

    topology: Topology
    schemes: UnitSchemes
    keep: int
    next_id: CheckpointId
    completed: list[CompletedCheckpoint]  # newest first
    last_started_ms: int
    shards: InitVar[Iterable[ShardId]]
    pending: dict[CheckpointId, CheckpointSteps] = field(default_factory=dict)  # oldest first
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
        """Is one on its way that one of the whole application would have to wait for?"""
        return bool(self.pending)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Epochs that pending checkpoints have yet to save."""
        return tuple([hold for steps in self.pending.values() for hold in steps.pending.holds])

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
        free = self._free if self.scheme.individual or not self.pending else frozenset[UnitName]()
        if not free:
            return commands
        newest = min((pipeline.units[u].position for u in self.topology.source_units), default=pipeline.committed)
        if self.policy.decide(Standing(now_ms, free, newest)) is None:
            return commands  # not even if all have something new: this is asked after every event
        if not (self.scheme.individual or pipeline.settled):
            return commands
        decision = self.policy.decide(Standing(now_ms, self._moved(pipeline) & free, newest))
        return commands if decision is None else (*commands, *self.start(now_ms, pipeline, routing, decision))

    @property
    def _free(self) -> frozenset[UnitName]:
        """Units that no pending checkpoint has in its scope."""
        return self.everybody.difference(*(steps.scope for steps in self.pending.values()))

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

    # -- on their way ---------------------------------------------------------------------------------------------

    def start(self, now_ms: int, pipeline: Standings, routing: RoutingTable, decision: Decision) -> tuple[Outcome, ...]:
        """Command its units."""
        assert self._free >= (self.everybody if decision.units is None else decision.units)
        self.last_started_ms = now_ms
        made_of = (decision, self.topology, self.schemes, pipeline, routing, now_ms)
        steps = CheckpointSteps.started(self.next_id, *made_of)
        self.pending[steps.id] = steps
        self.next_id = CheckpointId(self.next_id + 1)
        began = CheckpointDecided(steps.id, decision)
        return (began, *self.policy.started(decision, now_ms), *steps.saves_due(pipeline))

    def saves_due(self, pipeline: Standings) -> tuple[Outcome, ...]:
        """In-flight epochs that can be saved now."""
        return tuple([command for steps in self.pending.values() for command in steps.saves_due(pipeline)])

    def holds_back(self, unit: UnitName, epoch: Epoch, now_ms: int) -> bool:
        """Must the unit wait before it starts this epoch: for its snapshot, or for a decision that may put its cut here?"""
        for steps in self.pending.values():
            if unit in steps.aligners:
                return steps.aligners[unit].holds_back(epoch)
        return unit in self.topology.source_units and self.policy.ponders(now_ms)

    def snapshots_due(self, pipeline: Standings, routing: RoutingTable) -> tuple[Outcome, ...]:
        """Units that stand at their cut take their snapshots now."""
        commands: list[Outcome] = []
        for steps in self.pending.values():
            for unit in steps.units_due(pipeline):
                commands += self._waited(steps, unit, pipeline.units[unit].finished)
                commands += steps.take(unit, pipeline, routing)
        return (*commands, *self._commit()) if self.pending else ()  # a unit without shards is saved by standing there

    def last_size(self, unit: UnitName, routes: tuple[Route, ...]) -> int | None:
        """How large these shards were when they were last saved; None if they never were."""
        return self.newest.own_size(unit, {route.shard: route.slots for route in routes}) if self.newest else None

    def _waited(self, steps: CheckpointSteps, unit: UnitName, epoch: Epoch) -> list[Outcome]:
        """A period shorter than an epoch gets fewer checkpoints than it asks for: say so, once."""
        waited_ms = self.now_ms - steps.pending.started_ms
        if self.warned or waited_ms <= self.scheme.period.ms:
            return []
        self.warned = True
        return [PeriodTooShort(unit, epoch, waited_ms, self.scheme.period.ms)]

    def forked(self, event: SnapshotsForked) -> tuple[Outcome, ...]:
        steps = self.pending.get(event.checkpoint)
        if steps is None:
            return ()
        steps.forked(event)
        return self._commit()

    def still_forking(self, event: SnapshotsForked) -> bool:
        """Have other hosts of the unit not forked yet?"""
        steps = self.pending.get(event.checkpoint)
        return steps is not None and bool(steps.forking.get(event.unit))

    def written(self, event: SnapshotWritten) -> tuple[Outcome, ...]:
        steps = self.pending.get(event.checkpoint)
        if steps is None:
            return ()
        steps.written(event)
        return self._commit()

    def incomplete(self, checkpoint: CheckpointId) -> bool:
        """Is it on its way, with parts missing?"""
        return checkpoint in self.pending and not self.pending[checkpoint].complete

    def inflight_saved(self, event: InflightSaved) -> tuple[Outcome, ...]:
        steps = self.pending.get(event.checkpoint)
        if steps is None:
            return ()
        steps.inflight_saved(event)
        return self._commit()

    @property
    def oldest_pending(self) -> CheckpointSteps | None:
        return next(iter(self.pending.values()), None)

    @property
    def committing(self) -> bool:
        """Is a manifest being written?"""
        return self.oldest_pending is not None and self.oldest_pending.done is not None

    def _commit(self) -> tuple[Outcome, ...]:
        """The oldest on its way first: the line that its manifest names is made of what came before."""
        steps = self.oldest_pending
        if steps is None or steps.done is not None or not steps.complete:
            return ()
        return (steps.committing(self._done(steps), self.scheme.name),)

    def _done(self, steps: CheckpointSteps) -> CompletedCheckpoint:
        """What a pending checkpoint is once it is committed."""
        pending = steps.pending
        if steps.decision.units is None:
            return CompletedCheckpoint(pending.id, dict(pending.cuts), dict(pending.saved), dict(pending.inflight))
        (unit,) = pending.units
        own = UnitSnapshot(frozenset({pending.id}), pending.cuts[unit], dict(pending.saved))
        return with_snapshot(self.topology, self.newest, pending.id, unit, own)

    # -- how they end ---------------------------------------------------------------------------------------------

    def committed(self, event: CheckpointCommitted) -> tuple[list[Trim], tuple[Outcome, ...]]:
        """Its manifest is durable: from now on recovery starts here, and older checkpoints may go. The next may be written."""
        steps = self.pending.get(event.checkpoint)
        if steps is None:
            return [], ()
        assert steps.done is not None and steps is self.oldest_pending
        done = steps.done
        self.completed.insert(0, done)
        self.trimmed_by = done.id
        dropped = []
        while len(self.completed) > self.keep and self._enough(self.completed[:-1]):
            dropped.append(self.completed.pop())
        self.retired |= {id for c in dropped for id in (c.id, *c.needs)} - {c.id for c in self.completed}
        del self.pending[done.id]
        following = self._commit()
        if not self._enough(self.completed):
            return [], following  # the beginning of the streams still counts as one to fall back to
        needed = frozenset().union(*(c.needs for c in self.completed))
        gone, self.retired = self.retired - needed, self.retired & needed
        # A corrupt one that was passed over may come back with the next driver, and lie behind newer ones in time but not
        # in epochs: what is let go is what none of them needs.
        cuts = {unit: min(c.cuts[unit] for c in self.completed) for unit in done.cuts}
        return [Trim(tuple(sorted(gone)), replace(self.completed[-1], cuts=cuts))], following

    def _enough(self, kept: list[CompletedCheckpoint]) -> bool:
        """Are so many kept that every unit has ``keep`` snapshots of its own to fall back to?"""
        if not self.scheme.individual:
            return len(kept) >= self.keep
        return all(len({c.cuts[unit] for c in kept}) >= self.keep for unit in self.everybody)

    def failed(self, event: CheckpointFailed) -> list[Outcome] | None:
        """A part could not be made durable: give that checkpoint up. None if it is not on its way any more."""
        steps = self.pending.get(event.checkpoint)
        if steps is None:
            return None
        return [self._given_up(steps, event.message), *self._commit()]

    def abort(self, reason: str) -> list[Outcome]:
        """Give up what is on its way; one whose parts are all durable already needs nobody any more and goes on."""
        return [self._given_up(steps, reason) for steps in list(self.pending.values()) if steps.done is None]

    def _given_up(self, steps: CheckpointSteps, reason: str) -> AbortCheckpoint:
        del self.pending[steps.id]
        self.retired.add(steps.id)  # a child may write its snapshot after all: with the next trim that goes, too
        self.policy.aborted(steps.decision, self.now_ms)
        return AbortCheckpoint(steps.id, reason)

    def discard(self, checkpoint: CheckpointId) -> None:
        """A completed checkpoint turned out to be corrupt."""
        self.completed = [c for c in self.completed if c.id != checkpoint]

    def went_back(self) -> None:
        """The whole application goes back to the newest line: what single units have saved since is not where they stand."""
        if self.completed:
            self.completed[0] = replace(self.completed[0], alone={})

    def check(self) -> None:
        self.policy.check()
        scopes = [unit for steps in self.pending.values() for unit in steps.scope]
        assert len(scopes) == len(set(scopes)), f"units in two pending checkpoints: {scopes}"
        for number, steps in enumerate(self.pending.values()):
            steps.check()
            assert steps.done is None or number == 0
        for newer, older in pairwise(self.completed):
            assert newer.id > older.id
        # A root may hold more than ``keep`` at a start, when old ones could not be deleted: they go with the next checkpoint.
        assert len(self.completed) <= max(self.keep, self.found) or self.scheme.individual
