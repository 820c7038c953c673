"""The state of an operator as tables: what Parquet files hold and what ``spark.read.format("perseid")`` shows.

A ``KeyedOperator`` has one table, ``values``, with a row for each key. Any other operator has one for each field: of a dict with a row for
each key, of another value with a row for each shard. Timers are a table of their own.

    shard, epoch, key struct<…>, value struct<…>, touched_ms     of a KeyedOperator
    shard, epoch, key struct<…>, value                           of a dict field, and without a key of another one
    shard, epoch, key struct<…>, at_ms, kind, name               timers

Invariant: rows are made piece by piece: of spilled state no more than a piece is in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import pyarrow as pa

from perseid.state.shard_state import ShardState
from perseid.state.timers import Timer
from perseid.transfer.columns import Column, column_type, type_named, type_of_key

Kind = Literal["values", "field", "timers"]
ROWS = 10_000  # of one piece
_WHERE = (pa.field("shard", pa.int32()), pa.field("epoch", pa.int64()))
_TIMER = (pa.field("at_ms", pa.int64()), pa.field("kind", pa.string()), pa.field("name", pa.string()))


@dataclass(frozen=True, slots=True)
class StateTable:
    """The columns of one table."""

    kind: Kind
    key: tuple[pa.Field, ...]  # empty: it has no keys
    columns: tuple[Column, ...] = ()  # of the value: those of its fields, or one
    has_touched: bool = False

    @property
    def name(self) -> str:
        """What it is called among the tables of its operator."""
        return f"field-{self.columns[0].name}" if self.kind == "field" else self.kind

    @property
    def schema(self) -> pa.Schema:
        fields = [*_WHERE]
        if self.key:
            fields.append(pa.field("key", pa.struct(self.key)))
        if self.kind == "timers":
            return pa.schema([*fields, *_TIMER])
        inside = [pa.field(column.name, column.type) for column in self.columns]
        fields.append(pa.field("value", pa.struct(inside) if self.kind == "values" else self.columns[0].type))
        return pa.schema([*fields, pa.field("touched_ms", pa.int64())] if self.has_touched else fields)

    def batches(self, state: ShardState, shard: int, where: str) -> Iterator[pa.RecordBatch]:
        """The rows of one shard. Raises ``RootError`` for a value that is not of its column's type."""
        rows = self._rows(state.processing)
        while piece := list(islice(rows, ROWS)):
            arrays = [pa.array([shard] * len(piece), pa.int32()), pa.array([int(state.epoch)] * len(piece), pa.int64())]
            if self.key:
                arrays.append(_struct_of_keys([key for key, _, _ in piece], self.key))
            if self.kind == "timers":
                arrays += [
                    pa.array(list(each), f.type)
                    for each, f in zip(zip(*(v for _, v, _ in piece), strict=True), _TIMER, strict=True)
                ]
            else:
                arrays.append(self._values([value for _, value, _ in piece], where))
                if self.has_touched:
                    arrays.append(pa.array([touched for _, _, touched in piece], pa.int64()))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _rows(self, captured: Mapping[str, Any]) -> Iterator[tuple[Hashable, Any, int | None]]:
        if self.kind == "timers":
            yield from ((key, rest, None) for key, *rest in captured["timers"])
            return
        keyed = captured["keyed"]
        if keyed is not None:
            wanted = [tuple(keyed["names"]).index(column.name) for column in self.columns]
            touched = keyed["touched"]
            for key, values in keyed["values"].items():
                yield key, [values[place] for place in wanted], touched.get(key)
        elif self.key:
            yield from ((key, value, None) for key, value in captured["fields"][self.columns[0].name].items())
        else:
            yield None, captured["fields"][self.columns[0].name], None

    def _values(self, values: Sequence[Any], where: str) -> pa.Array:
        if self.kind == "field":
            return self.columns[0].array(values, f"{where}: field '{self.columns[0].name}'")
        arrays = [
            column.array([each[place] for each in values], f"{where}: field '{column.name}'")
            for place, column in enumerate(self.columns)
        ]
        fields = [pa.field(column.name, column.type) for column in self.columns]
        if not fields:
            return pa.array([{}] * len(values), pa.struct([]))
        return pa.StructArray.from_arrays(arrays, fields=fields)

    def entries(self, batch: pa.RecordBatch) -> Iterator[tuple[Hashable, Any, int | None]]:
        """The rows again: key, value (a list where it has several columns), and when the key was touched."""
        keys = keys_of(batch.column("key")) if self.key else [None] * batch.num_rows
        value = batch.column("value")
        values: Iterable[Any]
        if self.kind == "field":
            values = self.columns[0].values(value)
        elif self.columns:
            values = map(list, zip(*(c.values(value.field(n)) for n, c in enumerate(self.columns)), strict=True))
        else:
            values = [[] for _ in keys]
        touched = batch.column("touched_ms").to_pylist() if self.has_touched else [None] * batch.num_rows
        return zip(keys, values, touched, strict=True)


