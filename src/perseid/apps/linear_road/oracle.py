"""The answers of Linear Road, worked out slowly: line by line, in plain Python, from the rules as they are written (S7).

It shares nothing with the operators, not even the parsing of lines, so that a mistake in one is not a mistake in both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

Line = tuple[int, ...]


@dataclass
class _Car:
    time: int
    lane: int = -1
    seg: int = -1
    pos: int = -1
    reports_here: int = 0
    toll: int = 0


@dataclass
class _Segment:
    speeds: list[int] = field(default_factory=list)
    cars: set[int] = field(default_factory=set)


@dataclass
class _Accident:
    found: int
    cars: list[int]
    cleared: int | None = None


@dataclass
class Answers:
    """What is expected of a run, and the lines that were no lines."""

    toll: list[Line] = field(default_factory=list)  # vid, time, lav, toll
    accident: list[Line] = field(default_factory=list)  # time, xway, seg, dir, vid
    balance: list[Line] = field(default_factory=list)  # time, qid, balance
    daily: list[Line] = field(default_factory=list)  # time, qid, toll
    malformed: list[str] = field(default_factory=list)


class Oracle:
    """Feed it lines in the order of time with ``line``, then ``end``."""

    def __init__(self, history: Iterable[str] = ()) -> None:
        self.answers = Answers()
        self._history: dict[tuple[int, int, int], int] = {}
        for entry in history:
            vid, day, xway, toll = (int(word) for word in entry.split(","))
            self._history[vid, day, xway] = toll
        self._cars: dict[tuple[int, int, int], _Car] = {}
        self._segments: dict[tuple[int, int, int, int], _Segment] = {}
        self._last_minutes: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        self._stopped: dict[tuple[int, int, int, int], list[int]] = {}
        self._accidents: dict[tuple[int, int, int], _Accident] = {}
        self._balances: dict[int, int] = {}
        self._waiting: list[Line] = []
        self._second = -1

    def line(self, text: str) -> None:
        """Take one line of input."""
        numbers = _numbers(text)
        if numbers is None:
            self.answers.malformed.append(text)
        else:
            self.take(numbers)

    def take(self, numbers: Line) -> None:
        """Take the 15 numbers of one line."""
        kind, time = numbers[:2]
        if kind == 9:
            self._history[numbers[2], numbers[14], numbers[4]] = numbers[9]
            return
        if time != self._second:
            self.end()
            self._second = time
        if kind == 0:
            self._report(*numbers[1:9])
        elif kind in (2, 3):
            self._waiting.append(numbers)

    def end(self) -> Answers:
        """All reports of this second are in: answer its queries."""
        for numbers in self._waiting:
            kind, time, vid, xway, qid, day = (numbers[n] for n in (0, 1, 2, 4, 9, 14))
            if kind == 2:
                self.answers.balance.append((time, qid, self._balances.get(vid, 0)))
            elif (vid, day, xway) in self._history:
                self.answers.daily.append((time, qid, self._history[vid, day, xway]))
        self._waiting.clear()
        return self.answers

    def _report(self, time: int, vid: int, spd: int, xway: int, lane: int, dir: int, seg: int, pos: int) -> None:
        minute = time // 60 + 1
        car = self._cars.get((xway, dir, vid))
        if car is not None and (time - car.time > 300 or (lane == 0 and time - car.time > 60)):
            self._moves(car, minute, xway, dir, vid)
            car = None
        elif car is not None and car.lane == 4 and lane != 0:
            return
        if car is None:
            car = self._cars[xway, dir, vid] = _Car(time)
        segment = self._segments.setdefault((xway, dir, seg, minute), _Segment())
        segment.speeds.append(spd)
        segment.cars.add(vid)
        if (lane, pos) == (car.lane, car.pos):
            car.reports_here += 1
        else:
            self._moves(car, minute, xway, dir, vid)
            car.reports_here = 1
        if car.reports_here == 4:
            self._stops(minute, xway, dir, seg, lane, pos, vid)
        if seg != car.seg:
            if car.toll:
                self._balances[vid] = self._balances.get(vid, 0) + car.toll
            car.toll = self._enters(time, minute, xway, dir, seg, vid) if lane != 4 else 0
        car.time, car.lane, car.seg, car.pos = time, lane, seg, pos

    def _stops(self, minute: int, xway: int, dir: int, seg: int, lane: int, pos: int, vid: int) -> None:
        there = self._stopped.setdefault((xway, dir, lane, pos), [])
        if len(there) < 2 and vid not in there:
            there.append(vid)
        if len(there) == 2 and (xway, dir, seg) not in self._accidents:
            self._accidents[xway, dir, seg] = _Accident(minute, list(there))

    def _moves(self, car: _Car, minute: int, xway: int, dir: int, vid: int) -> None:
        if car.reports_here < 4:
            return
        there = self._stopped.get((xway, dir, car.lane, car.pos), [])
        if vid in there:
            there.remove(vid)
        accident = self._accidents.get((xway, dir, car.seg))
        if accident is not None and accident.cleared is None and vid in accident.cars:
            accident.cleared = minute

    def _enters(self, time: int, minute: int, xway: int, dir: int, seg: int, vid: int) -> int:
        lav, cars = self._before(xway, dir, seg, minute)
        toll = 2 * (cars - 50) ** 2 if lav < 40 and cars > 50 else 0
        for step in range(5):
            where = seg + step if dir == 0 else seg - step
            accident = self._accidents.get((xway, dir, where))
            if accident is not None and accident.found < minute and minute <= (accident.cleared or minute):
                self.answers.accident.append((time, xway, where, dir, vid))
                toll = 0
                break
        self.answers.toll.append((vid, time, lav, toll))
        return toll

    def _before(self, xway: int, dir: int, seg: int, minute: int) -> tuple[int, int]:
        """LAV and cars that decide the toll of a minute: all lines of the minutes before are in, so this is worked out once."""
        known = self._last_minutes.get((xway, dir, seg, minute))
        if known is None:
            speeds: list[int] = []
            for before in range(minute - 5, minute):
                past = self._segments.get((xway, dir, seg, before))
                speeds += past.speeds if past is not None else []
            last = self._segments.get((xway, dir, seg, minute - 1))
            known = _rounded_mean(speeds) if speeds else 0, len(last.cars) if last is not None else 0
            self._last_minutes[xway, dir, seg, minute] = known
        return known


def _numbers(text: str) -> Line | None:
    """The 15 numbers of a line that can be one of Linear Road's."""
    words = text.strip().split(",")
    if len(words) != 15:
        return None
    for word in words:
        digits = word[1:] if word[:1] == "-" else word
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
            return None
    n = tuple(int(word) for word in words)
    kind, time, vid, spd, xway, lane, dir, seg, pos = n[:9]
    limits = [(spd, 1000), (xway, 32767), (lane, 4), (dir, 1), (seg, 99), (pos, 10**9)]
    lowest = 0 if kind == 0 else -1
    if kind not in (0, 2, 3, 4, 9) or vid < 0 or (kind != 9 and time < 0) or not -1 <= n[14] <= 32767:
        return None
    return n if all(lowest <= value <= highest for value, highest in limits) else None


def _rounded_mean(speeds: list[int]) -> int:
    """Half up, in numbers of 32 bits, as the reference does."""
    return int(_float32(_float32(sum(speeds) / len(speeds)) + 0.5))


def _float32(value: float) -> float:
    number: float = struct.unpack("f", struct.pack("f", value))[0]
    return number
