"""Schemas for tests without Spark: ``"word string, n long"`` as Spark reads it, for plain column types.

Anything that is no plain column is given as a ``pyarrow.Schema`` instead.
"""

from __future__ import annotations

import re

import pyarrow as pa

from perseid.errors import SettingsError

_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(), "tinyint": pa.int8(),
    "short": pa.int16(), "smallint": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "long": pa.int64(), "bigint": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_COLUMN = re.compile(r"\s*`?(?P<name>[^`:\s]+)`?(?:\s*:\s*|\s+)(?P<type>\w+)(?P<required>\s+not\s+null)?\s*", re.I)


def schema_of(declared: str | pa.Schema) -> pa.Schema:
    """The Arrow schema of a declaration.

    >>> schema_of("word string, n long").names
    ['word', 'n']
    """
    if isinstance(declared, pa.Schema):
        return declared
    if not isinstance(declared, str):
        raise SettingsError(
            f"schema {declared!r:.80}: expected text such as 'word string, n long', or a pyarrow.Schema"
        )
    fields = []
    for column in declared.split(","):
        found = _COLUMN.fullmatch(column)
        kind = _TYPES.get(found["type"].lower()) if found else None
        if found is None or kind is None:
            raise SettingsError(
                f"schema {declared!r}: {column.strip()!r} is no plain column: expected a name and one of"
                f" {', '.join(_TYPES)}; give a pyarrow.Schema for anything else"
            )
        fields.append(pa.field(found["name"], kind, nullable=not found["required"]))
    return pa.schema(fields)
