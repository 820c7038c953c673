"""How full a bus will be at its next stops: what is learned about a line, and what it predicts (M8).

On the way some get off (a share that each stop has), and all who wait get on: those the camera counts now, and those who
will have come by the time the bus is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

AHEAD = 3
"""How many stops ahead are predicted."""
_WEIGHT = 0.4  # of what was seen last, in a running mean


@dataclass(slots=True)
class Place:
    """What is known of one stop."""

    at_ms: int = 0
    waiting: float = 0.0  # by the newest pictures
    per_s: float = 0.0  # how fast people come
    leaving: float = 0.3  # share of those on board who get off
    bus_ms: int | None = None  # when the last bus came


@dataclass(slots=True)
class Forecast:
    """One forecast, kept until the bus is there."""

    ahead: int
    predicted: float
    unchanged: int  # what one would say without a model: as full as now


@dataclass(slots=True)
class Line:
    """What is known of one line, and the forecasts that wait for their buses."""

    places: dict[int, Place] = field(default_factory=dict)
    hop_s: float = 60.0
    buses: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # place, time and load when last seen
    open: dict[tuple[int, int], list[Forecast]] = field(default_factory=dict)  # by bus and place

    def count(self, place: int, at_ms: int, waiting: int) -> None:
        """The camera counted so many at a place."""
        here = self.places.setdefault(place, Place())
        here.at_ms, here.waiting = at_ms, float(waiting)
        if here.bus_ms is not None and at_ms - here.bus_ms > 30_000:
            here.per_s = _mean(here.per_s, waiting / ((at_ms - here.bus_ms) / 1000.0))

    def arrive(self, place: int, at_ms: int, bus: int, onboard: int, waited: int) -> list[Forecast]:
        """A bus left a place with so many on board; learns from it. The forecasts that were made for this moment."""
        here = self.places.setdefault(place, Place())
        if bus in self.buses:
            last, last_ms, load = self.buses[bus]
            if place > last:
                self.hop_s = _mean(self.hop_s, (at_ms - last_ms) / 1000.0 / (place - last))
            if load and place == last + 1:
                here.leaving = _mean(here.leaving, min(1.0, max(0.0, (load + waited - onboard) / load)))
        here.at_ms, here.waiting, here.bus_ms = at_ms, 0.0, at_ms
        self.buses[bus] = (place, at_ms, onboard)
        while len(self.buses) > 8:  # buses that left the line: those seen longest ago
            self.buses.pop(min(self.buses, key=lambda one: self.buses[one][1]))
        self.open = {at: made for at, made in self.open.items() if at[0] in self.buses}
        return self.open.pop((bus, place), [])

    def predict(self, place: int, at_ms: int, bus: int, onboard: int) -> list[tuple[int, Forecast]]:
        """How full the bus will be at the next places."""
        load, made = float(onboard), []
        for ahead in range(1, AHEAD + 1):
            there = self.places.get(place + ahead)
            if there is None:
                break
            until_s = (at_ms - there.at_ms) / 1000.0 + ahead * self.hop_s
            load = load * (1.0 - there.leaving) + there.waiting + there.per_s * max(0.0, until_s)
            forecast = Forecast(ahead, load, onboard)
            self.open.setdefault((bus, place + ahead), []).append(forecast)
            made.append((place + ahead, forecast))
        return made


def _mean(before: float, now: float) -> float:
    return before + _WEIGHT * (now - before)
