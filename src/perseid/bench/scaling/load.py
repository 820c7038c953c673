"""Operators that scale by themselves: under a load that rises, one that overwhelms, with other thresholds, and against shards that were
given by hand (S5; figures 6 to 10)."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import perseid
from perseid.apps.word_frequency.graph import made_up_fragments
from perseid.bench.measuring import ours
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.scaling.applications import likeness
from perseid.bench.scaling.reading import Arrivals, latencies_ms, percentile, shards_over_time, throughput
from perseid.bench.scaling.sizes import Sizes
from perseid.scaling.bottleneck import AutoScaling
from perseid.sources.generator import Generator
from perseid.vocabulary import Offset

MOST = 4
PERCENTILES = (50, 95, 99)


class Rising(Generator):
    """A generator whose rate rises from one number of rows a second to another within a time, and stays there."""

    def rising(self, rates: tuple[float, float], seconds: float) -> Rising:
        self.rates, self.seconds = rates, seconds
        return self

    def due(self, elapsed_s: float) -> float:
        """Rows that have come by then."""
        low, high = self.rates
        rising_s = min(elapsed_s, self.seconds)
        return low * rising_s + (high - low) * rising_s**2 / (2 * self.seconds) + high * (elapsed_s - rising_s)

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        if self._began is None:
            self._began = (start, now_ms)
        first, began_ms = self._began
        self._due = max(self._due, first + int(self.due((now_ms - began_ms) / 1000)))
        return Offset(max(start, self._due if max_rows is None else min(self._due, start + max_rows)))


@dataclass(frozen=True, slots=True)
class Seen:
    """A run over time, in seconds since its first commit."""

    rows_per_s: tuple[list[float], list[float]]
    shards: tuple[list[float], list[float]]

    @classmethod
    def of(cls, journal: list[dict[str, Any]], operator: str) -> Seen:
        return cls(throughput(journal), shards_over_time(journal, operator, 1))


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of the same run."""

    percentiles_ms: list[float]
    middles_ms: tuple[list[float], list[float]]  # over time: of the row in the middle of every epoch


