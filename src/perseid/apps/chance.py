"""Chance that can be asked again: random numbers that are a function of a seed and of ids, computed on whole columns.

Generated rows must be the same whenever a source is replayed (M1), in any batch and any order. So nothing is drawn from
a generator with a position; every number is a hash of what it belongs to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)


def mixed(seed: int, *ids: Any) -> NDArray[np.uint64]:
    """64 well mixed bits for every combination of ids (integer arrays that broadcast against each other)."""
    bits = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x1234567) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        mixture: Any = bits
        for one in ids:
            mixture = _scrambled((mixture ^ np.asarray(one).astype(np.int64).view(np.uint64)) + _GOLDEN)
    return np.asarray(mixture, np.uint64)


def uniform(seed: int, *ids: Any) -> NDArray[np.float64]:
    """A number in [0, 1) for every combination of ids.

    >>> bool(uniform(7, 1) == uniform(7, 1)), bool(uniform(7, 1) == uniform(8, 1))
    (True, False)
    """
    return (mixed(seed, *ids) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed: int, *ids: Any) -> NDArray[np.float64]:
    """A standard normal number for every combination of ids (Box and Muller's way)."""
    bits = mixed(seed, *ids)
    radius = np.sqrt(-2.0 * np.log(((bits >> _HALF).astype(np.float64) + 1.0) * 2.0**-32))
    angle = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) * (2.0 * np.pi * 2.0**-32)
    return np.asarray(radius * np.cos(angle))


def grain(seed: int, ids: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """``size`` random bytes for every id, as the noise of a picture: one row each."""
    words = -(-size // 8)
    start = mixed(seed, ids)[:, None]
    with np.errstate(over="ignore"):
        bits = (start + np.arange(words, dtype=np.uint64) * _GOLDEN) * _FIRST
        bits ^= bits >> _HALF
        bits *= _SECOND
    return bits.view(np.uint8)[:, :size]


def _scrambled(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))
