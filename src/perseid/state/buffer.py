"""Buffer state (S1): output that is kept, epoch by epoch, for each shard downstream until a checkpoint there covers it.

    {shard: {epoch: rows}}

When the shards downstream change, what is kept for them is divided anew, by key (``partition_buffer_state``); a shard that was restored
gets what its state does not reflect yet, in order (``replay_buffer_state``); what checkpoints cover goes (``trim_buffer_state``).

Invariant: a row is kept for just the one shard that answers for its key, and within a key rows keep their order. Half an epoch is
never handed out: an epoch that is not kept for all the shards it is put together from is kept for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.state.slots import slots_of
from perseid.vocabulary import Epoch, SlotRange

Rows = TypeVar("Rows", covariant=True)

Within = Callable[[pa.Table, SlotRange], pa.Table]
"""Picks the rows whose keys lie in some slots."""


class Kept(Protocol[Rows]):
    """Epochs that are kept for one shard: a dict by epoch, or whatever looks them up."""

    def get(self, epoch: Epoch, /) -> Rows | None: ...


def partition_buffer_state(
    buffer: Mapping[int, Mapping[Epoch, pa.Table]],
    before: Mapping[int, SlotRange],
    after: Mapping[int, SlotRange],
    within: Within,
) -> dict[int, dict[Epoch, pa.Table]]:
    """What was kept for the shards ``before``, divided among the shards ``after`` (shards by number, with their slots).

    ``within`` picks rows: ``by_key("word")``.
    """
    ordered = sorted(before.items(), key=lambda shard: shard[1])
    divided: dict[int, dict[Epoch, pa.Table]] = {}
    for shard, (first, last) in after.items():
        olds = [(index, slots) for index, slots in ordered if slots[0] < last and first < slots[1]]
        epochs = set.intersection(*(set(buffer.get(index, {})) for index, _ in olds)) if olds else set()
        mine = divided[shard] = {}
        for epoch in sorted(epochs):
            parts = []
            for index, slots in olds:
                rows = buffer[index][epoch]
                parts.append(rows if first <= slots[0] and slots[1] <= last else within(rows, (first, last)))
            mine[epoch] = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    return divided


def merge_buffer_state(buffers: Sequence[Mapping[Epoch, pa.Table]]) -> dict[Epoch, pa.Table]:
    """What several shards sent out, as one's: the rows of each epoch in the order of the shards."""
    epochs = sorted(set().union(*buffers))
    return {epoch: pa.concat_tables([buffer[epoch] for buffer in buffers if epoch in buffer]) for epoch in epochs}


def replay_buffer_state(kept: Kept[Rows], *, after: Epoch, upto: Epoch | None = None) -> Iterator[tuple[Epoch, Rows]]:
    """The epochs a shard has still to apply, whose state reflects those up to ``after``: in order, as far as they are kept without a
    gap. Older ones would be duplicates and are left out."""
    epoch = Epoch(after + 1)
    while upto is None or epoch <= upto:
        rows = kept.get(epoch)
        if rows is None:
            return
        yield epoch, rows
        epoch = Epoch(epoch + 1)


def trim_buffer_state(kept: Mapping[Epoch, Rows], upto: Epoch) -> dict[Epoch, Rows]:
    """What is left when a checkpoint downstream covers the epochs up to ``upto``."""
    return {epoch: rows for epoch, rows in kept.items() if epoch > upto}


def by_key(*columns: str, types: Sequence[str] | None = None) -> Within:
    """Rows by their key columns. ``types`` are Arrow's names of the columns' types; without them those that the rows have."""

    def within(rows: pa.Table, slots: SlotRange) -> pa.Table:
        named = [rows.column(name) for name in columns]
        found = row_slots(named, tuple(types) if types is not None else tuple(str(c.type) for c in named))
        return rows.filter(pa.array((found >= slots[0]) & (found < slots[1])))

    return within


def row_slots(columns: Sequence[Any], types: tuple[str, ...]) -> NDArray[np.int64]:
    """The slot of each row's key; each value is looked at once."""
    if len(columns) > 1:
        keys = list(zip(*(column.to_pylist() for column in columns), strict=True))
        return np.array(slots_of(keys, types) if keys else [], np.int64)
    whole = columns[0].combine_chunks() if isinstance(columns[0], pa.ChunkedArray) else columns[0]
    encoded = whole.dictionary_encode(null_encoding="encode")
    known = np.array(slots_of(encoded.dictionary.to_pylist(), types) if len(whole) else [], np.int64)
    found: NDArray[np.int64] = known[encoded.indices.to_numpy()]
    return found
