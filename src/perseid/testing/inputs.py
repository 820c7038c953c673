"""What a test gives to an operator, as the tables its shards see: columns by name, empty ones where no rows came, rows by key.

Invariant: once an input's columns are known, every table of it has them; a row goes to the shard that Spark would send it to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from perseid.errors import SettingsError
from perseid.graph.nodes import ROWS
from perseid.state.slots import slot_of
from perseid.testing.schemas import schema_of
from perseid.vocabulary import SLOTS, SlotRange

Rows: TypeAlias = "pa.Table | Iterable[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | None"
"""What an epoch is given: a table, rows as mappings, columns by name, or nothing."""


class Inputs:
    """The inputs of one operator, and what is known of their columns."""

    def __init__(self, keys: Mapping[str, tuple[str, ...]], schemas: Mapping[str, str | pa.Schema | None]) -> None:
        self._keys = keys
        self._empty = {name: None if s is None else schema_of(s).empty_table() for name, s in schemas.items()}
        self.key_types: tuple[str, ...] | None = None  # Arrow's names; slots depend on them

    def copy(self) -> Inputs:
        """The same knowledge, for another harness."""
        other = object.__new__(Inputs)
        other._keys, other._empty, other.key_types = self._keys, dict(self._empty), self.key_types
        return other

    def tables(self, rows: Rows, inputs: Mapping[str, Rows]) -> dict[str, pa.Table]:
        """One table for every input."""
        names = tuple(self._keys)
        if names == (ROWS,):
            if inputs:
                raise SettingsError(
                    f"epoch({', '.join(inputs)}): the operator has one input: give its rows without a name"
                )
            inputs = {ROWS: rows}
        elif rows is not None or inputs.keys() - set(names):
            strange = sorted(inputs.keys() - set(names)) or ["rows without a name"]
            raise SettingsError(f"epoch: got {', '.join(strange)}; the operator's inputs are {', '.join(names)}")
        tables = {name: self._table(name, inputs.get(name)) for name in names}
        for name, table in tables.items():
            self._learn(name, table)
        return tables

    def with_column(self, column: str) -> list[str]:
        """The inputs that have this column, or of which that is not known yet."""
        return [n for n, t in self._empty.items() if t is None or not t.num_columns or column in t.column_names]

    def routed(self, tables: Mapping[str, pa.Table], slots: Sequence[SlotRange]) -> list[dict[str, pa.Table]]:
        """The rows of each shard, as Spark's shuffle brings them together."""
        if list(slots) == [(0, SLOTS)]:
            return [dict(tables)]
        parts: list[dict[str, pa.Table]] = [{} for _ in slots]
        for name, table in tables.items():
            columns = [table.column(column) for column in self._keys[name]] if table.num_rows else []
            types = [str(column.type) for column in columns]
            keys = list(zip(*(column.to_pylist() for column in columns), strict=True))
            places = [_shard_of(key, types, slots) for key in keys]
            for index, part in enumerate(parts):
                part[name] = table.take(pa.array([n for n, place in enumerate(places) if place == index], pa.int64()))
        return parts

    def _learn(self, name: str, table: pa.Table) -> None:
        self._empty[name] = table.slice(0, 0)
        kinds = [table.schema.field(column).type for column in self._keys[name] if column in table.column_names]
        if table.num_columns and len(kinds) < len(self._keys[name]):
            raise SettingsError(f"epoch: no key column {self._keys[name]} among {table.column_names}")
        if kinds:
            self.key_types = tuple(str(k.value_type if pa.types.is_dictionary(k) else k) for k in kinds)

    def _table(self, name: str, rows: Rows) -> pa.Table:
        known = self._empty[name]
        schema = known.schema if known is not None and known.num_columns else None
        try:
            if isinstance(rows, pa.Table):
                return rows
            if isinstance(rows, Mapping):
                return pa.table(dict(rows), schema=schema)
            if rows is None or not (listed := list(rows)):
                return known if known is not None else pa.table({})
            return pa.Table.from_pylist(listed, schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError, ValueError, KeyError) as error:
            raise SettingsError(f"epoch: rows {rows!r:.200} do not become columns: {error}") from error


def _shard_of(key: tuple[Hashable, ...], types: Sequence[str], slots: Sequence[SlotRange]) -> int:
    slot = slot_of(*key, types=types)
    for index, (first, last) in enumerate(slots):
        if first <= slot < last:
            return index
    shown = repr(key[0]) if len(key) == 1 else repr(key)
    raise SettingsError(
        f"epoch: key {shown} lies in slot {slot}; this part holds the slots from {slots[0][0]} to {slots[-1][1] - 1}:"
        " give the row to another part"
    )
