"""Which of many slow-downs of one host each detector notices, and what it declares besides (figures 12 and 13).

A spike takes a share of the host's time by stopping it within every tenth of a second. Both detectors look at the same spikes: heartbeats
by the switches they cause, benchmarking by a thread in the host.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.outages.chain import alarms_ms, parameters
from perseid.bench.outages.recovering import add
from perseid.bench.outages.running import Chain, Verdict
from perseid.bench.outages.sizes import UNITS, Sizes
from perseid.bench.outages.striking import slow_down

STRUCK = UNITS - 1
HEARTBEAT_MS = 110  # the paper's in this experiment
SPIKE_S, GAP_S = 1.0, 1.5
LATE_MS = 300.0  # a detection after a spike's end still belongs to it

Spike = tuple[float, float]


@dataclass(slots=True)
class Detected:
    """By one detector, at one load."""

    ratio: float  # of the spikes
    false_ratio: float  # of what it declared
    delay_ms: float | None  # from the beginning of a spike that was noticed


@dataclass(slots=True)
class Both:
    verdict: Verdict
    heartbeat: list[Detected] = field(default_factory=list)
    benchmarking: list[Detected] = field(default_factory=list)


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """By the share that is taken from the host."""
    if not sizes.loads:
        return
    found = side.call(detect, work, sizes.loads, sizes.spikes)
    for name, by_load in (("heartbeat", found.heartbeat), ("benchmarking", found.benchmarking)):
        for load, detected in zip(sizes.loads, by_load, strict=True):
            results.number(f"{name}_detection_{load}_ratio", detected.ratio, "of the slow-downs")
            results.number(f"{name}_false_{load}_ratio", detected.false_ratio, "of what it declared")
        delays = [one.delay_ms for one in by_load if one.delay_ms is not None]
        if delays:
            results.number(f"{name}_detection_ms", fmean(delays), "ms")
    add(found.verdict, results)


def detect(work: Path, loads: tuple[int, ...], spikes: int) -> Both:
    """On Perseid's side."""
    windows: list[tuple[float, float, list[Spike]]] = []
    with Chain(work, {STRUCK: parameters("hybrid", HEARTBEAT_MS, 500)}, spares=2, benchmarked=True) as one:
        for load in loads:
            from_ms, struck = time.time() * 1000, list[Spike]()
            for _ in range(spikes):
                time.sleep(GAP_S)
                pid = one.victim(STRUCK)()
                began = time.time() * 1000
                if pid is not None:
                    slow_down(pid, load, SPIKE_S)
                    struck.append((began, time.time() * 1000))
            time.sleep(GAP_S)
            windows.append((from_ms, time.time() * 1000, struck))
        alarms = alarms_ms(work)
    both = Both(one.verdict)
    for from_ms, to_ms, struck in windows:
        switched = [float(e["at_ms"]) for e in one.told("switched", from_ms, to_ms)]
        both.heartbeat.append(judge(switched, struck))
        both.benchmarking.append(judge([at for at in alarms if from_ms <= at < to_ms], struck))
    return both


def judge(declared: Sequence[float], spikes: Sequence[Spike]) -> Detected:
    """What a detector declared, against what there was."""
    delays, right = [], 0
    for began, ended in spikes:
        mine = [at for at in declared if began <= at <= ended + LATE_MS]
        right += len(mine)
        if mine:
            delays.append(mine[0] - began)
    wrong = len(declared) - right
    ratio = len(delays) / len(spikes) if spikes else 0.0
    return Detected(ratio, wrong / len(declared) if declared else 0.0, fmean(delays) if delays else None)
