"""What is known of the segments of some roads: statistics of the last minutes, accidents, stopped cars (S7, rules 1, 2, 4, 6).

A road is one direction of an expressway, numbered ``2 * xway + dir``; it has 100 segments. Everything that decides a toll
in minute M was settled when minute M began: statistics up to M-1, accidents found before M. So the answers for a
minute are one table, made once, and a car is told by looking it up.

Invariant: ``stats[:, m % 8]`` belongs to minute m for the last 8 minutes up to ``minute``; older ones are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from perseid.state.partition import Part

SEGMENTS: Final = 100
_RING: Final = 8  # minutes kept; a toll looks back 5
_LOOK_BACK: Final = 5
_DOWNSTREAM: Final = 4
_NEVER: Final = 2**31 - 1

REPORTS, SPEEDS, CARS = 0, 1, 2
FOUND, CLEARED = 0, 1

Ints = npt.NDArray[Any]
Place = tuple[int, int, int]  # road, lane, position


def _no_roads() -> Ints:
    return np.empty(0, np.int64)


def _no_stats() -> Ints:
    return np.zeros((3, _RING, 0, SEGMENTS), np.int32)


def _no_accidents() -> Ints:
    return np.zeros((2, 0, SEGMENTS), np.int32)


@dataclass
class Traffic:
    """The roads of one shard."""

    roads: Ints = field(
        default_factory=_no_roads
    )  # road numbers, in order of appearance: row r of the arrays is roads[r]
    minute: int = 0
    stats: Ints = field(
        default_factory=_no_stats
    )  # [reports | sum of speeds | different cars, minute % 8, road, segment]
    accidents: Ints = field(default_factory=_no_accidents)  # [minute found | minute cleared, road, segment]
    stopped: dict[Place, tuple[int, ...]] = field(default_factory=dict)  # at most two cars per place
    crashed: dict[tuple[int, int], tuple[int, ...]] = field(
        default_factory=dict
    )  # (road, segment) → cars, not cleared yet

    def meet(self, roads: Ints) -> Ints:
        """The rows of these road numbers, with new rows for new roads."""
        present = np.flatnonzero(np.bincount(roads)) if len(roads) else roads
        new = present[~np.isin(present, self.roads)]
        if len(new):
            more = len(new)
            self.roads = np.concatenate([self.roads, new.astype(np.int64)])
            self.stats = np.concatenate([self.stats, np.zeros((3, _RING, more, SEGMENTS), np.int32)], axis=2)
            none = np.full((2, more, SEGMENTS), _NEVER, np.int32)
            self.accidents = np.concatenate([self.accidents, none], axis=1)
        row_of = np.zeros(int(self.roads.max(initial=0)) + 1, np.intp)
        row_of[self.roads] = np.arange(len(self.roads))
        return row_of[roads]

    def advance(self, minute: int) -> None:
        """Time has come to this minute: what is older than the ring goes."""
        for passed in range(max(self.minute + 1, minute - _RING + 1), minute + 1):
            self.stats[:, passed % _RING] = 0
        self.minute = max(self.minute, minute)

    def answers(self) -> tuple[Ints, Ints, Ints]:
        """For every segment (row * 100 + seg) in this minute: LAV, toll, and where the accident ahead is (-1: none)."""
        ring = [m % _RING for m in range(max(1, self.minute - _LOOK_BACK), self.minute)]
        reports = self.stats[REPORTS][ring].sum(axis=0)
        speeds = self.stats[SPEEDS][ring].sum(axis=0)
        mean = speeds.astype(np.float32) / np.maximum(reports, 1).astype(np.float32)
        lav = np.floor(mean + np.float32(0.5)).astype(np.int16)
        cars = self.stats[CARS][(self.minute - 1) % _RING] if self.minute > 1 else np.zeros_like(reports)
        ahead = self._accident_ahead()
        due = (lav < 40) & (cars > 50) & (ahead < 0)
        toll = np.where(due, 2 * (cars.astype(np.int32) - 50) ** 2, 0).astype(np.int32)
        return lav.reshape(-1), toll.reshape(-1), ahead.reshape(-1)

    def count(self, segments: Ints, speeds: Ints, first: Ints) -> None:
        """Add reports of this minute: their segment (row * 100 + seg), their speed, and is it the car's first there."""
        now, size = self.minute % _RING, len(self.roads) * SEGMENTS
        shape = (len(self.roads), SEGMENTS)
        self.stats[REPORTS, now] += np.bincount(segments, minlength=size).reshape(shape).astype(np.int32)
        self.stats[SPEEDS, now] += np.bincount(segments, speeds, minlength=size).reshape(shape).astype(np.int32)
        self.stats[CARS, now] += np.bincount(segments[first], minlength=size).reshape(shape).astype(np.int32)

    def stop(self, road: int, row: int, lane: int, pos: int, seg: int, vid: int) -> None:
        """A car has reported four times from here. Two such cars are an accident, one per segment and run."""
        place = (road, lane, pos)
        there = self.stopped.get(place, ())
        if len(there) < 2 and vid not in there:
            there = self.stopped[place] = (*there, vid)
        if len(there) == 2 and self.accidents[FOUND, row, seg] == _NEVER:
            self.accidents[FOUND, row, seg] = self.minute
            self.crashed[road, seg] = there

    def leave(self, road: int, row: int, lane: int, pos: int, seg: int, vid: int) -> None:
        """A car that had stopped here reports from elsewhere: its accident is cleared."""
        place = (road, lane, pos)
        there = tuple(car for car in self.stopped.get(place, ()) if car != vid)
        if there:
            self.stopped[place] = there
        else:
            self.stopped.pop(place, None)
        if vid in self.crashed.get((road, seg), ()):
            del self.crashed[road, seg]
            self.accidents[CLEARED, row, seg] = self.minute

    def _accident_ahead(self) -> Ints:
        """The nearest segment with an accident, from each segment on: itself or one of the 4 downstream."""
        found, cleared = self.accidents
        active = (found < self.minute) & (self.minute <= cleared)
        ahead = np.full(active.shape, -1, np.int16)
        if not active.any():
            return ahead
        number = np.arange(SEGMENTS, dtype=np.int16)
        up = self.roads % 2 == 0
        for step in range(_DOWNSTREAM, -1, -1):  # the nearest last, so that it stays
            there = np.zeros_like(active)
            there[:, : SEGMENTS - step] = active[:, step:] & up[:, None]
            there[:, step:] |= active[:, : SEGMENTS - step] & ~up[:, None]
            seen = np.where(up[:, None], number + step, number - step)
            ahead = np.where(there, seen, ahead)
        return ahead.astype(np.int16)


def split_traffic(traffic: Traffic, part: Part) -> Traffic:
    """This part's roads."""
    mine = np.array([part.holds((int(road) // 2, int(road) % 2)) for road in traffic.roads], bool)
    kept = {int(road) for road in traffic.roads[mine]}
    return replace(
        traffic,
        roads=traffic.roads[mine],
        stats=traffic.stats[:, :, mine],
        accidents=traffic.accidents[:, mine],
        stopped={place: cars for place, cars in traffic.stopped.items() if place[0] in kept},
        crashed={at: cars for at, cars in traffic.crashed.items() if at[0] in kept},
    )


def merge_traffic(parts: Sequence[Traffic]) -> Traffic:
    """The roads of several shards, which share none."""
    minute = max(part.minute for part in parts)
    for part in parts:
        part.advance(minute)
    return Traffic(
        roads=np.concatenate([part.roads for part in parts]),
        minute=minute,
        stats=np.concatenate([part.stats for part in parts], axis=2),
        accidents=np.concatenate([part.accidents for part in parts], axis=1),
        stopped={place: cars for part in parts for place, cars in part.stopped.items()},
        crashed={at: cars for part in parts for at, cars in part.crashed.items()},
    )
