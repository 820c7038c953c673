"""Made-up traffic: cars that enter, drive, queue, crash and leave, and what their drivers ask (S7).

All expressways are simulated at once, in columns. A car reports every 30 s, so the cars that report in second t are one
cohort, t modulo 30, and a second costs a few passes over its cohort. The load rises in a straight line from
``first_rate`` to ``peak_rate`` reports a second and expressway, as the benchmark's does over three hours, and may stay there.

Invariant: what happens in a second depends on the seed and the seconds before it only; the same seed gives the same feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perseid.apps.linear_road.lines import BALANCE, COLUMNS, DAILY, HISTORY, REPORT, SCHEMA
from perseid.errors import SettingsError

Ints = npt.NDArray[Any]

REPORT_EVERY_S: Final = 30
SEGMENTS: Final = 100
SEGMENT_FEET: Final = 5280
_FEET_PER_S: Final = 5280 / 3600  # of one mile an hour
_DAYS: Final = 69

_CAR: Final = np.dtype(
    [("vid", "i4"), ("xway", "i2"), ("dir", "i1"), ("lane", "i1"), ("pos", "f8"), ("wish", "f4"), ("until", "i4"),
     ("leaves", "i2")]
)  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """What traffic to make. Rates are reports a second and expressway."""

    xways: int = 1
    seconds: int = 10_800
    seed: int = 0
    first_rate: float = 15.0
    peak_rate: float = 1_700.0
    crash_every_s: float = 600.0  # on each expressway, about
    balance_share: float = 0.01  # of reports that come with a question
    daily_share: float = 0.002
    peak_s: int = 0  # how long the peak lasts, at the end of ``seconds``
    room: float = 70.0  # as many cars in a mile drive as fast as they like

    def __post_init__(self) -> None:
        for name in ("xways", "seconds", "first_rate", "peak_rate", "crash_every_s"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"linear road: expected {name} above 0, got {getattr(self, name)!r}")
        if not 0 <= self.peak_s < self.seconds:
            raise SettingsError(
                f"linear road: expected a peak of 0 to {self.seconds - 1} of {self.seconds} seconds, got {self.peak_s!r}"
            )

    def rate(self, second: int) -> float:
        """Reports a second and expressway."""
        risen = min(1.0, second / max(1, self.seconds - self.peak_s - 1))
        return self.first_rate + (self.peak_rate - self.first_rate) * risen


def seconds(traffic: Traffic) -> Iterator[pa.Table]:
    """One table per second, reports before queries; before all of them one with the toll history that is asked for."""
    simulation = _Simulation(traffic)
    yield simulation.history()
    for second in range(traffic.seconds):
        yield simulation.step(second)


class _Simulation:
    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._cohorts = [np.empty(0, _CAR) for _ in range(REPORT_EVERY_S)]
        self._density = np.zeros(traffic.xways * 2 * SEGMENTS)  # cars per segment, as of their last reports
        self._next_vid = 0
        self._next_qid = 0

    def step(self, second: int) -> pa.Table:
        """The reports and queries of one second; seconds come in order."""
        random = np.random.default_rng([self._traffic.seed, second])
        cars = self._cohorts[second % REPORT_EVERY_S]
        self._density -= np.bincount(self._segment(cars), minlength=len(self._density))
        cars, speed = self._drive(cars, second, random)
        cars = np.concatenate([cars, self._enter(cars, second, random)])
        speed = np.concatenate([speed, np.full(len(cars) - len(speed), 20)])
        self._crash(cars, second, random)
        speed = np.where(cars["until"] > second, 0, speed).astype(np.int16)
        segment = (cars["pos"] // SEGMENT_FEET).astype(np.int16)
        reports = {
            "type": np.full(len(cars), REPORT), "time": np.full(len(cars), second), "vid": cars["vid"], "spd": speed,
            "xway": cars["xway"], "lane": cars["lane"], "dir": cars["dir"], "seg": segment, "pos": cars["pos"].astype(np.int32),
            "qid": np.full(len(cars), -1), "day": np.full(len(cars), -1),
        }  # fmt: skip
        table = pa.concat_tables([_table(reports), self._ask(cars, second, random)])
        cars = cars[cars["lane"] != 4]
        self._cohorts[second % REPORT_EVERY_S] = cars
        self._density += np.bincount(self._segment(cars), minlength=len(self._density))
        return table

    def history(self) -> pa.Table:
        """What some cars spent on some days: every fifth car, on three days."""
        cars = np.arange(0, self._most_cars(), 5)
        vid = np.repeat(cars, 3)
        day = (vid * 7 + np.tile([0, 23, 46], len(cars))) % _DAYS + 1
        xway = vid % self._traffic.xways
        toll = (vid * 31 + day * 17) % 90 + 10
        unused = np.full(len(vid), -1)
        rows = dict.fromkeys(COLUMNS, unused)
        rows |= {"type": np.full(len(vid), HISTORY), "vid": vid, "day": day, "xway": xway, "qid": toll}
        return _table(rows)

    def _most_cars(self) -> int:
        return min(100_000, int(self._traffic.xways * self._traffic.peak_rate * REPORT_EVERY_S))

    def _segment(self, cars: Ints) -> Ints:
        road = cars["xway"].astype(np.int64) * 2 + cars["dir"]
        segment: Ints = road * SEGMENTS + (cars["pos"] // SEGMENT_FEET).astype(np.int64)
        return segment

    def _drive(self, cars: Ints, second: int, random: np.random.Generator) -> tuple[Ints, Ints]:
        """Half a minute further: slower where there are many cars, not at all after a crash; the last mile on the exit lane."""
        crowd = np.maximum(self._density[self._segment(cars)], 1)
        speed = np.clip(
            cars["wish"] * np.minimum(1.0, self._traffic.room / crowd) * random.uniform(0.8, 1.1, len(cars)), 8, 100
        )
        stands = cars["until"] > second
        way = np.where(stands, 0, speed * _FEET_PER_S * REPORT_EVERY_S)
        pos = np.clip(cars["pos"] + np.where(cars["dir"] == 0, way, -way), 0, SEGMENTS * SEGMENT_FEET - 1)
        cars["pos"] = np.floor(pos)
        segment = (pos // SEGMENT_FEET).astype(np.int16)
        there = np.where(cars["dir"] == 0, segment >= cars["leaves"], segment <= cars["leaves"])
        cars["lane"] = np.where(stands, cars["lane"], np.where(there, 4, 1 + cars["vid"] % 3))
        return cars, np.where(stands, 0, speed)

    def _enter(self, cars: Ints, second: int, random: np.random.Generator) -> Ints:
        """As many new cars as the cohort needs to report at the wanted rate."""
        traffic = self._traffic
        there = np.bincount(cars["xway"], minlength=traffic.xways)
        xway = np.repeat(np.arange(traffic.xways), np.maximum(0, round(traffic.rate(second)) - there))
        count = len(xway)
        new = np.zeros(count, _CAR)
        new["vid"] = self._next_vid + np.arange(count)
        self._next_vid += count
        new["xway"], new["dir"] = xway, random.integers(0, 2, count)
        starts, length = random.integers(0, SEGMENTS - 1, count), random.integers(2, 40, count)
        new["pos"] = np.where(new["dir"] == 0, starts, SEGMENTS - 1 - starts) * SEGMENT_FEET + random.integers(
            0, SEGMENT_FEET, count
        )
        ends = np.minimum(starts + length, SEGMENTS - 1)
        new["leaves"] = np.where(new["dir"] == 0, ends, SEGMENTS - 1 - ends)
        new["wish"] = np.clip(random.normal(60, 10, count), 30, 100)
        return new

    def _crash(self, cars: Ints, second: int, random: np.random.Generator) -> None:
        """Two cars that report together stop at one place, for some minutes."""
        for xway in np.flatnonzero(random.random(self._traffic.xways) < 1 / self._traffic.crash_every_s):
            drives = (cars["xway"] == xway) & (cars["lane"] >= 1) & (cars["lane"] <= 3) & (cars["until"] <= second)
            pair = np.flatnonzero(drives & (cars["dir"] == random.integers(0, 2)))[:2]
            if len(pair) == 2:
                for name in ("pos", "lane"):
                    cars[name][pair] = cars[name][pair[0]]
                cars["until"][pair] = second + random.integers(200, 500)

    def _ask(self, cars: Ints, second: int, random: np.random.Generator) -> pa.Table:
        chance = random.random(len(cars))
        kinds = np.where(chance < self._traffic.daily_share, DAILY, BALANCE)
        asks = np.flatnonzero(chance < self._traffic.daily_share + self._traffic.balance_share)
        vid, count = cars["vid"][asks].astype(np.int64), len(asks)
        unused = np.full(count, -1)
        daily = kinds[asks] == DAILY
        vid = np.where(daily, vid % self._most_cars(), vid)
        day = (vid * 7) % _DAYS + 1
        rows = dict.fromkeys(COLUMNS, unused)
        rows |= {
            "type": kinds[asks], "time": np.full(count, second), "vid": vid,
            "xway": np.where(daily, vid % self._traffic.xways, -1), "qid": self._next_qid + np.arange(count),
            "day": np.where(daily, day, -1),
        }  # fmt: skip
        self._next_qid += count
        return _table(rows)


def _table(columns: dict[str, Ints]) -> pa.Table:
    arrays = [pa.array(columns[field.name].astype(field.type.to_pandas_dtype())) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def as_lines(table: pa.Table) -> Iterator[str]:
    """A table in the benchmark's own format."""
    names = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid")
    for row in zip(*(table[name].to_pylist() for name in (*names, "day")), strict=True):
        yield ",".join(map(str, (*row[:-1], -1, -1, -1, -1, row[-1])))
