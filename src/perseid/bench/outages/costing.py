"""What standby costs while all is well: rows and bytes that tasks, hosts and copies send each other (figures 6 and 11), false switches, and
the refreshes of a large state."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.outages.chain import handled, parameters
from perseid.bench.outages.recovering import add
from perseid.bench.outages.running import Chain, Verdict
from perseid.bench.outages.sizes import RATE, UNITS, Sizes

ROW_BYTES = 16  # two longs: what of a refresh is told in rows


@dataclass(slots=True)
class Cost:
    """Of one window without failures."""

    verdict: Verdict
    rows_in: int
    rows: int  # to hosts and back, with those to a second copy
    bytes: int
    refresh_bytes: int
    refreshes: int
    refresh_ms: float  # the mean
    switches: int
    delay_ms: float
    load: float  # of the machine

    def ratio(self, other: Cost) -> float:
        """Bytes sent for a row of input, against another one's."""
        mine, its = self.bytes + self.refresh_bytes, other.bytes + other.refresh_bytes
        return (mine / self.rows_in) / (its / other.rows_in)

    @property
    def rows_per_row(self) -> float:
        """Rows sent for a row of input; refreshes by their bytes."""
        return (self.rows + self.refresh_bytes / ROW_BYTES) / self.rows_in


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """All units have the standby; by rate."""
    for rate in (*sizes.rates, RATE):
        judged, costs = rate == RATE, dict[str, Cost]()
        for mode in ("none", "hybrid", "active"):
            seconds = sizes.quiet_s if judged and mode == "hybrid" else sizes.traffic_s
            costs[mode] = found = side.call(cost, work / f"{mode}-{rate}", mode, rate, seconds, 0, UNITS)
            add(found.verdict, results)
            name = mode if judged else f"rate_{rate}_{mode}"
            results.number(f"{name}_rows_per_row", found.rows_per_row, "rows sent for one of input")
            results.number(f"{name}_refresh_kb_per_s", found.refresh_bytes / 1000 / seconds, "KB/s")
            results.number(f"{name}_quiet_delay_ms", found.delay_ms, "ms")
            if mode != "none":
                results.number(f"{name}_traffic_ratio", found.ratio(costs["none"]), "x none's bytes")
        if judged:
            results.number("false_switches", costs["hybrid"].switches, f"in {sizes.quiet_s:g} s")
            results.number("quiet_load_percent", 100 * costs["hybrid"].load, "% of the machine")


def measure_large(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """One unit, with a large state and without."""
    if not sizes.large_mb:
        return
    for name, mb in (("small", 0), ("large", sizes.large_mb)):
        found = side.call(cost, work / name, "hybrid", RATE, sizes.traffic_s, mb, 1)
        results.number(f"{name}_state_refresh_ms", found.refresh_ms, "ms")
        results.number(f"{name}_state_refresh_mb_per_s", found.refresh_bytes / 1e6 / sizes.traffic_s, "MB/s")
        results.number(f"{name}_state_delay_ms", found.delay_ms, "ms")
        results.number(f"{name}_state_switches", found.switches, "")
        add(found.verdict, results)


def cost(work: Path, mode: str, rate: float, seconds: float, ballast_mb: int, units: int) -> Cost:
    """On Perseid's side."""
    standby = {unit: parameters(mode, 100, 500) for unit in range(1, units + 1)}
    with Chain(work, standby, rate=rate, units=units, ballast_mb=ballast_mb) as one:
        from_ms, rows_in, (rows, size) = time.time() * 1000, one.running.progress().rows_in, handled(work / "handled")
        psutil.cpu_percent()
        time.sleep(seconds)
        load = psutil.cpu_percent() / 100
        to_ms, rows_in = time.time() * 1000, one.running.progress().rows_in - rows_in
        now = handled(work / "handled")
    refreshes = [*one.told("copy_refreshed", from_ms, to_ms), *one.told("copy_deployed", from_ms, to_ms)]
    return Cost(
        one.verdict,
        rows_in,
        2 * (now[0] - rows),  # selectivity 1: as many come back
        2 * (now[1] - size),
        sum(e["bytes"] for e in refreshes),
        len(refreshes),
        sum(e["ms"] for e in refreshes) / max(1, len(refreshes)),
        len(one.told("switched", from_ms, to_ms)),
        one.delay_ms(from_ms, to_ms),
        load,
    )
