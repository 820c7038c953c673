"""The rows with the largest or smallest values of each key (L3): ``stream.top_k``.

It is an aggregate whose value is a list of rows, so it has all windows of aggregates; the list is taken apart when it comes out.
Of each pane only the best rows are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.duration import Duration
from perseid.errors import GraphError, OperatorMistake
from perseid.operators.event_time import EventTime
from perseid.ready.aggregate import RESULT, Aggregate
from perseid.ready.columns import Array, Numbers, dtype_of, to_values
from perseid.ready.functions import Keep
from perseid.ready.windows import Window

RANK = "rank"
_ROW = "__row"


@dataclass(frozen=True)
class Best(Keep):
    """The best rows, each as a struct; of equal ones those that came first."""

    by: str
    k: int
    largest: bool
    name: ClassVar[str] = "top_k"
    ordered: ClassVar[bool] = True

    def output(self, kind: pa.DataType | None) -> pa.DataType:
        return pa.list_(kind)

    def __str__(self) -> str:
        return f"top_k({self.k}, by={self.by!r}, largest={self.largest})"

    def fewer(self, codes: Numbers, values: pa.Array) -> tuple[Numbers, pa.Array]:
        order, _ = self._order(codes, values)
        order = np.sort(order)
        return codes[order], values.take(pa.array(order))

    def results(self, codes: Numbers, values: pa.Array, groups: int) -> pa.Array:
        order, ordered = self._order(codes, values)
        ends = np.cumsum(np.bincount(ordered, minlength=groups))
        return pa.ListArray.from_arrays(pa.array(np.append([0], ends), pa.int32()), values.take(pa.array(order)))

    def _order(self, codes: Numbers, values: pa.Array) -> tuple[Numbers, Numbers]:
        """The places of the best rows of each code, best first, and their codes."""
        order = np.lexsort((self._size(pc.struct_field(values, self.by)), codes))
        ordered = codes[order]
        begins = np.flatnonzero(np.append([True], ordered[1:] != ordered[:-1])[: len(ordered)])
        nth = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
        return order[nth < self.k], ordered[nth < self.k]

    def _size(self, column: pa.Array) -> Array:
        """Numbers that are the smaller, the better a value is."""
        if dtype_of(column.type).hasobject:
            encoded = pc.dictionary_encode(column)
            ranks = np.empty(len(encoded.dictionary), np.int64)
            ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
            size: Array = ranks[encoded.indices.to_numpy()]
        else:
            size = to_values(column).values
        return size if not self.largest else (-size if size.dtype == np.float64 else ~size)


class TopK(Aggregate):
    """The best rows of each key. ``Stream.top_k`` makes it."""

    def __init__(
        self,
        k: int,
        by: str,
        *,
        largest: bool = True,
        window: Window | None = None,
        early: bool = False,
        late: Duration | None = None,
    ) -> None:
        """Raises ``GraphError`` for what cannot work."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise GraphError(f"top_k(k={k!r}): expected a number of rows, 1 or more")
        if not isinstance(by, str) or not by:
            raise GraphError(f"top_k(by={by!r}): expected the name of the column to compare rows by")
        self.by = by
        super().__init__({_ROW: Best(_ROW, by, k, largest)}, window=window, early=early, late=late)

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        ((name, schema),) = inputs.items()
        if self.by not in schema.names:
            raise OperatorMistake(f"top_k: no column by={self.by!r}; its input has {schema.names}")
        kind = schema.field(self.by).type
        if pa.types.is_nested(kind):
            raise OperatorMistake(f"top_k: column by={self.by!r} has type {kind}; expected a type that has an order")
        with_row = schema.append(pa.field(_ROW, pa.struct(list(schema))))
        fields = [field for field in super()._output({name: with_row}, key, event_time) if field.name != _ROW]
        label = [field for field in fields if field.name == RESULT]
        rest = [field for field in schema if field.name not in key[name]]
        fields = [*(field for field in fields if field not in label), pa.field(RANK, pa.int32()), *rest, *label]
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise OperatorMistake(
                f"top_k: its input has a column {twice[0]!r}, which is one of its output: rename it before"
            )
        return pa.schema(fields)

    def process(self, rows: pa.Table) -> pa.Table | None:
        """Rows into groups; lists of rows come out as rows."""
        if rows.num_rows:
            if self.by not in rows.column_names:
                raise OperatorMistake(
                    f"operator '{self.context.shard.operator}': no column by={self.by!r} among {rows.column_names}"
                )
            compared = rows.column(self.by)
            there = compared.is_valid()
            if pa.types.is_floating(compared.type):
                there = pc.and_(there, pc.invert(pc.fill_null(pc.is_nan(compared), True)))
            rows = rows.filter(there)  # null and NaN are no value
        found = super().process(_with_row(rows) if rows.num_rows else rows)
        return None if found is None else _apart(found, self.context.key_columns("rows"))


def _with_row(rows: pa.Table) -> pa.Table:
    columns = [column.combine_chunks() for column in rows.columns]
    return rows.append_column(_ROW, pa.StructArray.from_arrays(columns, fields=list(rows.schema)))


def _apart(found: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """One row for each in the lists, with its rank."""
    lists: Any = found.column(_ROW).combine_chunks()
    parents, rows = pc.list_parent_indices(lists), lists.flatten()
    starts = pc.list_value_length(lists).to_numpy().cumsum() - pc.list_value_length(lists).to_numpy()
    ranks = np.arange(1, len(rows) + 1) - starts[parents.to_numpy()]
    outer = found.drop_columns([_ROW]).take(parents)
    columns: dict[str, Any] = {name: outer.column(name) for name in outer.column_names if name != RESULT}
    columns[RANK] = pa.array(ranks, pa.int32())
    columns |= {field.name: rows.field(at) for at, field in enumerate(rows.type) if field.name not in key}
    if RESULT in outer.column_names:
        columns[RESULT] = outer.column(RESULT)
    return pa.table(columns)
