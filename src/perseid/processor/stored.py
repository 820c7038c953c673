"""State values as Spark stores them.

Spark sends every value of a state variable to the JVM and reads it back: NumPy scalars become Python's, nested values are
copies, a value that does not fit its column's type becomes null, text columns hold the text of whatever was given. Here
values stay in Python, so this module gives them the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import types as T

Convert = Callable[[Any], Any]
_BITS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_AS_IT_IS: dict[type[T.DataType], type] = {
    **dict.fromkeys(_BITS, int),
    T.BooleanType: bool,
    T.DoubleType: float,
    T.StringType: str,
    T.BinaryType: bytes,
}
"""Values of exactly these Python types are stored as they are, numbers if they are not too large."""


class StoredForm:
    """Makes a row of one schema what Spark would have stored, and makes copies of what is nested when it is read."""

    def __init__(self, schema: T.StructType) -> None:
        self.json = schema.json()
        kinds = [field.dataType for field in schema.fields]
        self.nested = any(map(_is_nested, kinds))
        self._columns = [_converter(kind) for kind in kinds]
        self._fits = _fits(kinds)

    def store(self, value: Any, doing: str) -> tuple[Any, ...]:
        """The value as Spark stores it; ``doing`` begins the error message, as Spark's does."""
        if type(value) is tuple and self._fits(value):
            return value
        if value is None:
            raise PySparkRuntimeError(f"{doing}: the value is None; expected a tuple of {len(self._columns)} values")
        row = tuple(value)
        if len(row) != len(self._columns):
            raise PySparkRuntimeError(
                f"{doing}: Input row doesn't have expected number of values required by the schema."
                f" {len(self._columns)} fields are required while {len(row)} values are provided."
            )
        return tuple([convert(item) for convert, item in zip(self._columns, row, strict=True)])

    def read(self, stored: tuple[Any, ...]) -> tuple[Any, ...]:
        """A stored row as the processor gets it: what it does to the row does not change the state."""
        if not self.nested:
            return stored
        return tuple([convert(item) for convert, item in zip(self._columns, stored, strict=True)])


def _fits(kinds: list[T.DataType]) -> Callable[[tuple[Any, ...]], bool]:
    """What says that a row can be stored as it is, which most can."""
    types = tuple([_AS_IT_IS.get(type(kind), _Converted) for kind in kinds])
    limits = [(place, 1 << (_BITS[type(kind)] - 1)) for place, kind in enumerate(kinds) if type(kind) in _BITS]
    if len(kinds) == 1 and limits:  # a counter, an amount, a time: so common that its own way pays
        limit = limits[0][1]
        return lambda row: len(row) == 1 and type(row[0]) is int and -limit <= row[0] < limit

    def fits(row: tuple[Any, ...]) -> bool:
        return tuple(map(type, row)) == types and all(-limit <= row[place] < limit for place, limit in limits)

    return fits


class _Converted:
    """The type of no value."""


def _is_nested(kind: T.DataType) -> bool:
    return isinstance(kind, (T.ArrayType, T.MapType, T.StructType, T.UserDefinedType))


def _converter(kind: T.DataType) -> Convert:
    convert = _by_type(kind)

    def null_safe(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, np.generic):
            value = value.tolist()
        elif hasattr(value, "to_pydatetime"):  # pandas
            value = value.to_pydatetime()
        elif hasattr(value, "to_pytimedelta"):
            value = value.to_pytimedelta()
        return convert(value)

    return null_safe


def _by_type(kind: T.DataType) -> Convert:
    bits = _BITS.get(type(kind))
    if bits is not None:
        return lambda value: _wrapped(value, bits) if type(value) is int else None
    match kind:
        case T.BooleanType():
            return lambda value: value if type(value) is bool else None
        case T.FloatType():
            return lambda value: float(np.float32(value)) if isinstance(value, float) else None
        case T.DoubleType():
            return lambda value: value if isinstance(value, float) else None
        case T.StringType():
            return _text
        case T.BinaryType():
            return lambda value: bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None
        case T.DecimalType():
            unit = Decimal(1).scaleb(-kind.scale)
            return lambda value: value.quantize(unit, ROUND_HALF_UP) if isinstance(value, Decimal) else None
        case T.ArrayType():
            element = _converter(kind.elementType)
            return lambda value: [element(item) for item in value]
        case T.MapType():
            key, item = _converter(kind.keyType), _converter(kind.valueType)
            return lambda value: {key(k): item(v) for k, v in value.items()}
        case T.StructType():
            return _struct(kind)
        case _ if kind.needConversion():  # dates and times: Spark keeps them as numbers
            return lambda value: kind.fromInternal(kind.toInternal(value))
        case _:
            return lambda value: value


def _wrapped(value: int, bits: int) -> int:
    """As Java narrows a number: its lowest bits, with their sign."""
    half = 1 << (bits - 1)
    return value if -half <= value < half else (value + half) % (2 * half) - half


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _struct(kind: T.StructType) -> Convert:
    columns = [_converter(field.dataType) for field in kind.fields]
    make = T.Row(*kind.names)

    def convert(value: Any) -> Any:
        items = [value.get(name) for name in kind.names] if isinstance(value, dict) else list(value)
        return make(*[column(item) for column, item in zip(columns, items, strict=True)])

    return convert
