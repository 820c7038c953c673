"""The toll calculator: cars, segments, accidents and tolls of the roads of a shard (S7, rules 1 to 6).

Keyed by (xway, dir): no rule needs to look at another road. An epoch is worked on minute by minute, a minute in rounds
in which every car reports once, a round as a handful of passes over whole columns. Out comes one row per car that
enters a segment (its notifications, and the toll it now owes for the segment before), and the queries as they came.

Invariant: the result does not depend on where epochs are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perseid.apps.linear_road import key_table
from perseid.apps.linear_road.lines import REPORT
from perseid.apps.linear_road.traffic import SEGMENTS, Traffic, merge_traffic, split_traffic
from perseid.operators.operator import Operator
from perseid.state.fields import state
from perseid.state.partition import Part

Ints = npt.NDArray[Any]

ENTRY_LANE: Final = 0
EXIT_LANE: Final = 4
STOPPED_AFTER: Final = 4  # reports from one place
RESET_S: Final = 60  # a car that enters after so long is a new one
FORGET_S: Final = 300  # a car that was silent for so long is a new one, wherever it reports from

CAR: Final = np.dtype(
    [("key", "i8"), ("time", "i4"), ("pos", "i4"), ("toll", "i4"), ("seg", "u1"), ("first_seg", "u1"), ("lane", "u1"), ("still", "u1")]
)  # fmt: skip
"""Of a car's last report. ``still`` counts reports from one place, so it is 0 only where nothing has been written yet."""

OUTPUT: Final = (
    "type tinyint, time int, vid int, xway smallint, dir tinyint, lav smallint, toll int, ahead smallint, charge int,"
    " qid int, day smallint"
)
"""A car that enters a segment (``lav`` is -1 where it is only charged), or a query with its ``qid`` and ``day``."""

SCHEMA: Final = pa.schema(
    [("type", pa.int8()), ("time", pa.int32()), ("vid", pa.int32()), ("xway", pa.int16()), ("dir", pa.int8()),
     ("lav", pa.int16()), ("toll", pa.int32()), ("ahead", pa.int16()), ("charge", pa.int32()), ("qid", pa.int32()),
     ("day", pa.int16())]
)  # fmt: skip

_READ: Final = ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos")


def _no_cars() -> Ints:
    return key_table.new_table(CAR)


