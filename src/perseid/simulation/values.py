"""What rows and state are in a simulation: numbers that remember everything that went into them.

The number of a slot after an epoch is made of its number before, the epoch and the rows. Slots that lived through the same have the same
number, so a shard's state is a few pieces: from slot to slot, one number. One lost, doubled or reordered epoch changes every number
after it, and two runs gave the same rows exactly if their pieces are equal, however the slots were divided.

Invariant: values depend on nothing but their arguments (a tuple of integers hashes alike in every process); neighbouring pieces of a
state have different numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from perseid.vocabulary import SLOTS, SlotRange

State = tuple[tuple[int, int, int], ...]
"""Of some slots, in their order: first slot, end, number."""


class Rows(NamedTuple):
    """The rows of one stream in one epoch: their content, and how many."""

    content: int
    size: int


NO_ROWS = Rows(0, 0)
EVENT_SPAN_MS = 1 << 30
FRESH = 0  # a slot's number before its first epoch


def fresh(slots: SlotRange) -> State:
    """The state of slots that no epoch has come to."""
    return ((*slots, FRESH),)


def together(parts: list[Rows]) -> Rows:
    """Several streams as one input."""
    if len(parts) == 1:
        return parts[0]
    return Rows(hash(tuple([p.content for p in parts])), sum([p.size for p in parts]))


def share(rows: Rows, slots: SlotRange) -> int:
    """How many of the rows fall to these slots."""
    return rows.size * slots[1] // SLOTS - rows.size * slots[0] // SLOTS


def grown(number: int, epoch: int, rows: Rows, missing: int = 0) -> int:
    """A slot's number after an epoch; with rows missing it is another one."""
    return hash((number, epoch, rows.content, missing))


def applied(state: State, epoch: int, rows: Rows, missing: int) -> State:
    """The state after an epoch."""
    if len(state) == 1:  # as nearly always
        ((first, end, number),) = state
        return ((first, end, grown(number, epoch, rows, missing)),)
    return tuple([(first, end, grown(number, epoch, rows, missing)) for first, end, number in state])


def part(state: State, slots: SlotRange) -> State:
    """What a state says of these slots."""
    low, high = slots
    return tuple([(max(a, low), min(b, high), number) for a, b, number in state if a < high and low < b])


def joined(states: Iterable[State]) -> State:
    """The states of neighbours as one."""
    pieces: list[tuple[int, int, int]] = []
    last, held = -1, FRESH
    for state in states:
        for first, end, number in state:
            if first == last and number == held:
                pieces[-1] = (pieces[-1][0], end, number)
            else:
                pieces.append((first, end, number))
            last, held = end, number
    return tuple(pieces)


def event_time_ms(rows: Rows) -> int:
    """The newest event time among these rows."""
    return rows.content % EVENT_SPAN_MS


def answers(states: Iterable[State], rows: Rows) -> Rows:
    """What an operator's shards say to an epoch, in the order of their slots."""
    return Rows(hash(joined(states)), rows.size)
