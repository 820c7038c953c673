"""Phones that move through a city, with the truth: who stands still, walks, rides a bus or drives (M8).

A phone reports every few seconds. In every window it does one thing; where it is, is a closed formula of the time, so
that any row can be made alone and again. Bus stops are the crossings of a grid; buses halt there, cars halt anywhere.
Statistics follow the paper: at scale 1 the positions of ten minutes fill 300 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.apps.chance import normal, uniform

MODES = ("still", "walking", "bus", "driving")
SHARES = (0.30, 0.25, 0.20, 0.25)
START_MS = 1_767_600_000_000
INTERVAL_MS = 5_000
BLOCK_M = 400.0
PHONES = 52_000
"""At scale 1: 52,000 phones, 120 reports in ten minutes, 48 bytes each, are 300 MB."""

SCHEMA = "phone long, at_ms long, x double, y double, truth int"


@dataclass(frozen=True)
class City:
    """What positions are made of. Row ``id`` is phone ``id % phones`` at report ``id // phones``."""

    phones: int
    window_ms: int
    seed: int = 0
    noise_m: float = 3.0

    @classmethod
    def of(cls, scale: float, minutes: float, seed: int) -> City:
        """The city of the paper, scaled."""
        return cls(max(40, round(PHONES * scale)), round(minutes * 60_000), seed)

    def rows(self, windows: float) -> int:
        """How many rows so many windows are."""
        return self.phones * round(windows * self.window_ms / INTERVAL_MS)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The positions of a batch of ids: what the transform of the graph does."""
        columns = self.positions(batch.column("id").to_numpy())
        return pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], list(columns))

    def positions(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Phone, time, place and true mode of every id."""
        phone, at_ms = ids % self.phones, START_MS + ids // self.phones * INTERVAL_MS
        window = at_ms // self.window_ms
        seconds = (at_ms - window * self.window_ms) / 1000.0
        truth = mode_of(phone, window, self.seed)
        along = _distance(truth, seconds, phone, window, self.seed)
        x0, y0 = self._beginning(truth, phone, window)
        forth = uniform(self.seed, phone, window, 5) < 0.5
        x, y = np.where(forth, x0 + along, x0), np.where(forth, y0, y0 + along)
        return {
            "phone": phone,
            "at_ms": at_ms,
            "x": x + self.noise_m * normal(self.seed, phone, at_ms, 1),
            "y": y + self.noise_m * normal(self.seed, phone, at_ms, 2),
            "truth": truth.astype(np.int32),
        }

    def _beginning(
        self, truth: NDArray[np.int64], phone: NDArray[np.int64], window: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the window's way begins: buses at a stop, the others anywhere."""
        places = [BLOCK_M * 50 * uniform(self.seed, phone, window, n) for n in (6, 7)]
        at_stop = [np.round(place / BLOCK_M) * BLOCK_M for place in places]
        x, y = (np.where(truth == 2, stop, place) for stop, place in zip(at_stop, places, strict=True))
        return x, y


def mode_of(phone: NDArray[np.int64], window: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """What a phone's bearer does in a window: an index into ``MODES``."""
    return np.searchsorted(np.cumsum(SHARES)[:-1], uniform(seed, phone, window, 0), side="right")


def _distance(
    truth: NDArray[np.int64],
    seconds: NDArray[np.float64],
    phone: NDArray[np.int64],
    window: NDArray[np.int64],
    seed: int,
) -> NDArray[np.float64]:
    """Metres travelled since the window began."""
    first, second, third = (uniform(seed, phone, window, n) for n in (2, 3, 4))
    walked = (1.0 + 0.7 * first) * seconds + 3.0 * np.sin(seconds / 20.0 + 6.0 * second)
    ridden = _stop_and_go(seconds, BLOCK_M, 36.0 + 14.0 * first, 14.0 + 10.0 * second)
    block_m = 300.0 + 1200.0 * first
    driven = _stop_and_go(seconds, block_m, block_m / (8.0 + 9.0 * second), 25.0 * third * third)
    return np.select([truth == 1, truth == 2, truth == 3], [walked, ridden, driven], 0.0)


def _stop_and_go(seconds: Any, block_m: Any, moving_s: Any, halt_s: Any) -> NDArray[np.float64]:
    """Blocks driven with a smooth rise and fall of the speed, and a halt after each."""
    period_s = moving_s + halt_s
    blocks = np.floor(seconds / period_s)
    part = np.minimum((seconds - blocks * period_s) / moving_s, 1.0)
    return np.asarray(block_m * (blocks + part * part * (3.0 - 2.0 * part)))
