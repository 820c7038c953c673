"""A rating: make the traffic, run it, compare every answer. The steps may be taken by different processes, one after the other."""

from __future__ import annotations

import time
from pathlib import Path

from perseid.apps.linear_road.feed import Feed
from perseid.apps.linear_road.latency import lateness_of
from perseid.bench.road.judging import judge
from perseid.bench.road.result import RoadResult, result_of
from perseid.bench.road.running import drive, driven_before
from perseid.bench.road.traffic import Road, make_feed

RAMP_S, PEAK_S = 150, 180


def run_road(xways: int, ramp_s: int = RAMP_S, peak_s: int = PEAK_S, folder: Path = Path("road")) -> RoadResult:
    """Run so many expressways on Spark and judge the run. ``folder`` keeps the traffic, and the answers of the last run."""
    road = Road(xways, ramp_s, peak_s)
    folder.mkdir(parents=True, exist_ok=True)
    drive(road, make_feed(road, folder), folder / "run")
    return judged(road, folder)


def judged(road: Road, folder: Path) -> RoadResult:
    """What the last run in this folder comes to; also written there, as JSON."""
    feed, out = make_feed(road, folder), folder / "run"
    driven, began = driven_before(out), time.monotonic()
    verdict = judge(feed, out / "answers", road.xways)
    took = {"run": driven.seconds, "check": round(time.monotonic() - began, 1)}
    reports = sum(one.rows for one in Feed(feed).slices if one.second >= 0)
    late = lateness_of(out / "answers", driven.began_ms, 1)
    result = result_of(road, reports, driven, late, verdict, took)
    result.write(folder / f"L{road.xways}.json")
    return result
