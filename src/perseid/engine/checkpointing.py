"""The controller's part in checkpoints: start them when they are due, align the units, complete or abort them.

One checkpoint at a time. The decision where each unit's snapshot lies is the aligner's, what belongs to the checkpoint is
the pending checkpoint's; this module moves tokens between the first and acknowledgements into the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.checkpoint.alignment import Aligner, AlignmentCommand, ForwardToken
from perseid.checkpoint.life import CompletedCheckpoint, PendingCheckpoint
from perseid.checkpoint.schemes import Scheme
from perseid.engine.commands import AbortCheckpoint, Command, CommitCheckpoint, SaveInflight, TakeSnapshots, Trim
from perseid.engine.events import CheckpointCommitted, InflightSaved, SnapshotsForked, SnapshotWritten
from perseid.engine.pipeline import Pipeline
from perseid.graph.topology import Topology
from perseid.scaling.routing import Route, RoutingTable
from perseid.vocabulary import CheckpointId, Epoch, HostId, UnitName


@dataclass(slots=True)
class Checkpointing:
    """All checkpoints of an application: the one on its way, and those that are there."""

    topology: Topology
    scheme: Scheme
    keep: int
    next_id: CheckpointId
    completed: list[CompletedCheckpoint]  # newest first
    last_started_ms: int
    pending: PendingCheckpoint | None = None
    aligners: dict[UnitName, Aligner] = field(default_factory=dict)
    forking: dict[UnitName, set[HostId]] = field(default_factory=dict)  # hosts that have not said yet that they forked
    unsaved: list[SaveInflight] = field(default_factory=list)  # wait until their producer has finished the epoch
    committing: bool = False
    found: int = 0  # on the root, at the start
    trimmed_by: CheckpointId | None = (
        None  # the newest one ever completed here: what streams and outputs are trimmed by
    )

    def __post_init__(self) -> None:
        self.found = max(1, len(self.completed))
        self.trimmed_by = self.completed[0].id if self.completed else None

    @property
    def newest(self) -> CompletedCheckpoint | None:
        return self.completed[0] if self.completed else None

    def due(self, now_ms: int, pipeline: Pipeline) -> bool:
        """Is it time, and is there anything new to save?"""
        if self.pending is not None or not self.scheme.due(now_ms, self.last_started_ms):
            return False
        return self.worthwhile(pipeline)

    def worthwhile(self, pipeline: Pipeline) -> bool:
        newest = self.newest
        return any(s.position > (newest.cuts[u] if newest else 0) for u, s in pipeline.units.items())

    def start(self, now_ms: int, pipeline: Pipeline) -> tuple[Command, ...]:
        """Command all units at once; sources get their token with it."""
        self.last_started_ms = now_ms
        self.pending = PendingCheckpoint(
            self.next_id,
            now_ms,
            shards=self.topology.shards,
            streams=self.topology.streams,
            units=tuple(u.name for u in self.topology.units),
        )
        self.next_id = CheckpointId(self.next_id + 1)
        self.aligners = {
            u.name: Aligner(u.name, self.topology.upstream(u.name), self.scheme, pipeline.units[u.name].position)
            for u in self.topology.units
        }
        token = None
        if self.scheme.synchronous:  # one token for all sources, at an epoch none of their units has passed
            token = max(a.position for a in self.aligners.values() if not a.upstream)
        for aligner in self.aligners.values():
            self._route(aligner.start(token if not aligner.upstream else None))
        for aligner in self.aligners.values():
            self._cut_known(aligner)
        return self.saves_due(pipeline)

    def _route(self, commands: tuple[AlignmentCommand, ...]) -> None:
        """Carry tokens down."""
        for command in commands:
            if isinstance(command, ForwardToken):
                for unit in self.topology.downstream(command.unit):
                    self.aligners[unit].token_arrived(command.unit, command.epoch)
                    self._cut_known(self.aligners[unit])

    def _cut_known(self, aligner: Aligner) -> None:
        pending = self.pending
        if pending is None or aligner.cut is None or aligner.unit in pending.cuts:
            return
        found = pending.cut_known(aligner.unit, aligner.cut)
        self.unsaved += [SaveInflight(pending.id, stream, epoch) for stream, epoch in found]

    def saves_due(self, pipeline: Pipeline) -> tuple[Command, ...]:
        """In-flight epochs that are there by now; a cut may lie at an epoch that is still being worked on."""
        if not self.unsaved:
            return ()
        producers = {s.name: s.producer for s in self.topology.streams}
        due = [c for c in self.unsaved if pipeline.units[producers[c.stream]].finished >= c.epoch]
        self.unsaved = [c for c in self.unsaved if c not in due]
        return tuple(due)

    def holds_back(self, unit: UnitName, epoch: Epoch) -> bool:
        aligner = self.aligners.get(unit)
        return aligner is not None and aligner.holds_back(epoch)

    def snapshots_due(self, pipeline: Pipeline, routing: RoutingTable) -> tuple[Command, ...]:
        """Units that stand at their cut take their snapshots now."""
        if self.pending is None:
            return ()
        commands: list[Command] = []
        for unit, aligner in self.aligners.items():
            state = pipeline.units[unit]
            if not state.idle or unit in self.forking or not aligner.due(state.finished):
                continue
            hosts: dict[HostId, list[Route]] = {}
            for shard in self.topology.unit(unit).shards:
                route = routing.routes[shard]
                if route.host is not None:
                    hosts.setdefault(route.host, []).append(route)
            self.forking[unit] = set(hosts)
            commands += [
                TakeSnapshots(host, self.pending.id, unit, state.finished, tuple(hosts[host]), self.scheme.synchronous)
                for host in sorted(hosts)
            ]
            if not hosts:
                commands += self._unit_taken(unit)
        return tuple(commands)

    def forked(self, event: SnapshotsForked) -> tuple[Command, ...]:
        if self.pending is None or self.pending.id != event.checkpoint:
            return ()
        self.forking[event.unit].discard(event.host)
        return tuple(self._unit_taken(event.unit)) if not self.forking[event.unit] else ()

    def _unit_taken(self, unit: UnitName) -> list[Command]:
        self._route(self.aligners[unit].snapshot_taken())
        return self._complete()

    def written(self, event: SnapshotWritten) -> tuple[Command, ...]:
        if self.pending is None or self.pending.id != event.checkpoint:
            return ()
        self.pending.shard_saved(event.shard, event.snapshot)
        return tuple(self._complete())

    def inflight_saved(self, event: InflightSaved) -> tuple[Command, ...]:
        if self.pending is None or self.pending.id != event.checkpoint:
            return ()
        self.pending.inflight_saved(event.stream, event.epoch, event.path)
        return tuple(self._complete())

    def _complete(self) -> list[Command]:
        if self.pending is None or self.committing or not self.pending.complete:
            return []
        if not all(aligner.taken for aligner in self.aligners.values()):
            return []
        self.committing = True
        return [CommitCheckpoint(self.pending, self.scheme.name)]

    def committed(self, event: CheckpointCommitted) -> tuple[Trim, ...]:
        """Its manifest is durable: from now on recovery starts here, and older checkpoints may go."""
        pending = self.pending
        if pending is None or pending.id != event.checkpoint:
            return ()
        done = CompletedCheckpoint(pending.id, dict(pending.cuts), dict(pending.saved), dict(pending.inflight))
        self.completed.insert(0, done)
        self.trimmed_by = done.id
        dropped, self.completed[self.keep :] = self.completed[self.keep :], []
        self._clear()
        if len(self.completed) < self.keep:
            return ()  # the beginning of the streams still counts as one to fall back to
        return (Trim(tuple(c.id for c in dropped), self.completed[-1]),)

    def abort(self, reason: str) -> tuple[Command, ...]:
        """Give up the one on its way; one whose parts are all durable already needs nobody any more and goes on."""
        if self.pending is None or self.committing:
            return ()
        command = AbortCheckpoint(self.pending.id, reason)
        self._clear()
        return (command,)

    def discard(self, checkpoint: CheckpointId) -> None:
        """A completed checkpoint turned out to be corrupt."""
        self.completed = [c for c in self.completed if c.id != checkpoint]

    def _clear(self) -> None:
        self.pending, self.committing = None, False
        self.aligners, self.forking, self.unsaved = {}, {}, []

    def check(self) -> None:
        if self.pending is not None:
            self.pending.check()
        for aligner in self.aligners.values():
            aligner.check()
        ids = [c.id for c in self.completed]
        assert ids == sorted(ids, reverse=True)
        # A root may hold more than ``keep`` at a start, when old ones could not be deleted: they go with the next checkpoint.
        assert len(ids) <= max(self.keep, self.found)
