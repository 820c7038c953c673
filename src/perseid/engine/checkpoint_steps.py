"""One checkpoint on its way, from its start to its manifest: tokens, forks, snapshots, in-flight epochs.

Its scope is the units it was started for: all of them, or, under an individual scheme (M2), some. Where each unit's snapshot lies is the
aligner's decision, what belongs to the checkpoint is the pending checkpoint's; this module moves tokens and acknowledgements between them.

Invariant: its manifest is asked for once, when every unit of its scope has been saved and every part is durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from perseid.checkpoint.alignment import Aligner, ForwardToken
from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.checkpoint.policy import Decision
from perseid.checkpoint.schemes import UnitSchemes
from perseid.engine.commands import CommitCheckpoint, SaveInflight, TakeSnapshots
from perseid.engine.events import InflightSaved, SnapshotsForked, SnapshotWritten
from perseid.engine.pipeline import Standings
from perseid.graph.topology import Topology
from perseid.scaling.routing import Route, RoutingTable
from perseid.vocabulary import CheckpointId, HostId, UnitName


@dataclass(slots=True)
class CheckpointSteps:
    """Takes one checkpoint from one step to the next."""

    topology: Topology
    decision: Decision  # why it was started
    pending: PendingCheckpoint
    aligners: Mapping[UnitName, Aligner]
    forking: dict[UnitName, set[HostId]] = field(default_factory=dict)  # hosts that have not said yet that they forked
    unsaved: list[SaveInflight] = field(default_factory=list)  # wait until their producer has finished the epoch
    done: CompletedCheckpoint | None = None  # what it will be: its manifest has been asked for

    @classmethod
    def started(
        cls,
        id: CheckpointId,
        decision: Decision,
        topology: Topology,
        schemes: UnitSchemes,
        pipeline: Standings,
        routing: RoutingTable,
        now_ms: int,
    ) -> CheckpointSteps:
        """Command all units at once; sources get their token with it. A unit alone has its token where it stands."""
        units = tuple(u for u in topology.units if decision.units is None or u.name in decision.units)
        together = decision.units is None
        pending = PendingCheckpoint(
            id,
            now_ms,
            shards={route.shard: u.name for u in units for operator in u.operators for route in routing.of(operator)},
            streams=topology.streams if together else (),
            units=tuple(u.name for u in units),
        )
        aligners = {
            u.name: Aligner(
                u.name,
                topology.upstream(u.name) if together else frozenset(),
                schemes.of(u.name).synchronous,
                # Shards may have applied an epoch whose try failed: they stand together again when it has been finished.
                # Shards may have applied an epoch whose try failed: they stand together again when it has been finished.
                max(pipeline.units[u.name].position, pipeline.units[u.name].tried),
            )
            for u in units
        }
        steps = cls(topology, decision, pending, aligners)
        # One token for all sources of units that stop, at an epoch none of these has passed.
        stopping = [a for a in aligners.values() if a.synchronous and not a.upstream]
        token = max((a.position for a in stopping), default=None)
        for aligner in aligners.values():
            steps._route(aligner.start(token if aligner in stopping else None))
        for aligner in aligners.values():
            steps._cut_known(aligner)
        return steps

    @property
    def id(self) -> CheckpointId:
        return self.pending.id

    @property
    def scope(self) -> tuple[UnitName, ...]:
        """The units that are in it."""
        return self.pending.units

    @property
    def complete(self) -> bool:
        """Is every part durable?"""
        return self.pending.complete and all(aligner.taken for aligner in self.aligners.values())

    # -- tokens ---------------------------------------------------------------------------------------------------

    def _route(self, tokens: Iterable[ForwardToken]) -> None:
        """Carry tokens down."""
        for token in tokens:
            for unit in self.topology.downstream(token.unit) & self.aligners.keys():
                self.aligners[unit].token_arrived(token.unit, token.epoch)
                self._cut_known(self.aligners[unit])

    def _cut_known(self, aligner: Aligner) -> None:
        pending = self.pending
        if aligner.cut is None or aligner.unit in pending.cuts:
            return
        found = pending.cut_known(aligner.unit, aligner.cut)
        self.unsaved += [SaveInflight(pending.id, stream, epoch) for stream, epoch in found]

    # -- what is due ----------------------------------------------------------------------------------------------

    def saves_due(self, pipeline: Standings) -> list[SaveInflight]:
        """In-flight epochs that are there by now; a cut may lie at an epoch that is still being worked on."""
        if not self.unsaved:
            return []
        producers = {s.name: s.producer for s in self.topology.streams}
        due = [c for c in self.unsaved if pipeline.units[producers[c.stream]].finished >= c.epoch]
        self.unsaved = [c for c in self.unsaved if c not in due]
        return due

    def units_due(self, pipeline: Standings) -> list[UnitName]:
        """Units that stand at their cut."""
        return [
            unit
            for unit, aligner in self.aligners.items()
            if unit not in self.forking and pipeline.units[unit].idle and aligner.due(pipeline.units[unit].finished)
        ]

    def take(self, unit: UnitName, pipeline: Standings, routing: RoutingTable) -> list[TakeSnapshots]:
        """A unit's hosts take its snapshots now."""
        hosts: dict[HostId, list[Route]] = {}
        for route in (r for operator in self.topology.unit(unit).operators for r in routing.of(operator)):
            if route.host is not None:
                hosts.setdefault(route.host, []).append(route)
        self.forking[unit] = set(hosts)
        if not hosts:
            self._taken(unit)
        epoch, synchronous = pipeline.units[unit].finished, self.aligners[unit].synchronous
        return [TakeSnapshots(host, self.id, unit, epoch, tuple(hosts[host]), synchronous) for host in sorted(hosts)]

    # -- what happened --------------------------------------------------------------------------------------------

    def forked(self, event: SnapshotsForked) -> None:
        self.forking[event.unit].discard(event.host)
        if not self.forking[event.unit]:
            self._taken(event.unit)

    def written(self, event: SnapshotWritten) -> None:
        self.pending.shard_saved(event.shard, event.snapshot)

    def inflight_saved(self, event: InflightSaved) -> None:
        self.pending.inflight_saved(event.stream, event.epoch, event.path)

    def _taken(self, unit: UnitName) -> None:
        self._route(self.aligners[unit].snapshot_taken())

    def committing(self, done: CompletedCheckpoint, scheme: str) -> CommitCheckpoint:
        """Its manifest is to be written: from now on nobody takes it back."""
        assert self.complete and self.done is None
        self.done = done
        whole = replace(
            self.pending,
            cuts=dict(done.cuts),
            saved=dict(done.shards),
            inflight=dict(done.inflight),
            units=tuple(done.cuts),
        )
        return CommitCheckpoint(whole, scheme, {unit: done.own_cut(unit) for unit in done.alone})

    def check(self) -> None:
        self.pending.check()
        for aligner in self.aligners.values():
            aligner.check()
