"""What the clock says of a run: commits in, medians, rates, stalls and recoveries out. Nothing here runs anything.

A commit is the end of an epoch of Perseid (from its journal) or of a micro-batch of Spark (from its progress): both sides are
judged by the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Commit:
    """One epoch or micro-batch: when it was done, how long it took by its own account, and its rows."""

    at_ms: float
    ms: float
    rows: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """What one kill cost: seconds until the first new output, and how many epochs were fed again."""

    seconds: float
    replayed_epochs: int


def from_journal(entries: Iterable[Mapping[str, Any]]) -> list[Commit]:
    """The epochs that were committed, in order."""
    return [Commit(e["at_ms"], e["ms"], e["rows_in"]) for e in entries if e["kind"] == "epoch_committed"]


def from_progress(progress: Iterable[Mapping[str, Any]]) -> list[Commit]:
    """The micro-batches that had rows, in order; the trigger's whole execution is the batch's time."""
    batches = []
    for report in progress:
        if report["numInputRows"]:
            began_ms = datetime.fromisoformat(report["timestamp"]).timestamp() * 1000
            ms = float(report["durationMs"]["triggerExecution"])
            batches.append(Commit(began_ms + ms, ms, int(report["numInputRows"])))
    return batches


def rows_per_s(commits: Sequence[Commit], discard: int) -> float:
    """Rows a second by the wall clock, from the end of the last discarded commit to the end of the last one."""
    assert 0 < discard < len(commits), f"{len(commits)} commits are too few to discard {discard}"
    span_ms = commits[-1].at_ms - commits[discard - 1].at_ms
    return sum(c.rows for c in commits[discard:]) * 1000 / span_ms


def rows_per_s_within(commits: Sequence[Commit], from_ms: float, length_ms: float) -> float:
    """Rows a second in a window of time; an epoch that lies partly in it counts by its part."""
    rows = 0.0
    for before, commit in pairwise(commits):
        inside = min(commit.at_ms, from_ms + length_ms) - max(before.at_ms, from_ms)
        if inside > 0:
            rows += commit.rows * inside / (commit.at_ms - before.at_ms)
    return rows * 1000 / length_ms


def checkpoint_pairs(commits: Sequence[Commit], began_ms: Iterable[float], ms: float) -> list[tuple[float, float]]:
    """Rows a second from the beginning of every checkpoint for so long; and for as long before and after that, on average.

    With both sides of it, an application that becomes faster all the time is not taken for one that checkpoints hold up.
    """
    return [
        (
            rows_per_s_within(commits, began, ms),
            (rows_per_s_within(commits, began - ms, ms) + rows_per_s_within(commits, began + ms, ms)) / 2,
        )
        for began in began_ms
    ]


def gaps_ms(commits: Sequence[Commit], discard: int) -> list[float]:
    """From commit to commit: the whole cycle, whatever a side counts as its own time."""
    assert discard > 0
    return [after.at_ms - before.at_ms for before, after in pairwise(commits[discard - 1 :])]


def stalls_ms(entries: Iterable[Mapping[str, Any]]) -> list[float]:
    """How long each checkpoint held back epochs: from the order to snapshot until the last host had forked, and then the longest that
    the rows of an epoch waited on a host."""
    began: dict[int, float] = {}
    forked: dict[int, float] = {}
    awaited: dict[int, float] = {}
    for entry in entries:
        if entry["kind"] == "checkpoint_started":
            began[entry["checkpoint"]] = entry["at_ms"]
        elif entry["kind"] == "snapshots_forked":
            forked[entry["checkpoint"]] = entry["at_ms"]
        elif entry["kind"] == "snapshot_awaited":
            awaited[entry["checkpoint"]] = max(entry["ms"], awaited.get(entry["checkpoint"], 0))
    return [at_ms - began[checkpoint] + awaited.get(checkpoint, 0) for checkpoint, at_ms in forked.items()]


def recoveries(entries: Sequence[Mapping[str, Any]], kills_ms: Sequence[float]) -> list[Recovery]:
    """For every kill: until the first epoch that was committed after the recovery from it.

    What the other hosts had finished before and only then reached the sink does not count as new.
    """
    found = []
    for kill_ms in kills_ms:
        recovered = next(e for e in entries if e["kind"] == "recovery_finished" and e["at_ms"] > kill_ms)
        first = next(e for e in entries if e["kind"] == "epoch_committed" and e["at_ms"] >= recovered["at_ms"])
        found.append(Recovery((first["at_ms"] - kill_ms) / 1000, int(recovered["replayed_epochs"])))
    return found


def middle(values: Iterable[float]) -> float:
    """The median."""
    return float(median(values))
