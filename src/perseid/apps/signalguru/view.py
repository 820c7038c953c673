"""What a phone on a windshield sees: a traffic light, tail lights, signs, a wiper now and then, noise.

The light stays where it is in the picture, drifting a little as the car comes near. Tail lights and signs move from
picture to picture, or have another shape: the filters have to tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perseid.apps.chance import grain, mixed, uniform

SHAPE = (48, 64, 3)
LAMP = {1: (225, 45, 40), 2: (235, 165, 35), 3: (45, 215, 95)}
HIDDEN = 0.1
"""In how many pictures something is before the light."""


def _disc(radius: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, columns = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    inside = np.nonzero(rows * rows + columns * columns <= radius * radius + 1)
    return inside[0] - radius, inside[1] - radius


_LAMP, _TAIL, _SIGN = _disc(3), _disc(2), _disc(3)
_BAR = tuple(part.ravel() for part in np.mgrid[0:3, 0:12])


@dataclass(frozen=True)
class View:
    """Draws pictures from what is there; the same picture for the same numbers."""

    seed: int

    def drawn(self, phone: Any, near: Any, tick: Any, colour: Any) -> NDArray[np.uint8]:
        """One colour picture for every row. ``near`` is 0 when the car comes into view of the light, 1 at the stop line."""
        high, wide, channels = SHAPE
        size = high * wide * channels
        pictures = (55 + (grain(self.seed + 1, mixed(self.seed, phone, tick).view(np.int64), size) & 31)).reshape(
            -1, *SHAPE
        )
        chance = [uniform(self.seed, phone, n) for n in range(10, 16)]
        self._bar(pictures, chance)
        for n in range(2):  # tail lights of the cars in front
            where = [uniform(self.seed, phone, tick, n, k) for k in (20, 21)]
            _paint(pictures, 32 + 10 * where[0], 4 + 54 * where[1], _TAIL, np.array(LAMP[1]))
        sign = (tick * (4.0 + 5.0 * chance[4]) + 200.0 * chance[5]) % 150.0  # a green sign that passes by
        seen = sign < wide - 4
        _paint(pictures, 20 + 6 * chance[3], sign, _SIGN, np.array(LAMP[3]), seen)
        row = 8 + 4 * chance[0] + 3.0 * (1.0 - np.minimum(near, 1.0))
        shown = uniform(self.seed, phone, tick, 30) >= HIDDEN
        lamps = np.array([LAMP[code] for code in (1, 2, 3)])[np.maximum(colour, 1) - 1]
        _paint(pictures, row, 14 + 36 * chance[1], _LAMP, lamps, shown)
        return np.asarray(pictures, np.uint8)

    def _bar(self, pictures: Any, chance: Any) -> None:
        """A lit shop sign that stays where it is, but is no disc."""
        colours = np.where((chance[2] < 0.5)[:, None], LAMP[1], LAMP[3])
        _paint(pictures, 26 + 0 * chance[0], 2 + 48 * chance[3], _BAR, colours)


def _paint(pictures: Any, row: Any, column: Any, body: Any, colour: Any, where: Any = None) -> None:
    """Put a body into every picture (or those ``where`` says)."""
    picked = np.arange(len(pictures)) if where is None else np.flatnonzero(where)
    rows = np.clip(row[picked].astype(np.int64)[:, None] + body[0], 0, SHAPE[0] - 1)
    columns = np.clip(column[picked].astype(np.int64)[:, None] + body[1], 0, SHAPE[1] - 1)
    tint = np.broadcast_to(colour, (len(pictures), 3))[picked]
    pictures[picked[:, None], rows, columns] = tint[:, None, :]
