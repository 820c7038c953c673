"""Which columns can be keys: those whose slot Python and Spark compute alike, so that their state can be divided (S1).

Refused are types that are equal in ways a hash of their bytes does not see (collated strings, intervals, variants, maps), and those that
are better given as columns of their own (structs, arrays).
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)

_ACCEPTED = (
    BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType, CharType, VarcharType, BinaryType,
    DateType, TimeType, TimestampType, TimestampNTZType,
)  # fmt: skip
_PLAIN_COLLATION = "UTF8_BINARY"


def key_type_mistake(column: str, kind: DataType) -> str | None:
    """Why a column of this type cannot be a key, and what to do; None if it can."""
    if isinstance(kind, StringType) and getattr(kind, "collation", _PLAIN_COLLATION) != _PLAIN_COLLATION:
        advice = f"make equal texts the same text before, such as lower({column}), or write collate({column}, '{_PLAIN_COLLATION}')"
    elif isinstance(kind, (*_ACCEPTED, StringType)):
        return None
    elif isinstance(kind, StructType):
        inner = ", ".join(f"{column}.{name}" for name in kind.names[:3])
        advice = f"select its fields as columns ({inner}) and name those in key="
    elif isinstance(kind, ArrayType):
        advice = f"select its elements as columns, or its text: to_json({column})"
    elif isinstance(kind, MapType):
        advice = f"select the values you need as columns, or a text: to_json(map_from_entries(array_sort(map_entries({column}))))"
    else:
        advice = "cast it to a number or a string"
    return f"key column {column!r} has type {kind.simpleString()}, by which state cannot be divided; in a transform before it, {advice}"


def hashed_as(kind: DataType) -> str:
    """What Spark's hash takes a key column for: equal values of different such types get different slots."""
    return "int" if isinstance(kind, (ByteType, ShortType)) else kind.simpleString()
