"""The delay of rows while one host is stopped for a share of the time (figure 4), and with a copy host that three share (figure 5)."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.outages.chain import parameters
from perseid.bench.outages.recovering import add
from perseid.bench.outages.running import Chain, Verdict
from perseid.bench.outages.sizes import JUDGED_SHARE, Sizes
from perseid.bench.outages.striking import outages, strike

STRUCK = 3  # this unit has the standby
SHARED = (2, 3, 4)


@dataclass(slots=True)
class Delayed:
    """By window."""

    verdict: Verdict
    ms: list[float] = field(default_factory=list)
    struck: list[float] = field(default_factory=list)  # the share of the time that the host stood still


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Modes by share of failure time; regular ones, then a Poisson process at the share that is judged."""
    windows = [(0.0, False), *((share, False) for share in sizes.shares)]
    if sizes.poisson:
        windows.append((JUDGED_SHARE, True))
    for mode in sizes.modes:
        found = side.call(delay, work / mode, mode, windows, sizes.window_s, sizes.outage_s)
        for (share, poisson), ms, struck in zip(windows, found.ms, found.struck, strict=True):
            name = f"{mode}_delay_{round(100 * share)}{'_poisson' if poisson else ''}_ms"
            results.number(name, ms, f"ms (stopped {struck:.0%} of the time)")
        add(found.verdict, results)
    judged = f"delay_{round(100 * JUDGED_SHARE)}_ms"
    if {f"hybrid_{judged}", f"active_{judged}"} <= results.numbers.keys():
        ratio = results.numbers[f"hybrid_{judged}"] / results.numbers[f"active_{judged}"]
        results.number("hybrid_delay_ratio", ratio, "x active's")


def measure_shared(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Three primaries, one host for their copies."""
    if not sizes.shared:
        return
    found = side.call(delay_shared, work, sizes.shared, sizes.window_s, sizes.outage_s)
    for share, ms in zip(sizes.shared, found.ms, strict=True):
        results.number(f"shared_delay_{round(100 * share)}_ms", ms, "ms")
    add(found.verdict, results)
    if found.ms[0]:
        rise = 100 * (found.ms[sizes.shared.index(0.2)] / found.ms[0] - 1)
        results.number("shared_delay_percent", rise, "% more at 20 % failure time")


def delay(work: Path, mode: str, windows: list[tuple[float, bool]], window_s: float, outage_s: float) -> Delayed:
    """On Perseid's side: one run, window after window."""
    spans = []
    with Chain(work, {STRUCK: parameters(mode, 100, 500)}, spares=2) as one:
        for share, poisson in windows:
            plan = outages(share, window_s, outage_s, poisson=poisson)
            from_ms = time.time() * 1000
            struck = strike(plan, one.victim(STRUCK), window_s)
            spans.append((from_ms, time.time() * 1000, sum(to - at for at, to in struck)))
            one.caught_up()
    done = Delayed(one.verdict)
    for from_ms, to_ms, struck_ms in spans:
        done.ms.append(one.delay_ms(from_ms, to_ms))
        done.struck.append(struck_ms / (to_ms - from_ms))
    return done


def delay_shared(work: Path, shares: tuple[float, ...], window_s: float, outage_s: float) -> Delayed:
    """On Perseid's side: each of the three fails by itself, as a Poisson process."""
    spans = []
    standby = {unit: parameters("hybrid", 100, 500, share=len(SHARED)) for unit in SHARED}
    with Chain(work, standby, spares=1) as one:
        for share in shares:
            from_ms = time.time() * 1000
            threads = [
                threading.Thread(
                    target=strike,
                    args=(outages(share, window_s, outage_s, poisson=True, seed=unit), one.victim(unit), window_s),
                    name=f"bench-strike-{unit}",
                )
                for unit in SHARED
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            spans.append((from_ms, time.time() * 1000))
            one.caught_up()
    return Delayed(one.verdict, [one.delay_ms(*span) for span in spans])