def measure_rising(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Figures 6 and 7."""
    low, high = sizes.rising
    seen, latencies = side.call(rise, work, sizes.rising, sizes.rising_s)
    at_s, rows_per_s = seen.rows_per_s
    results.series("rising_at_s", at_s)
    results.series("rising_rows_per_s", rows_per_s)
    results.series("rising_input_rows_per_s", [low + (high - low) * min(1, t / sizes.rising_s) for t in at_s])
    _shards("rising", seen, results)
    results.series("rising_latency_at_s", latencies.middles_ms[0])
    results.series("rising_latency_ms", latencies.middles_ms[1])
    for percent, value in zip(PERCENTILES, latencies.percentiles_ms, strict=True):
        results.number(f"rising_p{percent}_ms", value, "ms")


def _shards(name: str, seen: Seen, results: Results) -> None:
    results.series(f"{name}_shards_at_s", seen.shards[0])
    results.series(f"{name}_shards", seen.shards[1])
    results.number(f"{name}_final_shards", seen.shards[1][-1], "shards")


def rise(work: Path, rates: tuple[int, int], seconds: float) -> tuple[Seen, Latencies]:
    """On Perseid's side."""
    made = made_up_fragments(words=200)
    source = Rising(made.columns).rising(rates, seconds)
    running = ours.start(likeness(source), work, hosts=1, scaling=perseid.scaling.auto(most=MOST))
    ours.wait_for(running, lambda p: p.epoch > 0)
    time.sleep(seconds + 5)
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    began = min(e["time_ms"] for e in journal if e["kind"] == "epoch_admitted")
    times = np.linspace(0, seconds + 60, 2000)
    arrivals = Arrivals([source.due(t) for t in times], [began + t * 1000 for t in times])
    commits = [e for e in journal if e["kind"] == "epoch_committed"]
    middles = np.cumsum([e["rows_in"] for e in commits]) - np.array([e["rows_in"] for e in commits]) / 2
    lag = np.array([e["at_ms"] for e in commits]) - np.interp(middles, arrivals.rows, arrivals.at_ms)
    found = latencies_ms(journal, arrivals)
    over_time = ([(e["at_ms"] - commits[0]["at_ms"]) / 1000 for e in commits], lag.tolist())
    latencies = Latencies([percentile(found, percent) for percent in PERCENTILES], over_time)
    return Seen.of(journal, "likeness"), latencies


def measure_open(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Figure 8."""
    seen, taken, dropped = side.call(overwhelm, work, sizes.open_rate, sizes.open_s)
    results.series("open_at_s", seen.rows_per_s[0])
    results.series("open_rows_per_s", seen.rows_per_s[1])
    results.number("open_offered_rows_per_s", sizes.open_rate, "rows/s")
    _shards("open", seen, results)
    results.number("open_dropped_percent", 100 * dropped / (dropped + taken), "%")


def overwhelm(work: Path, rate: int, seconds: float) -> tuple[Seen, int, int]:
    """On Perseid's side: rows come at a rate that nobody asks whether it can be borne; one second of them may wait.

    The paper's top-k is no limit here: one shard counts more edits than two cores can read. Comparing texts is.
    """
    fragments = perseid.sources.open_loop(made_up_fragments(words=200), rate=rate, backlog=rate)
    running = ours.start(likeness(fragments), work, hosts=1, scaling=perseid.scaling.auto(most=MOST))
    ours.wait_for(running, lambda p: p.epoch > 0)
    time.sleep(seconds)
    taken, dropped = fragments.passed, fragments.dropped
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    return Seen.of(journal, "likeness"), taken, dropped


def measure_thresholds(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Figure 9."""
    _warm(side, work, sizes)
    for threshold in sizes.thresholds:
        _hold(
            f"threshold_{round(threshold * 100)}",
            side,
            work,
            sizes,
            results,
            perseid.scaling.auto(threshold, most=MOST),
        )


def measure_manual(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Figure 10."""
    _warm(side, work, sizes)
    for shards in sizes.manual:
        _hold(f"manual_{shards}", side, work, sizes, results, None, shards)
    _hold("dynamic", side, work, sizes, results, perseid.scaling.auto(most=MOST))


def _warm(side: Contestant, work: Path, sizes: Sizes) -> None:
    """The first run would be the slowest, whatever it is of."""
    side.call(hold, work / "warm", sizes.threshold_rate // 2, sizes.threshold_s / 2, None, 1)


def _hold(
    name: str, side: Contestant, work: Path, sizes: Sizes, results: Results, scaling: AutoScaling | None, first: int = 1
) -> None:
    shards, latencies = side.call(hold, work / name, sizes.threshold_rate, sizes.threshold_s, scaling, first)
    results.number(f"{name}_shards", shards, "shards")
    for percent, value in zip(PERCENTILES, latencies, strict=True):
        results.number(f"{name}_p{percent}_ms", value, "ms")


def hold(work: Path, rate: int, seconds: float, scaling: AutoScaling | None, first: int) -> tuple[int, list[float]]:
    """On Perseid's side: a steady load, and so many shards to begin with; how many there are at the end, and the latencies."""
    running = ours.start(likeness(rate=rate, shards=first), work, hosts=first, scaling=scaling)
    ours.wait_for(running, lambda p: p.epoch > 0)
    time.sleep(seconds)
    shards = sum(len(host.shards) for host in running.progress().hosts)
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    from_ms = next(e["at_ms"] for e in journal if e["kind"] == "epoch_committed") + 3_000
    found = latencies_ms(journal, Arrivals.at_rate(journal, rate), from_ms)
    return shards, [percentile(found, percent) for percent in PERCENTILES]
