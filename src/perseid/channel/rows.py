"""How rows travel to a host: their place in the epoch, the input they belong to, and back to tables in order.

Columns that Perseid adds start with ``__perseid_``; operators never see them. The place of a row is a number that rises
in the order of its source; Spark's shuffle keeps runs of it together, so putting runs in order is enough nearly always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.state.buffer import row_slots
from perseid.vocabulary import SlotRange

SHARD = "__perseid_shard"
ORDER = "__perseid_order"
EPOCH = "__perseid_epoch"
INPUT = "__perseid_input"
SEED = "__perseid_seed"


def input_column(index: int) -> str:
    """The struct column that carries the rows of one of several inputs."""
    return f"__perseid_input_{index}"


def in_order(table: pa.Table) -> pa.Table:
    """Rows by their place, and the place dropped."""
    if ORDER not in table.column_names:
        return table
    places = table.column(ORDER).to_numpy()
    table = table.drop_columns([ORDER])
    if len(places) < 2:
        return table
    breaks = np.flatnonzero(places[1:] < places[:-1]) + 1
    if len(breaks) == 0:
        return table
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(places)]))
    by_first = np.argsort(places[starts], kind="stable")
    starts, ends = starts[by_first], ends[by_first]
    if np.all(places[starts[1:]] > places[ends[:-1] - 1]):  # whole runs follow each other: no row is copied
        return pa.concat_tables([table.slice(s, e - s) for s, e in zip(starts, ends, strict=True)])
    return table.take(pa.array(np.argsort(places, kind="stable")))


def within(
    table: pa.Table, inputs: Sequence[str], key: Mapping[str, tuple[str, ...]], types: tuple[str, ...], slots: SlotRange
) -> pa.Table:
    """Those of an operator's rows whose keys lie in these slots."""
    if len(inputs) == 1:
        found = row_slots([table.column(name) for name in key[inputs[0]]], types)
    else:
        tags = table.column(INPUT).to_numpy()
        found = np.zeros(len(tags), np.int64)
        for index, name in enumerate(inputs):
            struct = table.column(input_column(index)).combine_chunks()
            columns = [pc.struct_field(struct, column).filter(pa.array(tags == index)) for column in key[name]]
            found[tags == index] = row_slots(columns, types)
    return table.filter(pa.array((found >= slots[0]) & (found < slots[1])))


def keys_of(table: pa.Table, inputs: Sequence[str], key: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """The keys of an operator's rows, as Python's values: for a few of them."""
    found: list[Any] = []
    for name, rows in split_inputs(table, inputs).items():
        columns = [rows.column(column).to_pylist() for column in key[name]]
        found += columns[0] if len(columns) == 1 else zip(*columns, strict=True)
    return found


def split_inputs(table: pa.Table, inputs: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of each input of an operator, in order."""
    table = in_order(table)
    if len(inputs) == 1:
        return {inputs[0]: table}
    tags = table.column(INPUT)
    split = {}
    for index, name in enumerate(inputs):
        mine = table.filter(pc.equal(tags, index)).column(input_column(index))
        arrays = mine.combine_chunks()
        struct = arrays if isinstance(arrays, pa.StructArray) else pa.concat_arrays(mine.chunks)
        split[name] = pa.table(struct.flatten(), schema=pa.schema(list(mine.type)))
    return split
