"""What a camera at a bus stop sees: people who wait in their places, people who walk by, light that changes, noise.

People who wait stand still until the bus comes; those who walk by are somewhere else in every picture, and may hide
others. That is why one picture is not enough to count (the paper's reason to keep them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perseid.apps.chance import grain, mixed, uniform

SHAPE = (72, 96)
PEOPLE = 24
"""How many people a platform holds: two rows of twelve."""
BODY = (15, 5)
WALKERS = 2
_COLUMNS, _WIDTH, _ROWS, _DEPTH = 12, 8, (22, 46), 2
_STEP = 7  # without a common factor with PEOPLE: who comes next stands somewhere else


def _body(shape: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pixels of an upright ellipse, relative to its upper left corner."""
    high, wide = shape
    rows, columns = np.mgrid[0:high, 0:wide]
    inside = ((rows - (high - 1) / 2) / (high / 2)) ** 2 + ((columns - (wide - 1) / 2) / (wide / 2)) ** 2 <= 1.0
    found = np.nonzero(inside)
    return found[0].astype(np.int64), found[1].astype(np.int64)


_BODY = _body(BODY)
_WALKER = _body((16, 6))
BODY_PIXELS = len(_BODY[0])


@dataclass(frozen=True)
class Scene:
    """Draws pictures from what is there; the same picture for the same numbers."""

    seed: int

    def drawn(self, stop: Any, tick: Any, wait: Any, there: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """One grey picture for every row."""
        high, wide = SHAPE
        pictures = (grain(self.seed + 1, stop, high * wide) & 31) + np.int16(80)
        light = (12.0 * np.sin(tick / 15.0 + 6.3 * uniform(self.seed, stop, 11))).astype(np.int16)
        row, person = np.nonzero(there)
        self._stand(pictures, row, stop[row], wait[row], person)
        for walker in range(WALKERS):
            self._walk(pictures, stop, tick, walker)
        noise = grain(self.seed + 2, mixed(self.seed, stop, tick).view(np.int64), high * wide) & 15
        pictures += noise
        pictures += light[:, None] - np.int16(8)
        return np.asarray(np.clip(pictures, 0, 255).astype(np.uint8).reshape(-1, high, wide))

    def _stand(self, pictures: Any, row: Any, stop: Any, wait: Any, person: Any) -> None:
        slot = (person * _STEP + (mixed(self.seed, stop, wait, 12) % np.uint64(PEOPLE)).astype(np.int64)) % PEOPLE
        sway = (mixed(self.seed, stop, wait, person, 13) % np.uint64(2)).astype(np.int64)
        top = np.asarray(_ROWS)[slot // _COLUMNS] + sway * _DEPTH
        left = 1 + slot % _COLUMNS * _WIDTH + sway
        look = uniform(self.seed, stop, wait, person, 14)
        shade = np.where(look < 0.6, -40.0 - 30.0 * look, 50.0 + 60.0 * look)
        _paint(pictures, row, top, left, shade, _BODY)

    def _walk(self, pictures: Any, stop: Any, tick: Any, walker: int) -> None:
        """Somebody crosses the picture every now and then, a good step further each time."""
        wide = SHAPE[1]
        chance = [uniform(self.seed, stop, walker, 20 + n) for n in range(3)]
        left = ((tick * (9.0 + 9.0 * chance[0]) + 288.0 * chance[1]) % (3.0 * wide)).astype(np.int64)
        row = np.flatnonzero(left < wide - 6)
        top = (18.0 + 30.0 * uniform(self.seed, stop[row], tick[row], walker, 30)).astype(np.int64)
        shade = np.where(chance[2][row] < 0.5, -60.0, 90.0)
        _paint(pictures, row, top, left[row], shade, _WALKER)


def _paint(pictures: Any, row: Any, top: Any, left: Any, shade: Any, body: tuple[Any, Any]) -> None:
    """Put bodies into pictures (flat, one a row): over what was there."""
    pixel = (top[:, None] + body[0][None, :]) * SHAPE[1] + left[:, None] + body[1][None, :]
    pictures[row[:, None], pixel] = (100.0 + shade).astype(np.int16)[:, None]
