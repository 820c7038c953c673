"""Notices of shards: where they are, how they come back, how an operator gets more or fewer of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.notices import Notice, plain
from perseid.recovery.plan import ApplicationRecovery, RecoveryPlan, replayed_epochs
from perseid.scaling.machine import ScaleRequest
from perseid.vocabulary import HostId, ShardId


@dataclass(frozen=True, slots=True)
class RecoveryStarted(Notice):
    """A recovery was planned. Every start of an application is one, too: its reason is ``start``."""

    reason: str
    plan: RecoveryPlan

    def record(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "reason": self.reason,
            "mode": plan.name,
            "shards": [str(shard) for shard in plan.shards],
            "checkpoint": plan.checkpoint,
            "lost_epochs": plan.lost_epochs if isinstance(plan, ApplicationRecovery) else 0,
        }


@dataclass(frozen=True, slots=True)
class RecoveryFinished(Notice):
    """Everything lost is back."""

    plan: RecoveryPlan
    duration_ms: int
    phases_ms: Mapping[str, int]
    start: bool = False  # it was the start of the application

    def record(self) -> dict[str, Any]:
        return {
            "mode": self.plan.name,
            "ms": self.duration_ms,
            "phases": dict(self.phases_ms),
            "replayed_epochs": replayed_epochs(self.plan),
            "start": self.start,
        }


@dataclass(frozen=True, slots=True)
class ShardsAssigned(Notice):
    """A host is to restore these shards."""

    host: HostId
    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class ShardsRestored(Notice):
    """A host has read snapshots: how many from where."""

    host: HostId
    copies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RestoreFailed(Notice):
    host: HostId
    error: str


@dataclass(frozen=True, slots=True)
class ScaleStarted(Notice):
    """An operator is to be scaled."""

    request: ScaleRequest

    def record(self) -> dict[str, Any]:
        request = self.request
        return {"operator": request.operator, "shards": len(request.slots), "reason": request.reason}


@dataclass(frozen=True, slots=True)
class Scaled(Notice):
    """An operator was scaled; whoever asked for it is told, too."""

    request: ScaleRequest
    before: int  # shards
    pause_ms: int  # so long its unit was held
    duration_ms: int

    def record(self) -> dict[str, Any]:
        return {
            "operator": self.request.operator,
            "before": self.before,
            "shards": len(self.request.slots),
            "pause_ms": self.pause_ms,
            "ms": self.duration_ms,
            "slots": plain(self.request.slots),
        }


@dataclass(frozen=True, slots=True)
class ScaleGivenUp(Notice):
    """The operator has the shards it had; ``again``: another attempt follows. Whoever asked for it is told, too."""

    request: ScaleRequest
    reason: str
    again: bool

    def record(self) -> dict[str, Any]:
        return {"operator": self.request.operator, "reason": self.reason, "again": self.again}
