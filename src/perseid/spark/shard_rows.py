"""The rows of one shard in a Spark task: which shard it is, its seed row dropped, and a check that all rows are there and nobody else's.

The number of the shard is in the rows themselves, not in that of Spark's task: a union or a coalesce behind the exchange puts several
shards into one task, or counts tasks otherwise. A partition that has no seed, or two, is none of the shuffle that Perseid
asked for: Spark has put partitions together or split one. That fails before the host has the whole epoch, so nothing is applied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perseid.channel.packed_layout import SEED_BIT, Layout, word_column
from perseid.channel.rows import SHARD


class Misplaced(Exception):
    """The rows of a Spark partition are not those of one shard."""


def of_one_shard(batches: Iterator[pa.RecordBatch], layout: Layout | None) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The place of the shard among all shards of its operator, and its rows without the seed."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        raise Misplaced(_wrong("no rows at all, not even the seed row of its shard"))
    index = int(_numbers(first, layout)[0]) & ~SEED_BIT
    return index, _checked(itertools.chain([first], batches), index, layout)


def _checked(batches: Iterator[pa.RecordBatch], index: int, layout: Layout | None) -> Iterator[pa.RecordBatch]:
    seeds = 0
    for batch in batches:
        numbers = _numbers(batch, layout)
        rows = batch.select([n for n in batch.schema.names if n != SHARD]) if layout is None else batch
        mine = numbers == index
        if not mine.all():
            others = numbers[~mine]
            if (others != index | SEED_BIT).any():
                raise Misplaced(
                    _wrong(f"rows of the shards {sorted({int(n) & ~SEED_BIT for n in np.unique(numbers)})}")
                )
            seeds += len(others)
            rows = rows.filter(pa.array(mine)) if rows.num_columns else rows.slice(0, 0)
        if rows.num_rows:
            yield rows
    if seeds != 1:
        raise Misplaced(_wrong(f"rows of shard {index} with {seeds} seed rows"))


def _numbers(batch: pa.RecordBatch, layout: Layout | None) -> npt.NDArray[np.int64]:
    """The number of the shard in each row, with the bit that seeds have."""
    if layout is None:
        numbers: npt.NDArray[np.int64] = batch.column(SHARD).to_numpy()
        return numbers
    place = layout.places[SHARD]
    words: npt.NDArray[np.int64] = batch.column(word_column(place.word)).to_numpy()
    return (words >> place.shift) & place.mask


def _wrong(found: str) -> str:
    return (
        f"a partition of Spark should hold the rows and the one seed row of one shard, but holds {found}; Spark has put partitions of a"
        " repartitionById together or has split one: look for a setting or an extension of this Spark session that does so"
    )
