"""Journal records as sentences. A record of an unknown kind, or without an expected field, is told generically."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from perseid.cli.figures import count, counted, duration, listed, size
from perseid.errors import headline

Record = Mapping[str, Any]

PHASES = ("detect", "reload", "read", "deserialise", "reconnect", "catch_up")


def sentence(record: Record) -> str:
    """What happened, in one sentence."""
    kind = str(record.get("kind", "?"))
    tell = _SENTENCES.get(kind)
    if tell is not None:
        try:
            return tell(record)
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # written by another version: the generic form always works
    return _generic(kind, record)


def tone(record: Record) -> str:
    """The colour a person should see it in."""
    kind = str(record.get("kind", ""))
    for colour, kinds in _TONES.items():
        if kind in kinds:
            return colour
    return "dim" if kind.startswith(("snapshot", "inflight")) else ""


_TONES = {
    "bold magenta": {"fault"},
    "red": {"host_lost", "operator_failed", "checkpoint_failed", "epoch_failed", "restore_failed", "storage_failed"},
    "yellow": {"recovery_started", "dead_letters", "malformed_lines", "warning", "period_too_short", "copy_wanted", "copy_lost",
               "switched", "given_up"},
    "green": {"recovery_finished", "checkpoint_committed", "host_ready", "copy_deployed", "rolled_back"},
    "bold": {"app_started", "app_stopped"},
    "dim": {"epoch_admitted", "epoch_committed", "trimmed", "host_load", "copy_refreshed", "journal_continues"},
}  # fmt: skip


def _generic(kind: str, record: Record) -> str:
    fields = [
        f"{name}={_short(value)}" for name, value in record.items() if name not in ("at_ms", "kind", "generation")
    ]
    return " ".join([kind.replace("_", " "), *fields])


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _shards(value: Any) -> str:
    if isinstance(value, int):
        return counted(value, "shard")
    if not value:
        return "no shards"
    return f"shard {value[0]}" if len(value) == 1 else f"shards {listed(value)}"


def _app_started(record: Record) -> str:
    parts = ", ".join(_amount(record[f"{noun}s"], noun) for noun in ("unit", "operator", "host"))
    what = f"application {record['app']} starts (generation {record['generation']}, {parts}) "
    if record.get("restored") is None:
        return what + "fresh"
    numbers = f"; its own are numbered from {record['next_checkpoint']} on" if "next_checkpoint" in record else ""
    return what + f"from checkpoint {record['restored']} at epoch {record['epoch']}{numbers}"


def _amount(value: Any, noun: str) -> str:
    return counted(value if isinstance(value, int) else len(value), noun)


def _recovery_started(record: Record) -> str:
    what = "the whole application" if record["mode"] == "application" else _shards(record["shards"])
    point = record.get("checkpoint")
    if record["reason"] == "start":
        return f"its state is loaded from checkpoint {point}" if point is not None else "its state begins empty"
    origin = f"from checkpoint {point}" if point is not None else "from the beginning"
    return f"recovery of {what} starts {origin}: {_told_once(str(record['reason']))}"


def _told_once(reason: str) -> str:
    """``host 1: it broke; host 2: it broke`` → ``hosts 1 and 2: it broke``."""
    found = [re.fullmatch(r"host (\d+): (.*)", part) for part in reason.split("; ")]
    if len(found) < 2 or None in found:
        return reason
    hosts: dict[str, list[str]] = {}
    for match in filter(None, found):
        hosts.setdefault(match[2], []).append(match[1])
    return "; ".join(f"host{'s' if len(ids) > 1 else ''} {listed(ids)}: {why}" for why, ids in hosts.items())


def _recovery_finished(record: Record) -> str:
    phases = record.get("phases") or {}
    known = [name for name in PHASES if name in phases] + [name for name in phases if name not in PHASES]
    parts = ", ".join(f"{name.replace('_', ' ')} {duration(phases[name])}" for name in known)
    replayed = f"; {counted(record['replayed_epochs'], 'epoch')} replayed"
    what = "ready after" if record.get("start") else "recovered in"
    return f"{what} {duration(record['ms'])}{f' ({parts})' if parts else ''}{replayed}"


def _epoch_admitted(record: Record) -> str:
    rows = f" with {counted(record['rows'], 'row')}" if record.get("rows") is not None else ""
    slices = record.get("slices") or {}
    if not isinstance(slices, Mapping):
        return f"epoch {record['epoch']} admitted{rows}"
    new = [f"{name} [{start}, {end})" for name, (start, end) in slices.items() if end > start]
    return f"epoch {record['epoch']} admitted{rows}" + (f": {listed(new)}" if new else "")


def _checkpoint_started(record: Record) -> str:
    epochs = record.get("epochs")
    at = ""
    if isinstance(epochs, Mapping) and epochs:
        different = set(epochs.values())
        at = f" at epoch {different.pop()}" if len(different) == 1 else ""
        at = at or " at epochs " + listed([f"{epoch} of {unit}" for unit, epoch in epochs.items()])
    elif epochs:
        at = f" at epoch {epochs}"
    return f"checkpoint {record['checkpoint']} starts{at}"


_REASONS: dict[str, Callable[[Record], str]] = {
    "period": lambda r: "its period has passed",
    "profiling": lambda r: "the period has ended; how the state rises and falls is not known yet",
    "static": lambda r: "the period has ended; no state rises and falls",
    "minimum": lambda r: (
        f"the state is small, {size(r['bytes'])} of at most {size(r['threshold'])},"
        + (f" and grows by {size(r['rate'])}/s" if r["rate"] > 0 else " as small as it becomes")
    ),
    "no_minimum": lambda r: f"the period has ended, and the state was not found below {size(r['threshold'])}",
    "recorded": lambda r: f"the smallest state of this period in the recording, {size(r['bytes'])}",
    "unrecorded": lambda r: "the period has ended, the recording before it",
    "own_period": lambda r: f"the period of unit {listed(r['units'])} has passed",
    "scale": lambda r: "an operator is scaled",
    "asked": lambda r: "somebody asked for one",
    "final": lambda r: "the application ends",
}


def _checkpoint_decided(record: Record) -> str:
    return f"checkpoint {record['checkpoint']} is due: {_REASONS[record['reason']](record)}"


def _profiled(record: Record) -> str:
    if not record["dynamic"]:
        return f"profile: none of {counted(record['shards'], 'shard')} has a state that rises and falls"
    return (
        f"profile over {counted(record['periods'], 'period')}: {listed(record['dynamic'])} rise and fall;"
        f" alert at {size(record['threshold'])} (lowest {size(record['lowest'])})"
    )


def _dead_letters(record: Record) -> str:
    timers = f" and {_amount(record['timers'], 'timer')}" if record.get("timers") else ""
    error = f": {record['error']}" if record.get("error") else ""
    shard = f", shard {record['shard']}" if "shard" in record else ""
    return (
        f"operator {record['operator']}{shard}: {_amount(record['rows'], 'row')}{timers} of epoch {record['epoch']}"
        f" put aside as dead letters{error}"
    )


def _copy_deploying(record: Record) -> str:
    fate = f"; both are in one {record['same_fate']}, so one loss may take both" if record.get("same_fate") else ""
    return f"host {record['copy']} is given a copy of host {record['primary']}'s shards{fate}"


def _copy_refreshed(record: Record) -> str:
    how = "whole" if record["full"] else "what changed"
    return (
        f"the copy of host {record['primary']} on host {record['copy']} has epoch {record['epoch']}:"
        f" {size(record['bytes'])} ({how}) in {duration(record['ms'])}"
    )


def _switched(record: Record) -> str:
    silent = f"silent for {duration(record['silent_ms'])}, " if record["silent_ms"] else ""
    return (
        f"host {record['copy']} answers instead of host {record['primary']} ({silent}{record['reason']});"
        f" its copy had epoch {record['epoch']}"
    )


_SENTENCES: dict[str, Callable[[Record], str]] = {
    "app_started": _app_started,
    "host_ready": lambda r: f"host {r['host']} is ready (pid {r['pid']}, {r['address']})",
    "host_lost": lambda r: f"host {r['host']} is lost: {r['reason']}",
    "shards_assigned": lambda r: f"host {r['host']} holds {_shards(r['shards'])}",
    "recovery_started": _recovery_started,
    "recovery_finished": _recovery_finished,
    "epoch_admitted": _epoch_admitted,
    "epoch_committed": lambda r: (
        f"epoch {r['epoch']} committed{f' in {duration(ms)}' if (ms := r['ms']) else ''}: "
        f"{counted(r['rows_in'], 'row')} in, {count(r['rows_out'])} out"
    ),
    "epoch_failed": lambda r: f"epoch {r['epoch']} of unit {r['unit']} failed (attempt {r['attempt']}): {r['error']}",
    "checkpoint_decided": _checkpoint_decided,
    "profiled": _profiled,
    "alert_began": lambda r: (
        f"alert: the state is {size(r['bytes'])}, not above {size(r['threshold'])}; the checkpoint waits for the moment"
    ),
    "moment_passed": lambda r: (
        f"the state was {size(r['bytes'])}; it is expected to be smaller once more before the period ends"
    ),
    "period_too_short": lambda r: (
        f"the checkpoint period of {duration(r['period_ms'])} is shorter than an epoch:"
        f" a checkpoint waited {duration(r['waited_ms'])} for epoch {r['epoch']} of unit {r['unit']}"
    ),
    "warning": lambda r: str(r["message"]),
    "fault": lambda r: str(r["what"]),
    "restore_failed": lambda r: f"host {r['host']} could not restore its shards: {r['error']}",
    "storage_failed": lambda r: f"storage failed, and is tried again ({r['command']}): {r['error']}",
    "scale_started": lambda r: f"operator {r['operator']} is to have {counted(r['shards'], 'shard')}: {r['reason']}",
    "scaled": lambda r: (
        f"operator {r['operator']} has {counted(r['shards'], 'shard')} instead of {r['before']};"
        f" its input paused for {duration(r['pause_ms'])}, all took {duration(r['ms'])}"
    ),
    "scale_given_up": lambda r: (
        f"operator {r['operator']} keeps its shards{' for now' if r['again'] else ''}: {r['reason']}"
    ),
    "host_load": lambda r: (
        f"host {r['host']} used {r['cpu']:.0%} of a core" + (f", {size(r['memory'])} of memory" if r.get("memory") else "")
    ),
    "host_released": lambda r: f"host {r['host']} is needed no more",
    "hot_key": lambda r: f"operator {r['operator']}: key {r['key']} has {r['share']:.0%} of the rows",
    "checkpoint_started": _checkpoint_started,
    "snapshots_ordered": lambda r: (
        f"checkpoint {r['checkpoint']}: host {r['host']} is to save unit {r['unit']} as of epoch {r['epoch']}"
    ),
    "snapshots_forked": lambda r: f"checkpoint {r['checkpoint']}: host {r['host']} goes on, its snapshots are on their way",
    "snapshot_awaited": lambda r: (
        f"checkpoint {r['checkpoint']}: an epoch waited {duration(r['ms'])} on host {r['host']} for its snapshots"
    ),
    "snapshot_written": lambda r: (
        f"checkpoint {r['checkpoint']}: snapshot of {r['shard']} written, {size(r['bytes'])} in {duration(r['ms'])}"
    ),
    "inflight_saved": lambda r: (
        f"checkpoint {r['checkpoint']}: epoch {r['epoch']} of stream {r['stream']} saved on its way, {size(r['bytes'])}"
    ),
    "backed_up": lambda r: f"host {r['host']} keeps a copy of {r['path']}, {size(r['bytes'])}",
    "shards_restored": lambda r: (
        f"host {r['host']} read " + ", ".join(f"{counted(n, 'snapshot')} ({kind})" for kind, n in r["copies"].items())
    ),
    "checkpoint_committed": lambda r: (
        f"checkpoint {r['checkpoint']} committed: {size(r['bytes'])} in {duration(r['ms'])}"
    ),
    "checkpoint_failed": lambda r: f"checkpoint {r['checkpoint']} failed: {r['error']}",
    "trimmed": lambda r: f"everything up to epoch {r['epoch']} is covered by checkpoints and was let go",
    "operator_failed": lambda r: (
        f"operator {r['operator']}, shard {r['shard']}, failed in epoch {r['epoch']}: {r['error']}"
    ),
    "dead_letters": _dead_letters,
    "malformed_lines": lambda r: (
        f"source {r['source']}: {_amount(r['lines'], 'line')} of epoch {r['epoch']} do not fit the schema and were put aside as dead"
        f" letters; the first: {r['first']}"
    ),
    "copy_wanted": lambda r: f"host {r['primary']} has no copy of its shards: {r['reason']}",
    "copy_deploying": _copy_deploying,
    "copy_deployed": lambda r: (
        f"host {r['copy']} has a copy of host {r['primary']}'s shards as of epoch {r['epoch']}:"
        f" {size(r['bytes'])} in {duration(r['ms'])}"
    ),
    "copy_refreshed": _copy_refreshed,
    "copy_lost": lambda r: f"host {r['primary']} has no copy on host {r['copy']} any more: {r['reason']}",
    "switched": _switched,
    "swapped": lambda r: f"host {r['copy']} is the primary instead of host {r['primary']}, which is its copy: {r['reason']}",
    "rolled_back": lambda r: (
        f"host {r['primary']} answers again, {duration(r['ms'])} after it was heard, with the state of epoch {r['epoch']}"
        f" from host {r['copy']}"
    ),
    "given_up": lambda r: f"host {r['host']} is replaced for good by host {r['promoted']}: {r['reason']}",
    "standby_changed": lambda r: f"operator {r['operator']} has standby {r['mode']} now",
    "journal_continues": lambda r: (
        f"another file of the journal begins: application {r['app']} (generation {r['generation']}) has"
        f" {counted(len(r['alive']), 'host')} and {counted(len(r['shards']), 'shard')}"
    ),
    "journal_dropped": lambda r: f"{counted(r['records'], 'record')} of the journal could not be written and are gone",
    "app_stopped": lambda r: (
        f"application stopped: {r['reason']}"
        + (f"; its last checkpoint failed: {headline(r['unsaved'])}" if r.get("unsaved") else "")
    ),
}  # fmt: skip
