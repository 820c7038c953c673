"""What a host sees of a shard's keys: how its rows spread over the slots, and its heaviest key; from small samples (S5).

Invariant: however many rows come, at most ``SAMPLE_ROWS`` of them are looked at in ``EVERY_S``.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from perseid.channel.rows import keys_of
from perseid.state.slots import slots_of

SAMPLE_ROWS = 400
EVERY_S = 0.5
FADING = 0.5  # of what was seen before, with every report


@dataclass(slots=True)
class KeyLoad:
    """Of one shard."""

    inputs: Sequence[str]
    key: Mapping[str, tuple[str, ...]]
    types: tuple[str, ...]
    rows: int = 0  # since the last sample
    total: float = 0.0  # rows that the samples stand for
    slots: dict[int, float] = field(default_factory=dict)
    keys: dict[Any, float] = field(default_factory=dict)
    sampled_s: float = 0.0
    blind: bool = False  # its keys cannot be told apart here

    def came(self, rows: pa.Table, now_s: float) -> None:
        """The rows of an epoch."""
        self.rows += rows.num_rows
        if self.blind or not rows.num_rows or now_s - self.sampled_s < EVERY_S:
            return
        sample = rows.take(list(range(0, rows.num_rows, -(-rows.num_rows // SAMPLE_ROWS))))
        try:
            keys = keys_of(sample, self.inputs, self.key)
            slots = slots_of(keys, self.types)
        except (
            Exception
        ):  # a key of a kind that has no slot here: then nothing is known, which an epoch must not be lost for
            self.blind = True
            return
        weight = self.rows / len(keys)
        for key, slot in zip(keys, slots, strict=True):
            self.slots[slot] = self.slots.get(slot, 0.0) + weight
            self.keys[key] = self.keys.get(key, 0.0) + weight
        self.total += self.rows
        self.rows, self.sampled_s = 0, now_s

    def report(self) -> tuple[int, dict[int, float], tuple[str, float] | None]:
        """Rows, rows by slot, and the heaviest key with its share; what is old fades."""
        hot = max(self.keys.items(), key=lambda entry: entry[1], default=None)
        heaviest = (repr(hot[0])[:80], round(hot[1] / self.total, 4)) if hot and self.total else None
        said = round(self.total), {slot: round(rows, 1) for slot, rows in sorted(self.slots.items())}, heaviest
        self.total *= FADING
        self.slots = _faded(self.slots)
        self.keys = _faded(dict(heapq.nlargest(SAMPLE_ROWS, self.keys.items(), key=lambda entry: entry[1])))
        return said


def _faded(counts: dict[Any, float]) -> dict[Any, float]:
    return {key: rows * FADING for key, rows in counts.items() if rows * FADING >= 0.5}
