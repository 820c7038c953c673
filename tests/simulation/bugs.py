"""Engines with one deliberate bug each: what the simulation is for is to find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest

from perseid.checkpoint.lifecycle import PendingCheckpoint
from perseid.engine import commands as do
from perseid.engine import recovery_steps
from perseid.engine.admission import Admission
from perseid.engine.changes import Step
from perseid.engine.controller import Controller
from perseid.engine.notices import Outcome
from perseid.engine.scaling_steps import ScalingSteps
from perseid.engine.shard import Refusal, ShardLog
from perseid.engine.storage_steps import StorageSteps
from perseid.engine.view import View
from perseid.graph.topology import Topology
from perseid.recovery.detection import Detector
from perseid.recovery.plan import Observation, RecoveryPlan, decide
from perseid.scaling.machine import Scaling
from perseid.scaling.routing import RoutingTable
from perseid.simulation.values import State
from perseid.simulation.world import Engine
from perseid.vocabulary import Epoch, HostId, Version


class TrimsOneEpochTooEarly(Controller):
    """Streams are let go up to the epoch a consumer is still working on."""

    def released(self) -> list[Outcome]:
        released = [c for c in super().released() if isinstance(c, do.ReleaseStream)]
        return [do.ReleaseStream(c.stream, Epoch(c.epoch + 1)) for c in released]


class AppliesAnEpochTwice(ShardLog[State]):
    """Asked again for its newest epoch, a shard applies it again."""

    def ask(
        self, epoch: Epoch, version: Version, rows: int | None = None, *, wanted: bool = True
    ) -> Literal["apply", "answer"] | Refusal:
        return "apply" if epoch == self.applied and rows else super().ask(epoch, version, rows, wanted=wanted)

    def applied_epoch(self, epoch: Epoch, answer: State, rows: int | None = None) -> None:
        if epoch == self.applied:
            self.answers[epoch] = answer
        else:
            super().applied_epoch(epoch, answer, rows)


class BelievesEveryTask(ShardLog[State]):
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
        older = seen.checkpoints[1].parts(first.operator, seen.slots[first])
        return replace(plan, shards={**plan.shards, first: older}) if older else plan

    patch.setattr(recovery_steps, "decide", mixed)


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

    def committed(checkpoints: Checkpointing, event: Any) -> tuple[list[do.Trim], tuple[Any, ...]]:
        trims, following = original(checkpoints, event)
        return [replace(trim, oldest=checkpoints.completed[0]) for trim in trims], following

    patch.setattr(Checkpointing, "committed", committed)


def switches_before_new_shards_have_caught_up(patch: pytest.MonkeyPatch) -> None:
    def catch_up(steps: ScalingSteps, scaling: Scaling, upto: Epoch, seen: View) -> list[Step]:
        scaling.upto, scaling.reached = upto, dict.fromkeys(scaling.reached, upto)
        return []

    patch.setattr(ScalingSteps, "_catch_up", catch_up)


def gives_two_attempts_to_scale_one_version(patch: pytest.MonkeyPatch) -> None:
    moved = RoutingTable.moved
    patch.setattr(RoutingTable, "moved", lambda table, hosts: moved(table, hosts) if hosts else table)


def commits_a_manifest_before_its_epochs(patch: pytest.MonkeyPatch) -> None:
    """After a crash in between nobody would commit them any more."""
    original = StorageSteps.__init__

    def init(steps: StorageSteps, *args: Any) -> None:
        original(steps, *args)
        steps._write_commits = lambda: None

    patch.setattr(StorageSteps, "__init__", init)


def forgets_event_times_where_a_checkpoint_is_faster(patch: pytest.MonkeyPatch) -> None:
    """Epochs that a checkpoint covers are committed for it, without what is known of them."""
    original = Admission.write_commits

    def write_commits(admission: Admission) -> None:
        admission._commits = [replace(c, event_times_ms={}) for c in admission._commits]
        original(admission)

    patch.setattr(Admission, "write_commits", write_commits)


BUGS: dict[str, Engine | Callable[[pytest.MonkeyPatch], None]] = {
    "trims one epoch too early": Engine(controller=TrimsOneEpochTooEarly),
    "trims by the newest checkpoint": trims_by_the_newest_checkpoint,
    "applies an epoch twice": Engine(shard_log=AppliesAnEpochTwice),
    "commits a manifest before its snapshots": commits_a_manifest_before_its_snapshots,
    "commits a manifest before its epochs": commits_a_manifest_before_its_epochs,
    "forgets event times where a checkpoint is faster": forgets_event_times_where_a_checkpoint_is_faster,
    "restores mixed versions": restores_mixed_versions,
    "loses epochs in flight": loses_epochs_in_flight,
    "forgets to fence a host that wakes up": forgets_to_fence_a_host_that_wakes_up,
    "switches before new shards have caught up": switches_before_new_shards_have_caught_up,
    "gives two attempts to scale one version": gives_two_attempts_to_scale_one_version,
    "believes every task": Engine(shard_log=BelievesEveryTask),
}
