"""Bus stops with a camera each, with the truth: who waits, who only walks by, when a bus comes, how full it leaves (M8).

All lines run in waves, as on a campus between lectures: a bus passes the stops of its line in the first fifth of the
headway. So at scale 1 the pictures kept since the last bus swing between 100 and 700 MB, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.apps.bcp.scene import PEOPLE, SHAPE, Scene
from perseid.apps.chance import uniform
from perseid.apps.pictures import column_of

START_MS = 1_767_600_000_000
INTERVAL_MS = 4_000
PLACES = 6
"""Stops of a line."""
LINES = 124
"""At scale 1: 124 lines of 6 stops, 150 pictures in ten minutes, 6,912 bytes each, are 770 MB a headway."""
WAVE = 0.22
"""In which part of a headway the buses pass: half of that part of the pictures is left after them."""

_GOLDEN = 0.6180339887  # spreads however few lines evenly

SCHEMA = "stop long, line int, place int, at_ms long, bus long, onboard int, boarding int, waiting int, frame binary"


@dataclass(frozen=True)
class Campus:
    """What the pictures are made of. Row ``id`` is stop ``id % stops`` at picture ``id // stops``."""

    lines: int
    headway: int  # pictures between two buses
    seed: int = 0

    @classmethod
    def of(cls, scale: float, minutes: float, seed: int) -> Campus:
        """The campus of the paper, scaled."""
        return cls(max(1, round(LINES * scale)), max(10, round(minutes * 60_000 / INTERVAL_MS)), seed)

    @property
    def stops(self) -> int:
        return self.lines * PLACES

    def rows(self, headways: float) -> int:
        """How many rows so many headways are."""
        return self.stops * round(headways * self.headway)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The pictures of a batch of ids: what the transform of the graph does."""
        columns = self.pictures(batch.column("id").to_numpy())
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def pictures(self, ids: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Stop, time, bus if one comes, truth and picture of every id."""
        stop, tick = ids % self.stops, ids // self.stops
        place = stop % PLACES
        since = tick - self._passing(stop // PLACES, place)
        run, elapsed = np.divmod(since, self.headway)  # the last bus (-1: none yet), and how long ago it came
        elapsed = np.where(run < 0, tick, elapsed)
        there = self._there(stop, run + 1, elapsed)
        comes = (elapsed == 0) & (run >= 0)
        bus = stop // PLACES * 100_000 + run
        onboard, boarding = self._onboard(stop, run, comes)
        frames = Scene(self.seed).drawn(stop, tick, run + 1, there)
        return {
            "stop": pa.array(stop // PLACES * 100 + place),
            "line": pa.array((stop // PLACES).astype(np.int32)),
            "place": pa.array(place.astype(np.int32)),
            "at_ms": pa.array(START_MS + tick * INTERVAL_MS),
            "bus": pa.array(bus, mask=~comes),
            "onboard": pa.array(onboard.astype(np.int32), mask=~comes),
            "boarding": pa.array(boarding.astype(np.int32), mask=~comes),
            "waiting": pa.array(there.sum(axis=1).astype(np.int32)),
            "frame": column_of(frames),
        }

    def _passing(self, line: Any, place: Any) -> Any:
        """After how many pictures of a headway the bus of a line passes a place."""
        return np.round(WAVE * self.headway * (place + np.mod(line * _GOLDEN, 1.0)) / PLACES).astype(np.int64)

    def _there(self, stop: Any, wait: Any, elapsed: Any) -> NDArray[np.bool_]:
        """Who of the people who may come to a stop is there, so long after the last bus. ``wait`` numbers the waits."""
        busy = 2.0 + 10.0 * uniform(self.seed, stop, 1) * (0.6 + 0.8 * uniform(self.seed, stop, wait, 2))
        person = np.arange(PEOPLE)
        came = uniform(self.seed, stop[:, None], wait[:, None], person[None, :], 3) * self.headway
        there: NDArray[np.bool_] = (person[None, :] < np.floor(busy)[:, None]) & (came <= elapsed[:, None])
        return there

    def _onboard(
        self, stop: NDArray[np.int64], run: NDArray[np.int64], comes: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many are on a bus when it leaves the stop, and how many got on there, who are all who waited."""
        onboard, boarding = np.zeros(len(stop), np.int64), np.zeros(len(stop), np.int64)
        rows = np.flatnonzero(comes)
        if not len(rows):
            return onboard, boarding
        line, place, run = stop[rows] // PLACES, stop[rows] % PLACES, run[rows]
        count = (25.0 * uniform(self.seed, line, run, 4)).astype(np.int64)
        for at in range(PLACES):
            here = line * PLACES + at
            share = (0.1 + 0.5 * uniform(self.seed, here, 5)) * (0.8 + 0.4 * uniform(self.seed, here, run, 6))
            waited = np.where(run == 0, self._passing(line, at), self.headway) - 1
            get_on = self._there(here, run, waited).sum(axis=1)
            count = np.where(at <= place, count - (count * share).astype(np.int64) + get_on, count)
            boarding[rows] = np.where(at == place, get_on, boarding[rows])
        onboard[rows] = count
        return onboard, boarding


FRAME_BYTES = SHAPE[0] * SHAPE[1]
