"""What the journal of a run says of latencies, of recoveries and of a load over time. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When rows came: so many of them had by so many milliseconds."""

    rows: Sequence[float]
    at_ms: Sequence[float]

    @classmethod
    def at_rate(cls, entries: Sequence[Entry], rate: float) -> Arrivals:
        """Of a source with a rate: an epoch takes what is due, so the promptest of them says when the source began."""
        taken, began_ms = 0, float("inf")
        for entry in entries:
            if entry["kind"] == "epoch_admitted":
                taken += entry["rows"]
                began_ms = min(began_ms, entry["time_ms"] - taken * 1000 / rate)
        return cls((0, taken), (began_ms, began_ms + taken * 1000 / rate))


def latencies_ms(entries: Sequence[Entry], arrivals: Arrivals, from_ms: float = 0.0) -> np.ndarray:
    """From the arrival of a row to the commit of its epoch: in thousandths of the rows committed after ``from_ms``, a hundred by epoch."""
    found: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    seen = 0
    for entry in entries:
        if entry["kind"] != "epoch_committed":
            continue
        rows = seen + (np.arange(100) + 0.5) * entry["rows_in"] / 100
        seen += entry["rows_in"]
        if entry["at_ms"] >= from_ms and entry["rows_in"]:
            found.append(entry["at_ms"] - np.interp(rows, arrivals.rows, arrivals.at_ms))
            weights.append(np.full(100, entry["rows_in"]))
    assert found, "no epoch was committed in the time that is measured"
    values, weight = np.concatenate(found), np.concatenate(weights)
    order = np.argsort(values)
    return np.asarray(np.interp(np.linspace(0, 1, 1001), np.cumsum(weight[order]) / weight.sum(), values[order]))


def percentile(latencies: np.ndarray, percent: float) -> float:
    """Of what ``latencies_ms`` gave."""
    return float(np.interp(percent / 100, np.linspace(0, 1, len(latencies)), latencies))


def restored_ms(entries: Sequence[Entry], kill_ms: float) -> float:
    """From a kill until the state is what it was then: all that had been applied has been applied again (the paper's recovery time)."""
    ended = _next(entries, "recovery_finished", kill_ms)
    if ended["mode"] == "shards":
        return float(ended["at_ms"] - kill_ms)
    done = [e for e in entries if e["kind"] == "epoch_committed"]
    newest = max(e["epoch"] for e in done if e["at_ms"] <= kill_ms)
    again = next((e for e in done if e["at_ms"] > ended["at_ms"] and e["epoch"] >= newest), None)
    assert again is not None, "the application did not come back to where it was"
    return float(again["at_ms"] - kill_ms)


def replayed_rows(entries: Sequence[Entry], kill_ms: float) -> int:
    """How many rows a recovery had to apply again: of the epochs that were done before the kill and came after the checkpoint.

    Less than what had come since the checkpoint, where the application was behind its input: what was not done is not in the state.
    """
    ended = _next(entries, "recovery_finished", kill_ms)
    rows = {e["epoch"]: e["rows_in"] for e in entries if e["kind"] == "epoch_committed" and e["at_ms"] <= kill_ms}
    epochs = sorted(rows)
    again = epochs if ended["mode"] == "application" else epochs[len(epochs) - ended["replayed_epochs"] :]
    return int(sum(rows[epoch] for epoch in again))


def pace(entries: Sequence[Entry], rate: float, until_ms: float) -> float:
    """The share of the rows that had come by then, at this rate, that were done: an application that is behind has less to make good."""
    began = min(e["time_ms"] for e in entries if e["kind"] == "epoch_admitted")
    done = sum(e["rows_in"] for e in entries if e["kind"] == "epoch_committed" and e["at_ms"] <= until_ms)
    return float(done / (rate * (until_ms - began) / 1000))


def _next(entries: Sequence[Entry], kind: str, after_ms: float) -> Entry:
    found = next((e for e in entries if e["kind"] == kind and e["at_ms"] > after_ms), None)
    assert found is not None, f"no {kind} after the kill"
    return found


def throughput(entries: Sequence[Entry], step_s: float = 1.0) -> tuple[list[float], list[float]]:
    """Seconds since the first commit, and the rows committed a second in each step until then."""
    commits = [e for e in entries if e["kind"] == "epoch_committed"]
    began = commits[0]["at_ms"]
    ends = [(e["at_ms"] - began) / 1000 for e in commits]
    done = np.cumsum([e["rows_in"] for e in commits])
    at = np.arange(step_s, ends[-1], step_s)
    return at.tolist(), (np.diff(np.interp([0, *at], ends, done)) / step_s).tolist()


def shards_over_time(entries: Sequence[Entry], operator: str, shards: int) -> tuple[list[float], list[float]]:
    """Seconds since the first commit, and how many shards an operator has from then on."""
    began = next(e["at_ms"] for e in entries if e["kind"] == "epoch_committed")
    scaled = [e for e in entries if e["kind"] == "scaled" and e["operator"] == operator]
    last = max(e["at_ms"] for e in entries if e["kind"] == "epoch_committed")
    times = [0.0, *((e["at_ms"] - began) / 1000 for e in scaled), (last - began) / 1000]
    counts = [shards, *(e["shards"] for e in scaled)]
    return times, [*map(float, counts), float(counts[-1])]


def gap_around_ms(entries: Sequence[Entry], at_ms: float) -> float:
    """The longest time from one commit to the next around a moment: nothing new came out meanwhile."""
    commits = [e["at_ms"] for e in entries if e["kind"] == "epoch_committed"]
    near = [(a, b) for a, b in pairwise(commits) if a <= at_ms + 2_000 and b >= at_ms - 2_000]
    return float(max(b - a for a, b in near))
