"""What goes back to where after a loss (M6, S4).

Two ways back. *Shards*: only what was lost is restored from its last snapshot and fed the epochs since, while all others stay
where they are (S4: recovery is scale out to one). *Application*: every unit goes back to one checkpoint and the
sources replay (M6). The first is taken wherever the input of the lost shards since the checkpoint can be had again:
read from a source or a durable stream, or computed from the answers that the hosts of the operators above keep. What lies
between the cut of the unit above and the cut of the lost one is in the checkpoint itself (M4: in-flight epochs), so that both
may be lost at once. Only transient streams, and what was kept for a newer checkpoint that proved corrupt, take the whole application back.

Invariant: every restored shard comes from one committed checkpoint (or from none: a fresh start, which is said aloud).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from perseid.checkpoint.lifecycle import CompletedCheckpoint, SnapshotPart
from perseid.graph.topology import Topology
from perseid.vocabulary import CheckpointId, Epoch, ShardId, SlotRange, UnitName


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known when the plan is made."""

    finished: Mapping[UnitName, Epoch]
    lost: frozenset[ShardId]
    slots: Mapping[ShardId, SlotRange]  # of every shard there is
    checkpoints: Sequence[CompletedCheckpoint]  # newest first, those known to be corrupt left out
    newest: CheckpointId | None  # of all that were completed, corrupt or not: what trimming went by
    everything: bool  # the whole application must go back (start, or a stream that cannot be had again)
    oldest_epoch: Epoch  # the first epoch whose input can still be read


@dataclass(frozen=True, slots=True)
class ShardRecovery:
    """Only the lost shards go back: restore them from these parts of snapshots (none: fresh), feed them what they missed."""

    name: ClassVar[str] = "shards"  # for people

    checkpoint: CheckpointId | None
    shards: Mapping[ShardId, tuple[SnapshotPart, ...]]
    base: Mapping[UnitName, Epoch]  # where the restored shards stand
    replay: Mapping[UnitName, tuple[Epoch, Epoch]]  # epochs to feed to them, first and last


@dataclass(frozen=True, slots=True)
class ApplicationRecovery:
    """Every unit goes back: restore all shards from these parts of snapshots (none: fresh), then go on from these epochs."""

    name: ClassVar[str] = "application"

    checkpoint: CheckpointId | None
    shards: Mapping[ShardId, tuple[SnapshotPart, ...]]
    base: Mapping[UnitName, Epoch]  # where every unit stands then
    lost_epochs: int = 0  # epochs whose effect is gone for good because no good checkpoint covers them


RecoveryPlan = ShardRecovery | ApplicationRecovery


def replayed_epochs(plan: RecoveryPlan) -> int:
    """How many epochs a plan feeds to restored shards."""
    return sum(last - first + 1 for first, last in plan.replay.values()) if isinstance(plan, ShardRecovery) else 0


def decide(topology: Topology, seen: Observation) -> RecoveryPlan:
    """Choose the way back."""
    affected = topology.units_of(seen.lost)
    best = seen.checkpoints[0] if seen.checkpoints else None
    if not seen.everything and all(_replayable(topology, unit, seen, best) for unit in affected):
        base = {u: best.own_cut(u) if best else Epoch(0) for u in affected}
        return ShardRecovery(
            checkpoint=best.id if best else None,
            shards={s: _own_parts(topology, best, s, seen.slots[s]) for s in sorted(seen.lost)},
            base=base,
            replay={u: (Epoch(base[u] + 1), seen.finished[u]) for u in sorted(affected) if base[u] < seen.finished[u]},
        )
    base = {u.name: best.cuts[u.name] if best else Epoch(seen.oldest_epoch - 1) for u in topology.units}
    return ApplicationRecovery(
        checkpoint=best.id if best else None,
        shards={s: best.parts(s.operator, slots) if best else () for s, slots in sorted(seen.slots.items())},
        base=base,
        lost_epochs=0 if best else seen.oldest_epoch - 1,
    )


def _own_parts(
    topology: Topology, best: CompletedCheckpoint | None, shard: ShardId, slots: SlotRange
) -> tuple[SnapshotPart, ...]:
    return best.own_parts(topology.unit_of(shard.operator), shard.operator, slots) if best else ()


def _replayable(topology: Topology, unit: UnitName, seen: Observation, best: CompletedCheckpoint | None) -> bool:
    """Can the lost shards of this unit be fed again, alone?"""
    if best is None and seen.oldest_epoch > 1:
        return False
    newest = (best.id if best else None) == seen.newest
    inputs = [s for s in topology.streams if s.consumer == unit]
    if not all(topology.can_be_had_again(s) and (newest or s.durable) for s in inputs):
        return False
    shape = topology.unit(unit)
    lost_operators = {s.operator for s in seen.lost if s.operator in shape.operators}
    stands_on_state = any(shape.feeders.get(operator) for operator in lost_operators)
    return newest or not stands_on_state  # outputs of operators above are kept since the newest checkpoint only
