"""The three applications without Spark: what their graphs do to generated rows, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from feeding import Fed

from perseid.apps.bcp.generate import Campus
from perseid.apps.bcp.operators import Crowding, HistoricalImages
from perseid.apps.signalguru.generate import Town
from perseid.apps.signalguru.graph import lights
from perseid.apps.signalguru.operators import MotionFilter, Phases, SvmPrediction
from perseid.apps.tmi.generate import BLOCK_M, INTERVAL_MS, MODES, City
from perseid.apps.tmi.operators import KMeansModes, Pair
from perseid.duration import every
from perseid.operators.event_time import event_time


def ids(rows: int, step: int) -> Iterator[np.ndarray]:
    for start in range(0, rows, step):
        yield np.arange(start, min(rows, start + step))


def mapped(rows: pa.Table, pools: int) -> pa.Table:
    """What the transforms between Pair and k-means do."""
    away = [rows[axis].to_numpy() - BLOCK_M * np.round(rows[axis].to_numpy() / BLOCK_M) for axis in ("x", "y")]
    rows = rows.append_column("stop_m", pa.array(np.hypot(*away).astype(np.float32)))
    return rows.append_column("pool", pa.array((rows["phone"].to_numpy() % pools).astype(np.int32)))


class Tmi:
    """Pair and k-means."""

    def __init__(self, window_ms: int, modes: tuple[str, ...] = MODES, pools: int = 2) -> None:
        self.pools = pools
        self.pair = Fed(Pair())
        delay = event_time("at_ms", delay=every(milliseconds=INTERVAL_MS))
        self.kmeans = Fed(KMeansModes(window_ms, modes), delay)

    def feed(self, rows: pa.Table) -> None:
        paired = self.pair.feed(rows)
        if paired is not None:
            self.kmeans.feed(mapped(paired, self.pools))

    def run(self, city: City, windows: float, ticks: int) -> pa.Table:
        for these in ids(city.rows(windows) + 4 * ticks * city.phones, ticks * city.phones):
            self.feed(pa.table(city.positions(these)))
        return self.kmeans.all()


class Bcp:
    """Historical images and crowding."""

    def __init__(self) -> None:
        self.history, self.crowding = Fed(HistoricalImages()), Fed(Crowding())

    def run(self, campus: Campus, headways: float, ticks: int) -> None:
        for these in ids(campus.rows(headways), ticks * campus.stops):
            counts = self.history.feed(pa.table(campus.pictures(these)))
            assert counts is not None
            self.crowding.feed(counts)


class SignalGuru:
    """The filters, voting, phases and the SVM."""

    def __init__(self) -> None:
        self.motion, self.phases, self.svm = Fed(MotionFilter()), Fed(Phases()), Fed(SvmPrediction())
        self.votes: list[pa.Table] = []

    def run(self, town: Town, cycles: float, ticks: int) -> None:
        for these in ids(town.rows(cycles), ticks * town.intersections):
            columns = town.pictures(these)
            batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
            seen = self.motion.feed(pa.Table.from_batches([lights(batch)]))
            if seen is None:
                continue
            self.votes.append(vote(seen))
            changes = self.phases.feed(self.votes[-1])
            if changes is not None:
                self.svm.feed(changes)


def vote(seen: pa.Table) -> pa.Table:
    """The transform between the motion filter and the phases, in Arrow instead of SQL."""
    seen = seen.filter(pa.array(seen["colour"].to_numpy() > 0))
    scores = seen.group_by(["intersection", "at_ms", "colour", "truth", "next_ms"], use_threads=False)
    summed = scores.aggregate([("score", "sum")]).sort_by([("score_sum", "descending"), ("colour", "ascending")])
    first = summed.group_by(["intersection", "at_ms"], use_threads=False).aggregate(
        [("colour", "first"), ("truth", "first"), ("next_ms", "first")]
    )
    return first.rename_columns(["intersection", "at_ms", "colour", "truth", "next_ms"])