def tables_of(
    state: ShardState, key: Sequence[str], *, text: Collection[str] = (), without: Collection[str] = ()
) -> list[StateTable]:
    """The tables of an operator's state, as one shard that is not empty shows them. ``key``: names of the key columns."""
    captured, types = state.processing, _declared_types(state)
    timers = StateTable("timers", _key_fields(captured["timers"][0][0] if captured["timers"] else None, key, ()))
    keyed = captured["keyed"]
    if keyed is not None:
        columns = [Column.declared(n, types.get(n, ""), text) for n in keyed["names"] if n not in without]
        one = next(iter(keyed["values"]), None)
        fields = _key_fields(one, key, tuple(keyed["key_types"]))
        return [
            StateTable("values", fields, tuple(columns), bool(keyed["touched"])),
            StateTable("timers", fields),
        ]
    found = []
    for name, value in captured["fields"].items():
        if name not in without:
            found.append(_field_table(name, value, types.get(name, ""), key, text))
    keys = next((table.key for table in found if table.key), timers.key)
    return [*found, StateTable("timers", timers.key if captured["timers"] else keys)]


def is_empty(state: ShardState) -> bool:
    """Whether there is no key in it, so that the types of keys cannot be told."""
    captured = state.processing
    if captured["keyed"] is not None:
        return not captured["keyed"]["values"] and not captured["keyed"]["key_types"]
    mappings = [value for value in captured["fields"].values() if isinstance(value, Mapping)]
    return bool(mappings) and not any(mappings)


def keys_of(column: Any) -> list[Hashable]:
    """Keys as state has them: a scalar of one column, a tuple of several."""
    names = [column.type.field(n).name for n in range(column.type.num_fields)]
    columns = [column.field(n).to_pylist() for n in range(len(names))]
    return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))


def timers_of(batch: pa.RecordBatch) -> Iterator[Timer]:
    """Timers again."""
    rest = [batch.column(f.name).to_pylist() for f in _TIMER]
    return (Timer(*timer) for timer in zip(keys_of(batch.column("key")), *rest, strict=True))


def _field_table(name: str, value: Any, declared: str, key: Sequence[str], text: Collection[str]) -> StateTable:
    if not isinstance(value, Mapping):
        return StateTable("field", (), (Column.declared(name, declared, text),))
    whole = column_type(declared)
    inside = whole.item_type if whole is not None and pa.types.is_map(whole) and name not in text else None
    column = Column(name, pa.string(), True) if inside is None else Column(name, inside)
    return StateTable("field", _key_fields(next(iter(value), None), key, ()), (column,))


def _declared_types(state: ShardState) -> dict[str, str]:
    return {} if state.shape is None else {name: field.type for name, field in state.shape.fields.items()}


def _key_fields(one: Hashable, names: Sequence[str], types: tuple[str, ...]) -> tuple[pa.Field, ...]:
    """By what is written down of the key's columns, else by a key."""
    parts = one if isinstance(one, tuple) else (one,)
    kinds = [type_named(kind) for kind in types] or [type_of_key([part]) for part in parts]
    if len(kinds) != len(names):  # keys that are not the operator's
        names = [f"key_{n}" for n in range(len(kinds))]
    return tuple(pa.field(name, kind) for name, kind in zip(names, kinds, strict=True))


def _struct_of_keys(keys: Sequence[Hashable], fields: tuple[pa.Field, ...]) -> pa.Array:
    columns = [[key] for key in keys] if len(fields) == 1 else keys
    arrays = [pa.array(list(each), f.type) for each, f in zip(zip(*columns, strict=True), fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(fields))
