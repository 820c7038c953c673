"""Counting people who wait, from successive pictures of one camera (M8).

The median over five pictures keeps who stands and drops who walks. What differs from the empty stop, cut into connected
pieces, is people; a piece as large as two counts as two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perseid.apps.bcp.scene import BODY_PIXELS

SUCCESSIVE = 5
CONTRAST = 20
LEAST_PIXELS = BODY_PIXELS // 2
_IN_PLANE = np.zeros((3, 3, 3), bool)
_IN_PLANE[1] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]


def median_of_five(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The median over axis 1, of length five, by exchanges of whole pictures: far quicker than sorting."""
    a, b, c, d, e = (pictures[:, n] for n in range(SUCCESSIVE))
    a, b = np.minimum(a, b), np.maximum(a, b)
    c, d = np.minimum(c, d), np.maximum(c, d)
    c, b = np.maximum(a, c), np.minimum(b, d)  # the lowest and the highest of four are not the median
    low, high = np.minimum(b, c), np.maximum(b, c)
    return np.asarray(np.maximum(low, np.minimum(high, e)))


def people_in(pictures: NDArray[np.uint8], empty: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How many people stand in each picture; ``empty`` shows the same stop without anybody (broadcast)."""
    from scipy.ndimage import label  # here, so that the graph can be built without it

    if not len(pictures):
        return np.empty(0, np.int64)
    difference = pictures.astype(np.int16) - empty
    difference -= np.median(difference[:, ::3, ::3], axis=(1, 2)).astype(np.int16)[:, None, None]  # the light
    pieces, count = label(np.abs(difference) > CONTRAST, _IN_PLANE)
    sizes = np.bincount(pieces.ravel(), minlength=count + 1)[1:]
    picture_of = _first_picture(pieces, count)
    people = np.where(sizes >= LEAST_PIXELS, np.maximum(1, np.round(sizes / BODY_PIXELS)), 0).astype(np.int64)
    return np.bincount(picture_of, people, len(pictures)).astype(np.int64)


def _first_picture(pieces: NDArray[Any], count: int) -> NDArray[np.int64]:
    """In which picture each piece lies: labels are given in order, so the largest label so far tells."""
    highest = np.maximum.accumulate(pieces.reshape(len(pieces), -1).max(axis=1))
    return np.searchsorted(highest, np.arange(1, count + 1))


def waiting_in(history: NDArray[np.uint8], empty: NDArray[np.uint8]) -> int:
    """How many people wait at the end of a history of pictures since the last bus.

    Until the bus comes people are only added. So the counts over the whole history should rise; the last value of their
    isotonic fit is the highest mean over an end of them, and is steadier than the last count alone.
    """
    groups = len(history) // SUCCESSIVE
    if not groups:
        return int(people_in(history[-1:], empty)[0]) if len(history) else 0
    newest = history[len(history) - groups * SUCCESSIVE :].reshape(groups, SUCCESSIVE, *history.shape[1:])
    counts = people_in(median_of_five(newest), empty)[::-1]
    means = np.cumsum(counts) / np.arange(1, groups + 1)
    return int(np.round(means[min(1, groups - 1) :].max()))
