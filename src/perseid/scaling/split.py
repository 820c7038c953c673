"""Where to cut an operator's slots: evenly, or by what hosts have seen of its keys where these are skewed (S5).

Invariant: the ranges cover the slots without gap or overlap, and each has at least one slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from perseid.scaling.routing import even_slots
from perseid.vocabulary import SLOTS, SlotRange

EVEN_ENOUGH = 1.1  # so much more than it must an even cut may put on one shard: equal ranges are easier to read


def split_slots(shards: int, weights: Sequence[float] | None = None) -> tuple[SlotRange, ...]:
    """So many ranges, the heaviest of which is as light as it can be; ``weights`` are the slots' shares of the load.

    >>> split_slots(2, [0.0] * 128 + [1.0] * 128)
    ((0, 192), (192, 256))
    """
    even = even_slots(shards)
    if weights is None or not any(weights):
        return even
    best = _lightest(shards, weights)
    if heaviest(even, weights) <= EVEN_ENOUGH * heaviest(best, weights):
        return even
    return best


def heaviest(ranges: Sequence[SlotRange], weights: Sequence[float]) -> float:
    """The load of the shard that has most of it."""
    return max(sum(weights[first:last]) for first, last in ranges)


def _lightest(shards: int, weights: Sequence[float]) -> tuple[SlotRange, ...]:
    """The smallest load that no range must exceed, found by halving; then as equal as ranges of at most that load can be."""
    low, high = max(max(weights), sum(weights) / shards), float(sum(weights))
    for _ in range(50):
        middle = (low + high) / 2
        if _filled(shards, weights, middle) is None:
            low = middle
        else:
            high = middle
    found = _filled(shards, weights, high)
    assert found is not None
    return found


def _filled(shards: int, weights: Sequence[float], most: float) -> tuple[SlotRange, ...] | None:
    """Ranges filled one after the other with no more than ``most``, but with what is left shared out; None if there are too few."""
    ranges: list[SlotRange] = []
    first, left = 0, float(sum(weights))
    for number in range(shards, 0, -1):
        last, load, share = first, 0.0, left / number
        while last < SLOTS - (number - 1):
            more = load + weights[last]
            if last > first and (more > most or (number > 1 and load >= share)):
                break
            load, last = more, last + 1
        if load > most * (1 + 1e-9) and last - first > 1:
            return None
        ranges.append((first, last))
        first, left = last, left - load
    return tuple(ranges) if first == SLOTS and heaviest(ranges, weights) <= most * (1 + 1e-9) else None
