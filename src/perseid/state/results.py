"""What user code may return from an epoch, made into one Arrow table.

A table, a record batch, anything that speaks the Arrow C stream (pandas, polars), an iterable of mappings, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from perseid.errors import OperatorMistake

_UNNAMED_INDEX = "__index_level_"


class Results:
    """Collects what the calls of one epoch return, in order, and makes one table of it."""

    __slots__ = ("_operator", "_rows", "_tables")

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._tables: list[pa.Table] = []
        self._rows: list[Mapping[str, Any]] = []

    def add(self, result: Any) -> None:
        """Take one result. An iterable is consumed at once: it may be a generator that works on the state."""
        if result is None:
            return
        kind = type(result)
        if kind is list or kind is tuple:
            self._rows.extend(result)
        elif isinstance(result, pa.Table):
            self._append(result)
        elif isinstance(result, pa.RecordBatch):
            self._append(pa.Table.from_batches([result]))
        elif hasattr(result, "__arrow_c_stream__"):
            table = pa.table(result)
            unnamed = [name for name in table.column_names if name.startswith(_UNNAMED_INDEX)]  # as pandas calls it
            self._append(table.drop_columns(unnamed) if unnamed else table)
        elif isinstance(result, Iterable) and not isinstance(result, (Mapping, str, bytes)):
            self._rows.extend(result)
        else:
            hint = "[row] for one row, or pa.table(columns)" if isinstance(result, Mapping) else "rows or None"
            raise OperatorMistake(
                f"operator '{self._operator}': expected a pyarrow.Table, an iterable of mappings (rows) or None,"
                f" got a {kind.__name__}; return {hint}"
            )

    def table(self) -> pa.Table | None:
        """All of it as one table; None if nothing was returned."""
        self._flush_rows()
        if not self._tables:
            return None
        if len(self._tables) == 1:
            return self._tables[0]
        schema = self._tables[0].schema
        try:
            if all(table.schema.equals(schema) for table in self._tables):
                return pa.concat_tables(self._tables)
            return pa.concat_tables(self._tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            different = next((table.schema for table in self._tables if not table.schema.equals(schema)), schema)
            raise OperatorMistake(
                f"operator '{self._operator}': its results of one epoch do not fit together:"
                f" {_columns(schema)} and {_columns(different)} ({error})"
            ) from error

    def _append(self, table: pa.Table) -> None:
        self._flush_rows()
        self._tables.append(table)

    def _flush_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._tables.append(self._table_of(rows))

    def _table_of(self, rows: list[Mapping[str, Any]]) -> pa.Table:
        try:
            names = rows[0].keys()
            if any(row.keys() != names for row in rows):
                union = dict.fromkeys(name for row in rows for name in row)
                return pa.table({name: [row.get(name) for row in rows] for name in union})
            return pa.table({name: [row[name] for row in rows] for name in names})
        except AttributeError:
            strange = next(row for row in rows if not isinstance(row, Mapping))
            raise OperatorMistake(
                f"operator '{self._operator}': expected rows as mappings of column to value,"
                f" got a {type(strange).__name__}: {strange!r:.80}"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise OperatorMistake(
                f"operator '{self._operator}': its rows cannot become columns: {error};"
                " give every row of a column values of one type"
            ) from error


def as_table(result: Any, operator: str) -> pa.Table | None:
    """One result as a table; a shortcut for what is one already."""
    if result is None or isinstance(result, pa.Table):
        return result
    results = Results(operator)
    results.add(result)
    return results.table()


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema) + ")"
