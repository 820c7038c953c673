"""What the parts of the controller may know: a frozen view of the whole, made for one step.

A part (recovery, scaling, requests, what follows from failed jobs) owns its own state and sees all else through this. It cannot
change what it sees: it returns commands, and changes (``changes.py``) that are made for it (``make_changes``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.engine import commands as do
from perseid.engine.pipeline import Standings
from perseid.engine.settings import EngineSettings
from perseid.graph.topology import Topology
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import Attempt, CheckpointId, Epoch, HostId, OperatorName, ShardId, UnitName

SetAside = Mapping[tuple[UnitName, Epoch], frozenset[OperatorName]]


class CheckpointsSeen(Protocol):
    """What is known of checkpoints."""

    @property
    def completed(self) -> Sequence[CompletedCheckpoint]:
        """Newest first."""
        ...

    @property
    def newest(self) -> CompletedCheckpoint | None: ...

    @property
    def next_id(self) -> CheckpointId: ...

    @property
    def trimmed_by(self) -> CheckpointId | None:
        """The newest ever completed, corrupt or not: what streams and outputs are trimmed by."""
        ...

    @property
    def busy(self) -> bool:
        """Is one on its way that another would have to wait for?"""
        ...

    def worthwhile(self, pipeline: Standings) -> bool:
        """Is there anything new to save?"""
        ...


@dataclass(frozen=True, slots=True)
class Lost:
    """What a recovery is bringing back."""

    shards: frozenset[ShardId]
    reason: str


@dataclass(frozen=True, slots=True)
class View:
    """The controller as its parts see it."""

    now_ms: int
    topology: Topology
    settings: EngineSettings
    starting: bool
    stopping: bool
    hosts: frozenset[HostId]
    pool: Pool
    routing: RoutingTable
    pipeline: Standings
    checkpoints: CheckpointsSeen
    lost: Lost | None  # None: nothing is
    restored: CheckpointId | None  # the last recovery went back to it, and reads its in-flight epochs
    oldest_epoch: Epoch
    set_aside: SetAside
    numbers: Mapping[OperatorName, int]  # the highest ever given to a shard
    copy_hosts: frozenset[HostId] = frozenset()  # that have, or are to have, second copies of others' shards

    def own_cut(self, unit: UnitName) -> Epoch:
        """Where a unit would go back to if it alone were lost."""
        newest = self.checkpoints.newest
        return newest.own_cut(unit) if newest is not None else Epoch(0)

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
        aside = {e: operators for (u, e), operators in self.set_aside.items() if u == unit and first <= e <= last}
        release = self.pipeline.consumed(unit)
        return do.ReplayShards(unit, attempt, first, last, shards, routing, release, aside, again=again, beside=beside)
