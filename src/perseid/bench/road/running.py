"""One run on Spark at the pace of the road, and how busy the machine was meanwhile."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

import perseid
from perseid import every
from perseid.apps.linear_road.feed import Feed
from perseid.apps.linear_road.graph import linear_road
from perseid.bench.measuring import ours
from perseid.bench.road.traffic import Road

CHECKPOINT_S = 30.0
PATIENCE_S = 90.0
"""How far behind a run may fall at its end before it is given up: it is lost long before."""
_ABOUT = "driven.json"


@dataclass(frozen=True, slots=True)
class Driven:
    """When second 0 was, and which share of all cores was busy at the peak."""

    began_ms: int
    busy_share: float
    checkpoints: int
    epochs: int
    seconds: float


def drive(road: Road, feed: Path, out: Path) -> Driven:
    """Run the feed, in this process's session; answers are in ``out / "answers"``, which is made anew."""
    began_s = time.monotonic()
    shutil.rmtree(out, ignore_errors=True)
    source = Feed(feed, speed=1)
    app = linear_road(source, str(out / "answers"))
    ours.begin()
    running = ours.start(app, out, checkpoint=perseid.checkpoints.parallel(every(seconds=CHECKPOINT_S)))
    try:
        ours.wait_for(running, lambda _: source.began_ms is not None)
        assert source.began_ms is not None
        running.wait(road.ramp_s)
        psutil.cpu_percent()
        running.wait(road.peak_s)
        busy = psutil.cpu_percent() / 100
        running.wait(PATIENCE_S)
        progress = running.progress()
    finally:
        running.stop()
    driven = Driven(source.began_ms, busy, progress.checkpoints, progress.epoch, round(time.monotonic() - began_s, 1))
    (out / _ABOUT).write_text(json.dumps(asdict(driven)))
    shutil.rmtree(out / "root")
    return driven


def driven_before(out: Path) -> Driven:
    """The run whose answers lie in ``out``."""
    return Driven(**json.loads((out / _ABOUT).read_text()))
