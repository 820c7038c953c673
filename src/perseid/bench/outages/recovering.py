"""How long a unit gives no output when its host is stopped, and of which parts that consists (figures 7 to 10).

Two figures for each stop. *Recovery* is by how much longer the epoch took that the stop held up than epochs do without a stop (the median
of the same run): so much later rows come out. *Next output* is from the stop to the first epoch that the unit finishes after the switch:
with the usual time of an epoch, and the wait for the next one to begin. Its parts: until the switch is decided (*detect*), until somebody
answers (*resume* a copy, or deploy a host), until the epoch is done (*retransmit* and reprocess). A hybrid standby resumes with the switch
itself.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.outages.chain import parameters
from perseid.bench.outages.running import Chain, Verdict
from perseid.bench.outages.sizes import Sizes
from perseid.bench.outages.striking import stopped

HELD_S = 1.0
BACK_S = 6.0


@dataclass(slots=True)
class Recovered:
    """Of several stops."""

    verdict: Verdict
    late_ms: list[float] = field(default_factory=list)
    output_ms: list[float] = field(default_factory=list)
    detect_ms: list[float] = field(default_factory=list)
    resume_ms: list[float] = field(default_factory=list)
    retransmit_ms: list[float] = field(default_factory=list)
    rollback_ms: list[float] = field(default_factory=list)
    epoch_ms: float = 0.0  # how long an epoch takes, in the median


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """At the paper's heartbeat and refresh interval, one unit alone; then others, and the whole chain."""
    for mode in ("hybrid", "passive", "active"):
        found = side.call(recover, work / mode, mode, 100, 500, sizes.rounds, 1)
        _say(mode, found, results)
    for heartbeat in sizes.heartbeats_ms:
        for mode in ("hybrid", "passive"):
            found = side.call(recover, work / f"{mode}-{heartbeat}", mode, heartbeat, 500, sizes.other_rounds, 1)
            _say(f"heartbeat_{heartbeat}_{mode}", found, results)
    for refresh in sizes.refreshes_ms:
        for mode in ("hybrid", "passive"):
            found = side.call(recover, work / f"{mode}-r{refresh}", mode, 100, refresh, sizes.other_rounds, 1)
            _say(f"refresh_{refresh}_{mode}", found, results)
    if sizes.chain_rounds:
        _say("chain_hybrid", side.call(recover, work / "chain", "hybrid", 100, 500, sizes.chain_rounds, 4), results)


def _say(name: str, found: Recovered, results: Results) -> None:
    results.sample(f"{name}_recovery_ms", *found.late_ms, unit="ms")
    results.sample(f"{name}_next_output_ms", *found.output_ms, unit="ms")
    results.number(f"{name}_next_output_worst_ms", max(found.output_ms), "ms")
    results.number(f"{name}_usual_epoch_ms", found.epoch_ms, "ms")
    for part in ("detect", "resume", "retransmit"):
        values = getattr(found, f"{part}_ms")
        if values:
            results.number(f"{name}_{part}_ms", fmean(values), "ms")
    if found.rollback_ms:
        results.sample("rollback_ms" if name == "hybrid" else f"{name}_rollback_ms", *found.rollback_ms, unit="ms")
    add(found.verdict, results)


def add(verdict: Verdict, results: Results) -> None:
    """Rows that are not as they should be, of all runs; and the worst pace."""
    numbers = results.numbers
    for name, more in (("lost_rows", verdict.lost), ("doubled_rows", verdict.doubled)):
        numbers[name] = numbers.get(name, 0) + more
    numbers["pace"] = min(numbers.get("pace", 1.0), round(verdict.pace, 3))


def recover(work: Path, mode: str, heartbeat_ms: int, refresh_ms: int, rounds: int, units: int) -> Recovered:
    """On Perseid's side: the host of the last unit but one is stopped so many times; a passive one is replaced each time."""
    chance, unit = random.Random(0), max(1, units - 1)
    stops: list[tuple[float, float, list[tuple[float, int]]]] = []
    with Chain(work, {unit: parameters(mode, heartbeat_ms, refresh_ms)}, units=units, spares=2) as one:
        for _ in range(rounds):
            one.guarded()
            time.sleep(0.3 + chance.random() / 2)
            host = one.host_of(unit)
            assert host is not None
            with one.watching(unit) as finished:
                time.sleep(0.2)
                with stopped(host.pid) as at_ms:
                    time.sleep(HELD_S + 3 * heartbeat_ms / 1000)
                end_ms = time.time() * 1000
                one.guarded()
                time.sleep(0.3)
            stops.append((at_ms, end_ms, finished))
    done = Recovered(one.verdict, epoch_ms=median(e["ms"] for e in one.told("epoch_committed")))
    for at_ms, _, finished in stops:
        _parts(one, mode, at_ms, finished, done)
    done.rollback_ms = [float(e["ms"]) for e in one.told("rolled_back")]
    return done


def _parts(one: Chain, mode: str, at_ms: float, finished: list[tuple[float, int]], done: Recovered) -> None:
    until = at_ms + 30_000
    noticed = one.told({"hybrid": "switched", "passive": "host_lost"}[mode], at_ms, until) if mode != "active" else []
    answers = one.told("given_up", at_ms, until) if mode == "passive" else noticed
    assert mode == "active" or (noticed and answers), f"the stop was not answered by a {mode} standby"
    detected = float(noticed[0]["at_ms"]) if noticed else at_ms
    resumed = float(answers[0]["at_ms"]) if answers else at_ms
    first = next((ms for ms, _ in finished if ms > resumed), None)
    held_up = next((e for e in one.told("epoch_committed", resumed)), None)
    assert first is not None and held_up is not None, "no epoch was finished after the switch"
    done.late_ms.append(max(0.0, float(held_up["ms"]) - done.epoch_ms))
    done.output_ms.append(first - at_ms)
    if noticed:
        done.detect_ms.append(detected - at_ms)
        done.resume_ms.append(resumed - detected)
        done.retransmit_ms.append(first - resumed)