def split_cars(cars: Ints, part: Part) -> Ints:
    """The cars on this part's roads."""
    records = key_table.taken(cars)
    roads = (records["key"] - 1) >> 32
    mine = [road for road in np.unique(roads) if part.holds((int(road) // 2, int(road) % 2))]
    return key_table.table_of(key_table.gather(records, np.flatnonzero(np.isin(roads, mine))), CAR)


class TollCalculator(Operator):
    """Announces tolls and accidents to cars that enter a segment."""

    cars: Ints = state(default_factory=_no_cars, split=split_cars, merge=key_table.merged)
    traffic: Traffic = state(default_factory=Traffic, split=split_traffic, merge=merge_traffic)

    def __init__(self) -> None:
        self._fill = key_table.Fill()
        self._first = np.empty(0, np.int32)  # scratch of _rounds

    def process(self, rows: pa.Table) -> pa.Table:
        is_report = column(rows, "type") == REPORT
        only_reports = bool(is_report.all())
        reports = rows if only_reports else rows.filter(pa.array(is_report))
        parts = list(self._by_minute(reports)) if reports.num_rows else []
        if not only_reports:
            parts.append(_queries(rows.filter(pa.array(~is_report))))
        return pa.concat_tables(parts) if parts else SCHEMA.empty_table()

    def _by_minute(self, reports: pa.Table) -> Iterator[pa.Table]:
        columns = {name: column(reports, name) for name in _READ}
        minutes = np.maximum.accumulate(np.maximum(columns["time"] // 60 + 1, self.traffic.minute))
        cuts = [0, *(np.flatnonzero(minutes[1:] != minutes[:-1]) + 1).tolist(), len(minutes)]
        for start, end in pairwise(cuts):
            self.traffic.advance(int(minutes[start]))
            yield self._minute({name: values[start:end] for name, values in columns.items()})

    def _minute(self, reports: dict[str, Ints]) -> pa.Table:
        """Reports of one minute: what a toll depends on was settled before it began."""
        roads = reports["xway"].astype(np.int64) * 2 + reports["dir"]
        row = self.traffic.meet(roads)
        reports["segment"] = row * SEGMENTS + reports["seg"]
        answers = self.traffic.answers()
        places = self._places((roads << 32) + reports["vid"] + 1, int(reports["time"][0]))
        events: list[tuple[int, ...]] = []
        parts = [self._round(reports, rows, at, answers, events) for rows, at in self._rounds(places)]
        for _, left, *where in sorted(events):  # in the order of the reports, few
            (self.traffic.leave if left else self.traffic.stop)(*where)
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def _places(self, keys: Ints, now: int) -> Ints:
        known = self._fill.of(self.cars)
        if (known + len(keys)) * 2 > len(self.cars):  # before it grows: have many gone?
            gone = (self.cars["key"] != key_table.EMPTY) & (self.cars["time"] < now - FORGET_S)
            if np.count_nonzero(gone) * 4 > known:
                self.cars = key_table.kept(self.cars, lambda cars: cars["time"] >= now - FORGET_S, len(self.cars))
        self.cars, places = self._fill.put(self.cars, keys)
        return places

    def _rounds(self, places: Ints) -> Iterator[tuple[Ints | slice, Ints]]:
        """Reports (and their cars' places) such that no car comes twice in a round, and each car's reports in order."""
        if len(self._first) < len(self.cars):
            self._first = np.empty(len(self.cars), np.int32)
        rest = np.arange(len(places), dtype=np.int32)
        while len(rest):
            at = places[rest]
            self._first[at[::-1]] = rest[::-1]  # the first report of a car is written last, and stays
            now = self._first[at] == rest
            if len(rest) == len(places) and now.all():
                yield slice(None), places
                return
            yield rest[now], at[now]
            rest = rest[~now]

    def _round(
        self, reports: Mapping[str, Ints], rows: Ints | slice, at: Ints, answers: tuple[Ints, Ints, Ints],
        events: list[tuple[int, ...]],
    ) -> pa.Table:  # fmt: skip
        """Reports of different cars."""
        time, lane, seg, pos = (reports[name][rows] for name in ("time", "lane", "seg", "pos"))
        minute = self.traffic.minute
        cars = key_table.gather(self.cars, at)
        silent = time - cars["time"]
        known = cars["still"] > 0
        fresh = ~known | (silent > FORGET_S) | ((lane == ENTRY_LANE) & (silent > RESET_S))
        ignored = ~fresh & (cars["lane"] == EXIT_LANE) & (lane != ENTRY_LANE)
        same = ~fresh & (lane == cars["lane"]) & (pos == cars["pos"])
        still = np.where(same, np.minimum(cars["still"], 250) + 1, 1).astype(np.uint8)
        entered = (fresh | (seg != cars["seg"])) & ~ignored
        in_minute = known & (cars["time"] >= (minute - 1) * 60)
        first = ~ignored & ~(in_minute & ((seg == cars["seg"]) | (seg == cars["first_seg"])))

        segment = reports["segment"][rows]
        if ignored.any():
            counts = ~ignored
            self.traffic.count(segment[counts], reports["spd"][rows][counts], first[counts])
        else:
            self.traffic.count(segment, reports["spd"][rows], first)

        left = known & ~same & ~ignored & (cars["still"] >= STOPPED_AFTER)
        stopped = ~ignored & (still == STOPPED_AFTER)
        if left.any() or stopped.any():
            self._note(reports, rows, cars, left, stopped, events)

        charge = np.where(entered & ~fresh, cars["toll"], 0)
        toll = answers[1][segment]
        after = np.empty_like(cars)
        after["key"], after["time"], after["pos"] = cars["key"], np.maximum(time, (minute - 1) * 60), pos
        after["toll"] = np.where(entered, np.where(lane == EXIT_LANE, 0, toll), cars["toll"])
        after["seg"], after["lane"], after["still"] = seg, lane, still
        after["first_seg"] = np.where(in_minute, cars["first_seg"], seg)
        if ignored.any():
            after[ignored] = cars[ignored]
        key_table.scatter(self.cars, at, after)

        told = entered & ((lane != EXIT_LANE) | (charge > 0))
        chosen = np.flatnonzero(told)
        silent_exit = lane[chosen] == EXIT_LANE
        where = segment[chosen]
        out = {name: reports[name][rows][chosen] for name in ("time", "vid", "xway", "dir")}
        none = np.zeros(len(chosen), np.int32)
        values = [
            none, out["time"], out["vid"], out["xway"], out["dir"], np.where(silent_exit, -1, answers[0][where]),
            toll[chosen], np.where(silent_exit, -1, answers[2][where]), charge[chosen], none - 1, none - 1,
        ]  # fmt: skip
        return _table(values)

    def _note(
        self, reports: Mapping[str, Ints], rows: Ints | slice, cars: Ints, left: Ints, stopped: Ints,
        events: list[tuple[int, ...]],
    ) -> None:  # fmt: skip
        """Cars that stop and cars that go on: (number of the report, left, road, row, lane, pos, seg, vid)."""
        number = np.arange(len(reports["time"]))[rows]
        road = reports["xway"][rows].astype(np.int64) * 2 + reports["dir"][rows]
        row = reports["segment"][rows] // SEGMENTS
        vid = reports["vid"][rows]
        new = {name: reports[name][rows] for name in ("lane", "pos", "seg")}
        for who, has_left, place in ((left, 1, cars), (stopped, 0, new)):
            chosen = np.flatnonzero(who)
            parts = [number, np.full(len(number), has_left), road, row, place["lane"], place["pos"], place["seg"], vid]
            events += zip(*(part[chosen].tolist() for part in parts), strict=True)


def column(rows: pa.Table, name: str) -> Ints:
    """A column as one NumPy array."""
    values: Ints = rows.column(name).to_numpy()
    return values


def _queries(rows: pa.Table) -> pa.Table:
    none = np.zeros(rows.num_rows, np.int32)
    return _table(
        [
            *(column(rows, name) for name in ("type", "time", "vid", "xway", "dir")),
            none - 1, none, none - 1, none, column(rows, "qid"), column(rows, "day"),
        ]
    )  # fmt: skip


def _table(values: list[Ints]) -> pa.Table:
    arrays = [
        pa.array(part.astype(kind.to_pandas_dtype(), copy=False))
        for part, kind in zip(values, SCHEMA.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
