"""Rows between Arrow and the `Row` objects of ``transformWithState``.

Whole columns are converted once per epoch; a key gets rows that are made while it walks through them. A row is a `Row` with
the columns of its table: all of Spark's methods and errors, but a column is found without a search through the names.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql import Row

from perseid.operators.values import values_of

Cut = Callable[[int, int], Iterator[Any]]
"""The rows from a start, so many of them, as the processor's iterator."""


def as_rows(table: pa.Table) -> Cut:
    """An iterator of `Row` objects."""
    make = partial(tuple.__new__, _row_type(tuple(table.column_names)))
    values = list(zip(*map(values_of, table.columns), strict=True))

    def cut(start: int, count: int) -> Iterator[Row]:
        return map(make, values[start : start + count])

    return cut


@cache
def _row_type(names: tuple[str, ...]) -> type[Row]:
    """A `Row` with these columns. Pickled and copied, its objects are plain ones of Spark's."""
    numbered = [f"c{place}" for place in range(len(names))]
    places = namedtuple("places", numbered)  # type: ignore[misc]
    # as in Spark, a method of Row hides a column of its name, and the first of two columns is found
    columns = [(name, getattr(places, number)) for name, number in zip(names, numbered, strict=True)]
    found = {name: get for name, get in reversed(columns) if not hasattr(Row, name) and name[:2] != "__"}
    return type("Row", (Row,), {**found, "__fields__": Row(*names)})


def rows_to_table(results: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """`Row` objects as a table, as Spark makes one of them: by name, null where a name is missing."""
    names = schema.names
    nested = any(pa.types.is_nested(kind) for kind in schema.types)
    values: list[Any] = []
    for row in results:
        if not isinstance(row, Row):
            raise PySparkValueError(
                f"Invalid return type. Expected Row objects, got a {type(row).__name__}: {row!r:.80}"
            )
        if len(row) != len(names) or getattr(row, "__fields__", None) != names:
            row = tuple(map(row.asDict().get, names))
        values.append(tuple(map(_plain, row)) if nested else row)
    if not values:
        return schema.empty_table()
    arrays = []
    for field, column in zip(schema, zip(*values, strict=True), strict=True):
        arrays.append(pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _plain(value: Any) -> Any:
    """A nested value as Arrow wants it, dicts for `Row` objects, and as it is now."""
    if isinstance(value, Row):
        return {name: _plain(item) for name, item in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value
