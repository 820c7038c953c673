"""The layout of rows on the way through Spark: which narrow column lies in which bits of which 64-bit word, and how it is got out again.

What a row costs in Spark is counted in columns, not in bytes: in its own rows a byte takes eight, and every column is written,
compressed and turned into Arrow one by one. So integers, dates and booleans travel side by side in words (``packed`` puts them
there), with a bit for each that is null and the number of the row's shard. The task of the shard lays them apart; hosts and
operators never know.

Invariant: no two fields share a bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from perseid.channel.rows import SHARD

WORD_BITS = 64
SHARD_BITS = 16
SEED_BIT = 1 << (SHARD_BITS - 1)  # of the shard's number: the row is a seed (perseid.spark.seed_rows)
MOST_COLUMNS = 32  # that are packed: each has a bit among the nulls, and those are one field
NULLS = "__perseid_nulls"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies: in which word, from which bit on, how many."""

    word: int
    shift: int
    bits: int

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Of one operator's rows."""

    columns: tuple[str, ...]  # that are packed; the n-th of them has the n-th bit of the nulls
    places: Mapping[str, Place]
    words: int
    dates: frozenset[str] = frozenset()  # those of them that count days
    others: tuple[str, ...] = ()  # columns that are not packed

    def unpacked(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """The rows of a batch as ``schema`` has them."""
        words = [batch.column(word_column(number)).to_numpy() for number in range(self.words)]
        at = self.places[NULLS]
        nulls = (words[at.word] >> at.shift) & at.mask
        some_null = bool(nulls.any())
        arrays = []
        for field in schema:
            place = self.places.get(field.name)
            if place is None:
                arrays.append(batch.column(field.name))
                continue
            values = words[place.word] >> place.shift
            values = (values & 1).astype(bool) if place.bits == 1 else values.astype(f"i{place.bits // 8}")
            mask = ((nulls >> self.columns.index(field.name)) & 1).astype(bool) if some_null else None
            array = pa.array(values, mask=mask)
            arrays.append(array if array.type == field.type else array.view(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def word_column(number: int) -> str:
    """The column that carries a word."""
    return f"__perseid_word_{number}"


def layout_of(bits: Mapping[str, int]) -> Layout | None:
    """For columns of so many bits: 1 for a boolean, else 8, 16 or 32. None where words would not be fewer than columns."""
    columns = tuple(bits)[:MOST_COLUMNS]
    if not columns:
        return None
    fields = {name: bits[name] for name in columns} | {SHARD: SHARD_BITS, NULLS: len(columns)}
    places: dict[str, Place] = {}
    taken: list[int] = []
    for name, wide in sorted(
        fields.items(), key=lambda field: -field[1]
    ):  # the first word that has room, large ones first
        word = next((number for number, used in enumerate(taken) if used + wide <= WORD_BITS), len(taken))
        if word == len(taken):
            taken.append(0)
        places[name] = Place(word, taken[word], wide)
        taken[word] += wide
    return Layout(columns, places, len(taken)) if len(taken) < len(columns) else None
