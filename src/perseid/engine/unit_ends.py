"""A unit's job failed, or a host died that was blamed for failures: what is lost with it, and when the epoch is tried again. Pure."""

from __future__ import annotations

from perseid.engine import events as on
from perseid.engine.changes import (
    Change,
    Failed,
    HostSuspected,
    HostUnreachable,
    InflightCorrupt,
    ReplayFailed,
    RowsSetAside,
    ShardsLost,
    UnitStands,
)
from perseid.engine.pipeline import UnitState
from perseid.engine.recovering import RETRY_PAUSE_LIMIT_MS, RETRY_PAUSE_MS
from perseid.engine.view import View
from perseid.vocabulary import Epoch, HostId, ShardId, UnitName

UNREACHABLE_FAILURES = 3
UNREPORTED_RETRIES = 2  # each takes as long as reports are waited for, and the next is no better
SETBACKS_LIMIT = 100  # hosts that are lost again and again in one epoch: it may be the epoch that kills them


def unit_failed(event: on.UnitFailed, seen: View) -> list[Change]:
    """An epoch or a replay did not come to its end."""
    before = seen.pipeline.units[event.unit]
    state = before._replace(running=None, replaying=False, cancelled=False)
    changes: list[Change] = [HostSuspected(host) for host in event.hosts]
    if before.replaying:
        changes.append(ReplayFailed(event.unit, event.message, cancelled=event.kind == "cancelled"))
    if event.kind == "fenced":
        return [UnitStands(event.unit, state), *changes, Failed(event.message)]
    changes += _lost(event, before, seen)
    reason = seen.lost.reason if before.cancelled and seen.lost is not None else ""
    state = state._replace(error=reason or (event.message.splitlines() or [event.kind])[0])
    gone = event.kind == "host" and not seen.hosts.intersection(event.hosts)
    if before.cancelled or gone or event.kind in ("poisoned", "cancelled"):  # what was lost is recovered: no failure
        state, ended = _set_back(event.unit, state)
        return [UnitStands(event.unit, state), *changes, *ended]
    return [*_failed_again(event, before, state, seen), *changes, *_unreachable(event, before)]


def _lost(event: on.UnitFailed, before: UnitState, seen: View) -> list[Change]:
    everything = frozenset(seen.routing.routes)
    match event.kind:
        case "operator" | "mistake" | "poisoned":
            known = seen.lost.shards if seen.lost is not None and not before.replaying else frozenset[ShardId]()
            if known.issuperset(event.shards):
                return []
            return [ShardsLost(frozenset(event.shards), event.message.splitlines()[0])]
        case "released":
            return [ShardsLost(everything, event.message, everything=True)]
        case "corrupt" if seen.restored is not None:  # an in-flight epoch: the checkpoint before has its own
            return [InflightCorrupt(seen.restored), ShardsLost(everything, event.message, everything=True)]
    return []


def _failed_again(event: on.UnitFailed, before: UnitState, state: UnitState, seen: View) -> list[Change]:
    """It counts: there is a pause, and the last try after some."""
    settings, failures = seen.settings, before.failures + 1
    blamed = {**before.blamed, **{host: before.blamed.get(host, 0) + 1 for host in event.hosts}}
    if failures >= UNREACHABLE_FAILURES:
        blamed = {host: count for host, count in blamed.items() if host not in event.hosts}
    pause_ms = min(RETRY_PAUSE_MS * 2 ** (failures - 1), RETRY_PAUSE_LIMIT_MS)
    state = state._replace(failures=failures, blamed=blamed, not_before_ms=seen.now_ms + pause_ms)
    limits = {
        "operator": settings.operator_retries,
        "mistake": 0,
        "storage": settings.storage_retries,
        "unreported": UNREPORTED_RETRIES,
    }
    raised = event.kind in ("operator", "mistake") and bool(event.shards)
    finding = raised and settings.dead_letters and not before.replaying
    epoch, operators = Epoch(before.finished + 1), frozenset(shard.operator for shard in event.shards)
    if finding and operators <= seen.set_aside.get((event.unit, epoch), frozenset()):
        return [UnitStands(event.unit, state), Failed(event.message)]  # it raises whatever is put aside
    if failures <= limits.get(event.kind, settings.epoch_retries):
        return [UnitStands(event.unit, state)]
    if finding:
        return [UnitStands(event.unit, state._replace(failures=0)), RowsSetAside(event.unit, epoch, operators)]
    return [UnitStands(event.unit, state), Failed(event.message)]


def _unreachable(event: on.UnitFailed, before: UnitState) -> list[Change]:
    """Hosts whose hearts beat, and yet no task gets through to them."""
    if before.failures + 1 < UNREACHABLE_FAILURES:
        return []
    return [HostUnreachable(host, event.message) for host in event.hosts]


def host_died(host: HostId, seen: View) -> list[Change]:
    """What failed because of it did not fail by itself."""
    changes: list[Change] = []
    for unit, state in seen.pipeline.units.items():
        if times := state.blamed.get(host, 0):
            failures = state.failures - times
            blamed = {h: count for h, count in state.blamed.items() if h != host}
            state = state._replace(
                blamed=blamed, failures=failures, not_before_ms=state.not_before_ms if failures else 0
            )
            state, ended = _set_back(unit, state, times)
            changes += [UnitStands(unit, state), *ended]
    return changes


def _set_back(unit: UnitName, state: UnitState, times: int = 1) -> tuple[UnitState, list[Change]]:
    """The epoch is tried again after a recovery; but not for ever, if it is the epoch that brings each of them about."""
    state = state._replace(setbacks=state.setbacks + times)
    if state.setbacks <= SETBACKS_LIMIT:
        return state, []
    return state, [
        Failed(
            f"unit {unit!r}: epoch {state.finished + 1} was tried {state.setbacks} times, and hosts or shards were lost"
            f" every time; does its operator end the process, or need more memory than a host has? The last: {state.error}"
        )
    ]
