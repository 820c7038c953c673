"""What rows and state are in a simulation: numbers that remember everything that went into them.

The key space of an operator is cut into cells, fine enough for every division into shards that the run may see. A cell's state after an
epoch is made of the state before, the epoch and the rows; a shard's answer is its state. So one lost, doubled or reordered epoch changes
every answer after it, and two runs gave the same rows exactly if their numbers are equal, however the cells were divided.

Invariant: values depend on nothing but their arguments (a tuple of integers hashes alike in every process).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from perseid.vocabulary import SLOTS, OperatorName, SlotRange

State = tuple[int, ...]
"""Of a shard: one number for each of its cells, in the order of their slots."""


class Rows(NamedTuple):
    """The rows of one stream in one epoch: their content, and how many."""

    content: int
    size: int


NO_ROWS = Rows(0, 0)
FRESH = 0  # a cell's state before its first epoch


@dataclass(frozen=True)
class Cells:
    """The cells of every operator: the first slot of each, and the end."""

    bounds: Mapping[OperatorName, tuple[int, ...]]

    @classmethod
    def between(cls, divisions: Mapping[OperatorName, list[tuple[SlotRange, ...]]]) -> Cells:
        """As few as these divisions need."""
        bounds = {o: {0, SLOTS, *(first for d in divided for first, _ in d)} for o, divided in divisions.items()}
        return cls({operator: tuple(sorted(found)) for operator, found in bounds.items()})

    def count(self, operator: OperatorName) -> int:
        return len(self.bounds[operator]) - 1

    def within(self, operator: OperatorName, slots: SlotRange) -> range:
        """The cells that make up these slots."""
        bounds = self.bounds[operator]
        found = range(bisect_left(bounds, slots[0]), bisect_left(bounds, slots[1]))
        assert (bounds[found.start], bounds[found.stop]) == slots, f"{operator}: {slots} cuts through a cell"
        return found


def mixed(*parts: int) -> int:
    """One number that differs as soon as one of its parts or their order does."""
    return hash(parts)


def together(parts: list[Rows]) -> Rows:
    """Several streams as one input."""
    if len(parts) == 1:
        return parts[0]
    return Rows(hash(tuple(p.content for p in parts)), sum(p.size for p in parts))


def share(rows: Rows, mine: range, cells: int) -> int:
    """How many of the rows fall to these cells."""
    more = rows.size % cells
    return len(mine) * (rows.size // cells) + max(0, min(mine.stop, more) - mine.start)


def applied(state: State, epoch: int, rows: Rows, mine: range, missing: int) -> State:
    """The state after an epoch; with rows missing it is another one."""
    return tuple([hash((s, epoch, rows.content, cell, missing)) for s, cell in zip(state, mine, strict=True)])


def answers(states: list[State], rows: Rows) -> Rows:
    """What an operator's shards say to an epoch, in the order of their slots."""
    return Rows(hash(tuple([number for state in states for number in state])), rows.size)
