"""Engines with one deliberate bug each: what the simulation is for is to find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest

from perseid.checkpoint.life import PendingCheckpoint
from perseid.engine import commands as do
from perseid.engine import controller as controller_module
from perseid.engine.controller import Controller
from perseid.engine.shard import Refusal, ShardLog
from perseid.graph.topology import Topology
from perseid.recovery.detection import Detector
from perseid.recovery.plan import Observation, RecoveryPlan, decide
from perseid.simulation.world import Engine
from perseid.vocabulary import Epoch, HostId, Version


class TrimsOneEpochTooEarly(Controller):
    """Streams are let go up to the epoch a consumer is still working on."""

    def _released(self) -> list[do.Command]:
        return [replace(c, epoch=Epoch(c.epoch + 1)) for c in super()._released()]  # type: ignore[type-var,call-arg]


class AppliesAnEpochTwice(ShardLog[int]):
    """Asked again for its newest epoch, a shard applies it again."""

    def ask(
        self, epoch: Epoch, version: Version, rows: int | None = None, *, wanted: bool = True
    ) -> Literal["apply", "answer"] | Refusal:
        return "apply" if epoch == self.applied and rows else super().ask(epoch, version, rows, wanted=wanted)

    def applied_epoch(self, epoch: Epoch, answer: int, rows: int | None = None) -> None:
        if epoch == self.applied:
            self.answers[epoch] = answer
        else:
            super().applied_epoch(epoch, answer, rows)


class BelievesEveryTask(ShardLog[int]):
    """A host that does not ask which version a request was planned under, nor whether all of its rows came."""

    def ask(
        self, epoch: Epoch, version: Version, rows: int | None = None, *, wanted: bool = True
    ) -> Literal["apply", "answer"] | Refusal:
        return super().ask(epoch, max(version, self.version), None, wanted=wanted)


def commits_a_manifest_before_its_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingCheckpoint, "complete", property(lambda pending: len(pending.cuts) == len(pending.units)))


def restores_mixed_versions(patch: pytest.MonkeyPatch) -> None:
    def mixed(topology: Topology, seen: Observation) -> RecoveryPlan:
        plan = decide(topology, seen)
        if len(seen.checkpoints) < 2 or plan.checkpoint is None or not plan.shards:
            return plan
        first = min(plan.shards)
        older = seen.checkpoints[1].shards.get(first)
        return plan if older is None else replace(plan, shards={**plan.shards, first: older})

    patch.setattr(controller_module, "decide", mixed)


def loses_epochs_in_flight(patch: pytest.MonkeyPatch) -> None:
    def cut_known(pending: PendingCheckpoint, unit: Any, epoch: Epoch) -> tuple[()]:
        pending.cuts[unit] = epoch
        return ()

    patch.setattr(PendingCheckpoint, "cut_known", cut_known)


def forgets_to_fence_a_host_that_wakes_up(patch: pytest.MonkeyPatch) -> None:
    def heartbeat_arrived(detector: Detector, host: HostId, now_ms: int) -> None:
        detector.seen_ms[host] = now_ms
        detector.suspects.discard(host)

    patch.setattr(Detector, "heartbeat_arrived", heartbeat_arrived)


def trims_by_the_newest_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """Sources are trimmed to the newest checkpoint, though older ones are kept to fall back to."""
    from perseid.engine.checkpointing import Checkpointing

    original = Checkpointing.committed

    def committed(checkpoints: Checkpointing, event: Any) -> tuple[do.Command, ...]:
        found = original(checkpoints, event)
        return tuple(replace(c, oldest=checkpoints.completed[0]) if isinstance(c, do.Trim) else c for c in found)

    patch.setattr(Checkpointing, "committed", committed)


BUGS: dict[str, Engine | Callable[[pytest.MonkeyPatch], None]] = {
    "trims one epoch too early": Engine(controller=TrimsOneEpochTooEarly),
    "trims by the newest checkpoint": trims_by_the_newest_checkpoint,
    "applies an epoch twice": Engine(shard_log=AppliesAnEpochTwice),
    "commits a manifest before its snapshots": commits_a_manifest_before_its_snapshots,
    "restores mixed versions": restores_mixed_versions,
    "loses epochs in flight": loses_epochs_in_flight,
    "forgets to fence a host that wakes up": forgets_to_fence_a_host_that_wakes_up,
    "believes every task": Engine(shard_log=BelievesEveryTask),
}
