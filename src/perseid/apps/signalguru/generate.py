"""Cars with a phone on the windshield at signalled intersections, with the truth: the colour, and when it changes (M8).

Signals run in coordinated cycles whose splits drift. Cars come in platoons, wait for green and leave in a queue, after 10
to 40 seconds, as in the paper. So at scale 1 the pictures of all cars near an intersection swing between 200 MB and 2 GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.apps.chance import mixed, uniform
from perseid.apps.pictures import column_of
from perseid.apps.signalguru.view import View

COLOURS = ("none", "red", "amber", "green")
RED, AMBER, GREEN = 1, 2, 3
START_MS = 1_767_600_000_000
INTERVAL_MS = 500
CYCLE_MS = 60_000
AMBER_MS = 3_000
NEAR_MS = 10_000
"""How long a car is near an intersection that it need not stop at."""
CARS = 12
"""Cars of one cycle."""
INTERSECTIONS = 508
"""At scale 1."""
HEADWAY_MS = 800
_GOLDEN = 0.6180339887  # spreads however few evenly
STAGGER_MS = 24_000
"""By how much the cycles of the signals along a road are set off against each other: a green wave."""

SCHEMA = "intersection long, phone long, at_ms long, leaves boolean, frame binary, truth int, next_ms long"


@dataclass(frozen=True)
class Town:
    """What the pictures are made of. Row ``id`` is intersection ``id % intersections`` at moment ``id // intersections``."""

    intersections: int
    seed: int = 0

    @classmethod
    def of(cls, scale: float, seed: int) -> Town:
        """The town of the paper, scaled."""
        return cls(max(1, round(INTERSECTIONS * scale)), seed)

    def rows(self, cycles: float) -> int:
        """How many rows (each with the pictures of several cars) so many cycles are."""
        return self.intersections * round(cycles * CYCLE_MS / INTERVAL_MS)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The pictures of a batch of ids: what the transform of the graph does."""
        columns = self.pictures(batch.column("id").to_numpy())
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def pictures(self, ids: NDArray[np.int64]) -> dict[str, pa.Array]:
        """One row for every car near its intersection at the moments ``ids``."""
        place, now_ms = ids % self.intersections, ids // self.intersections * INTERVAL_MS
        colour, next_ms = self.signal(place, now_ms)
        row, phone, since_ms, leaves = self._cars(place, now_ms)
        frames = View(self.seed).drawn(phone, since_ms / NEAR_MS, now_ms[row] // INTERVAL_MS, colour[row])
        return {
            "intersection": pa.array(place[row]),
            "phone": pa.array(phone),
            "at_ms": pa.array(START_MS + now_ms[row]),
            "leaves": pa.array(leaves),
            "frame": column_of(frames),
            "truth": pa.array(colour[row].astype(np.int32)),
            "next_ms": pa.array(START_MS + next_ms[row]),
        }

    def signal(self, place: Any, now_ms: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The colour of a signal at a moment, and when it changes next."""
        cycle = (now_ms - self._begin(place, 0)) // CYCLE_MS
        cycle = np.where(now_ms < self._green(place, cycle), cycle - 1, cycle)  # beginnings waver by a second
        cycle = np.where(now_ms >= self._green(place, cycle + 1), cycle + 1, cycle)
        red = self._red(place, cycle)
        amber, green = red - AMBER_MS, self._green(place, cycle + 1)
        colour = np.where(now_ms < amber, GREEN, np.where(now_ms < red, AMBER, RED))
        return colour, np.where(now_ms < amber, amber, np.where(now_ms < red, red, green))

    def _begin(self, place: Any, cycle: Any) -> Any:
        return (np.mod(place * _GOLDEN, 1.0) * STAGGER_MS).astype(np.int64) + cycle * CYCLE_MS

    def _green(self, place: Any, cycle: Any) -> Any:
        """When a cycle's green begins."""
        return self._begin(place, cycle) + (uniform(self.seed, place, cycle, 2) * 2000.0 - 1000.0).astype(np.int64)

    def _red(self, place: Any, cycle: Any) -> Any:
        """When its red begins: the length of green follows the traffic, up and down over a dozen cycles."""
        drift = np.sin(cycle * (2.0 * np.pi / 12.0) + 6.3 * uniform(self.seed, place, 3))
        length = 25_000.0 + 6_000.0 * drift + 1_000.0 * uniform(self.seed, place, cycle, 4)
        return self._green(place, cycle) + length.astype(np.int64) + AMBER_MS

    def _cars(self, place: Any, now_ms: Any) -> tuple[Any, Any, Any, Any]:
        """Which cars are near: the row they belong to, their phone, how long they have been there, whether they leave."""
        cycle = ((now_ms - self._begin(place, 0)) // CYCLE_MS)[:, None, None] + np.array([-2, -1, 0])[None, :, None]
        place, car = place[:, None, None], np.arange(CARS)[None, None, :]
        luck = uniform(self.seed, place, cycle, car, 5)
        red, green = self._red(place, cycle), self._green(place, cycle + 1)
        comes = red - NEAR_MS + (luck * luck * CYCLE_MS).astype(np.int64)  # most while it is red: a platoon
        queued = green + 2_000 + (luck * CARS * HEADWAY_MS).astype(np.int64)
        goes = np.where(comes + NEAR_MS < green, np.maximum(queued, comes + NEAR_MS), comes + NEAR_MS)
        now = now_ms[:, None, None]
        near = (comes <= now) & (now < goes)
        row = np.nonzero(near)[0]
        phone = (mixed(self.seed, place, cycle, car, 6) >> np.uint64(1)).astype(np.int64)[near]
        return row, phone, np.broadcast_to(now - comes, near.shape)[near], (now + INTERVAL_MS >= goes)[near]
