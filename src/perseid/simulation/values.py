"""What rows and state are in a simulation: numbers that remember everything that went into them.

A shard's state after an epoch is made of the state before, the epoch and the rows; its answer is its state. So one lost, doubled or
reordered epoch changes every answer after it, and two runs gave the same rows exactly if their numbers are equal.

Invariant: values depend on nothing but their arguments (a tuple of integers hashes alike in every process).
"""

from __future__ import annotations

from typing import NamedTuple


class Rows(NamedTuple):
    """The rows of one stream in one epoch: their content, and how many."""

    content: int
    size: int


NO_ROWS = Rows(0, 0)
FRESH = 0  # a shard's state before its first epoch


def mixed(*parts: int) -> int:
    """One number that differs as soon as one of its parts or their order does."""
    return hash(parts)


def together(parts: list[Rows]) -> Rows:
    """Several streams as one input."""
    if len(parts) == 1:
        return parts[0]
    return Rows(hash(tuple(p.content for p in parts)), sum(p.size for p in parts))


def share(rows: Rows, shard: int, shards: int) -> int:
    """How many of the rows fall to one shard."""
    return rows.size // shards + (shard < rows.size % shards)


def applied(state: int, epoch: int, rows: Rows, shard: int, count: int) -> int:
    """The state after ``count`` rows of an epoch; fewer rows than there are give another state."""
    return hash((state, epoch, rows.content, shard, count))


def answers(states: list[int], rows: Rows) -> Rows:
    """What an operator's shards say to an epoch, in the order of the shards."""
    return Rows(hash(tuple(states)), rows.size)
