"""The story of a run: events, commands and faults as records of a journal, as ``perseid replay`` reads them
(``driver.journal_writer``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.recovery.plan import replayed_epochs
from perseid.simulation.faults import Planned, told

Entry = tuple[int, int, object]  # when, which generation of the driver (0: the world), what


def records(log: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """What is worth telling."""
    for at_ms, generation, what in log:
        found = _record(what)
        if found is not None:
            kind, fields = found
            yield {"at_ms": at_ms, "kind": kind, "generation": generation, **fields}


def _record(what: object) -> tuple[str, dict[str, Any]] | None:
    match what:
        case Planned(fault):
            return "fault", {"what": told(fault)}
        case on.HostRegistered(host):
            return "host_ready", {"host": host, "pid": "-", "address": "simulated"}
        case on.UnitFailed(unit, epoch, attempt, _, message):
            return "epoch_failed", {"epoch": epoch, "unit": unit, "attempt": attempt, "error": message}
        case on.CheckpointFailed(checkpoint, message):
            return "checkpoint_failed", {"checkpoint": checkpoint, "error": message}
        case on.RestoreFailed(host, _, message):
            return "restore_failed", {"host": host, "error": message}
        case on.UnitFinished(unit, epoch):
            return "epoch_finished", {"unit": unit, "epoch": epoch}
        case on.CheckpointCommitted(checkpoint):
            return "checkpoint_done", {"checkpoint": checkpoint}
        case do.DropHost(host, reason):
            return "host_lost", {"host": host, "reason": reason}
        case do.RestoreShards(host, _, shards):
            return "shards_assigned", {"host": host, "shards": [str(route.shard) for route, _, _ in shards]}
        case do.ScaleBegan(request):
            shape = {"operator": request.operator, "shards": len(request.slots)}
            return "scale_started", {**shape, "reason": request.reason}
        case do.ScaleEnded(request, before, pause_ms, ms):
            change = {"operator": request.operator, "before": before, "shards": len(request.slots)}
            return "scaled", {**change, "pause_ms": pause_ms, "ms": ms}
        case do.ScaleGivenUp(request, reason, again):
            return "scale_given_up", {"operator": request.operator, "reason": reason, "again": again}
        case do.RecoveryBegan(reason, plan):
            names = [str(s) for s in plan.shards]
            return "recovery_started", {
                "reason": reason,
                "mode": plan.name,
                "shards": names,
                "checkpoint": plan.checkpoint,
            }
        case do.RecoveryEnded(plan, ms, phases):
            return "recovery_finished", {"ms": ms, "phases": dict(phases), "replayed_epochs": replayed_epochs(plan)}
        case do.AbortCheckpoint(checkpoint, reason):
            return "checkpoint_failed", {"checkpoint": checkpoint, "error": reason}
        case do.Trim(_, oldest):
            return "trimmed", {"epoch": min(oldest.cuts.values())}
        case do.StopApplication(error):
            return "app_stopped", {"reason": error or "finished"}
        case _:
            return None
