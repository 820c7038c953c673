"""Linear Road: the most expressways that keep 99 % of all answers within 5 s, every answer as the oracle says (S7, S8)."""

from __future__ import annotations

from pathlib import Path

from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.road.rating import judged
from perseid.bench.road.running import drive
from perseid.bench.road.traffic import Road, make_feed
from perseid.bench.scaling.sizes import Sizes


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """From fewer expressways to more, until a number of them is too many."""
    rating = 0
    for xways in sizes.xways:
        road, folder = Road(xways, sizes.ramp_s, sizes.peak_s), work / str(xways)
        folder.mkdir(parents=True)
        feed = side.call(make_feed, road, folder)
        side.call(drive, road, feed, folder / "run")
        result = side.call(judged, road, folder)
        results.tell(str(result))
        if not result.holds:
            break
        rating = xways
        for name in ("median_ms", "p95_ms", "p99_ms", "within_5s_percent"):
            results.number(f"road_{name}", getattr(result, name), "%" if name.endswith("percent") else "ms")
    results.number("road_l", rating, "expressways")
