"""An operator's result against the output it declared: columns by name, safe casts, or a clear refusal."""

from __future__ import annotations

import pyarrow as pa

from perseid.errors import OperatorMistake


def fit(table: pa.Table, schema: pa.Schema, operator_name: str) -> pa.Table:
    """``table`` with exactly the columns of ``schema``, in its order and types.

    Casts only where no value changes. A missing or additional column, a value that does not fit and a null where the
    schema allows none raise ``OperatorMistake``.

    >>> schema = pa.schema({"word": pa.string(), "n": pa.int32()})
    >>> fit(pa.table({"n": [1], "word": ["a"]}), schema, "count").column_names
    ['word', 'n']
    """
    if table.schema.equals(schema):
        return table
    names = table.column_names
    missing = [name for name in schema.names if name not in names]
    extra = [name for name in names if name not in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if missing or extra or twice:
        problems = [
            f"{what} {', '.join(map(repr, which))}"
            for what, which in (("missing", missing), ("not declared", extra), ("twice", twice))
            if which
        ]
        raise OperatorMistake(
            f"operator '{operator_name}': its result does not match its output: {'; '.join(problems)}."
            f" Declared: {_columns(schema)}. Came: {_columns(table.schema)}."
        )
    columns = []
    for field in schema:
        column = table.column(field.name)
        if not column.type.equals(field.type):
            column = _cast(column, field, table.schema, schema, operator_name)
        if not field.nullable and column.null_count:
            raise OperatorMistake(
                f"operator '{operator_name}': column '{field.name}' was declared not null,"
                f" but {column.null_count} of {len(column)} values are null"
            )
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(
    column: pa.ChunkedArray, field: pa.Field, came: pa.Schema, schema: pa.Schema, operator_name: str
) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise OperatorMistake(
            f"operator '{operator_name}': column '{field.name}' was declared {field.type}, came as {column.type}"
            f" and cannot be cast without loss: {error}. Declared: {_columns(schema)}. Came: {_columns(came)}."
        ) from error


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema) + ")"
