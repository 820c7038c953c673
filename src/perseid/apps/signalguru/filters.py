"""Finding the traffic light in pictures: the colour, the shape and the motion filter (M8).

Colour and shape look at one picture. Motion looks at the pictures of the same phone before it: a traffic light has been
at its place in most of them, a tail light has not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perseid.apps.signalguru.generate import AMBER, GREEN, RED

PIXELS = (20, 60)
ROUND = (0.62, 0.95)  # share of its box that a disc fills
BACK = 6
"""How many pictures back the motion filter looks."""
_IN_PLANE = np.zeros((3, 3, 3), bool)
_IN_PLANE[1] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
_AROUND = np.mgrid[-1:2, -1:2].reshape(2, -1)
_SPOT = np.dtype([("picture", "i8"), ("colour", "i4"), ("row", "f4"), ("column", "f4")])


def colour_filter(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """For every pixel the colour of light it may be part of, 0 for none."""
    red, green, blue = pictures[..., 0], pictures[..., 1], pictures[..., 2]
    found = np.zeros(pictures.shape[:-1], np.uint8)
    warm = (red > 170) & (blue < 120)
    found[warm & (green < 110)] = RED
    found[warm & (green >= 110)] = AMBER
    found[(green > 170) & (red < 120) & (blue < 160)] = GREEN
    return found


def shape_filter(colours: NDArray[np.uint8]) -> NDArray[Any]:
    """Connected pieces of one colour that are discs of the right size: picture, colour and centre of each."""
    from scipy.ndimage import label  # here, so that the graph can be built without it

    pieces, count = label(colours, _IN_PLANE)
    at = np.nonzero(pieces)
    piece = pieces[at] - 1
    size = np.bincount(piece, minlength=count)
    ends = []
    for place in at[1:]:
        low, high = np.full(count, 9999), np.full(count, -1)
        np.minimum.at(low, piece, place)
        np.maximum.at(high, piece, place)
        ends.append((low, high))
    high, wide = (high - low + 1 for low, high in ends)
    filled = size / np.maximum(high * wide, 1)
    spots = np.empty(count, _SPOT)
    spots["picture"][piece] = at[0]
    spots["colour"][piece] = colours[at]
    spots["row"], spots["column"] = ((low + high) / 2.0 for low, high in ends)
    disc = (np.abs(high - wide) <= 2) & (filled >= ROUND[0]) & (filled <= ROUND[1])
    return np.asarray(spots[disc & (size >= PIXELS[0]) & (size <= PIXELS[1])])


def motion_filter(history: NDArray[np.uint8], spots: NDArray[Any]) -> NDArray[np.int64]:
    """In how many of the ``BACK`` pictures before it a light was where each spot is; -1 if there are no two before it.

    ``spots`` name their picture by its place in ``history``, all pictures of one phone at one intersection.
    """
    high, wide = history.shape[1:3]
    back = spots["picture"][:, None] - np.arange(1, BACK + 1)
    row = np.clip(np.round(spots["row"]).astype(np.int64)[:, None] + _AROUND[0], 0, high - 1)
    column = np.clip(np.round(spots["column"]).astype(np.int64)[:, None] + _AROUND[1], 0, wide - 1)
    pixels = history[np.maximum(back, 0)[:, :, None], row[:, None, :], column[:, None, :]].astype(np.int16)
    lit = (np.median(pixels.max(axis=3) - pixels.min(axis=3), axis=2) > 90) & (back >= 0)
    return np.where(spots["picture"] >= 2, lit.sum(axis=1), -1)
