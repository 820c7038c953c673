"""Columns for values of state: typed where the declared type is one of a column, else JSON text (``text``).

``int``, ``float``, ``bool``, ``str``, ``bytes``, ``list[…]`` and ``dict[…, …]`` of these, and any of them ``| None`` are types of a column.

Invariant: what a column holds is given back as the same values. A dict subclass comes back by way of the field's own default.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.errors import RootError
from perseid.transfer.text import NoText, as_text, from_text

_SCALARS = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.string(), "bytes": pa.binary()}
_OF = {pa.int64(): int, pa.float64(): float, pa.bool_(): bool, pa.string(): str, pa.binary(): bytes}


@dataclass(frozen=True, slots=True)
class Column:
    """One value of each row."""

    name: str
    type: pa.DataType
    is_text: bool = False

    @classmethod
    def declared(cls, name: str, declared: str, as_text: Collection[str] = ()) -> Column:
        """The column of a field with this declared type. ``as_text``: names of fields that are text whatever they are declared as."""
        kind = None if name in as_text else column_type(declared)
        return cls(name, pa.string(), True) if kind is None else cls(name, kind)

    def array(self, values: Sequence[Any], what: str) -> pa.Array:
        """Values as Arrow's. Raises ``RootError`` for a value that is not of the column's type; ``what`` names the field."""
        try:
            if self.is_text:
                return pa.array([as_text(value) for value in values], pa.string())
            return pa.array([_plain(value, self.type) for value in values], self.type)
        except NoText as error:
            raise RootError(f"{what}: {error}; leave the field out: --without {self.name}") from error
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise RootError(
                f"{what}: a value is not of its declared type: {error}; write the field as JSON text: --text {self.name}"
            ) from error

    def values(self, array: Any) -> list[Any]:
        """Values again."""
        plain: list[Any] = array.to_pylist()
        if self.is_text:
            return [from_text(text) for text in plain]
        return [_value(value, self.type) for value in plain] if _has_map(self.type) else plain


def column_type(declared: str) -> pa.DataType | None:
    """The type of the column for values that are declared like that; None if there is none."""
    try:
        return _type_of(ast.parse(declared, mode="eval").body)
    except SyntaxError:
        return None


def type_named(name: str) -> pa.DataType:
    """Arrow's type of a key column, by the name that state has for it."""
    if name.startswith("timestamp[us"):
        return pa.timestamp("us", "UTC" if "tz=" in name else None)
    if name.startswith("decimal128("):
        precision, scale = name[len("decimal128(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return pa.date32() if name == "date32[day]" else pa.type_for_alias(name)


def type_of_key(values: Sequence[Any]) -> pa.DataType:
    """The type of a key column whose type nobody wrote down."""
    return pa.array(values).type if any(value is not None for value in values) else pa.string()


def _type_of(node: ast.expr) -> pa.DataType | None:
    match node:
        case ast.Name(id=name):
            return _SCALARS.get(name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _type_of(left)
        case ast.Subscript(value=ast.Name(id="list" | "List"), slice=one):
            inside = _type_of(one)
            return None if inside is None else pa.list_(inside)
        case ast.Subscript(value=ast.Name(id="dict" | "Dict"), slice=ast.Tuple(elts=[key, value])):
            kinds = _type_of(key), _type_of(value)
            may_be_null = isinstance(key, ast.BinOp)
            return None if None in kinds or may_be_null else pa.map_(*kinds)
        case _:
            return None


def _plain(value: Any, kind: pa.DataType) -> Any:
    """The value as Arrow takes it, which would round, or make one type of another."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    if pa.types.is_list(kind) and type(value) is list:
        return [_plain(one, kind.value_type) for one in value]
    if pa.types.is_map(kind) and isinstance(value, Mapping):
        return [(_plain(key, kind.key_type), _plain(one, kind.item_type)) for key, one in value.items()]
    if type(value) is _OF.get(kind) or (kind == pa.float64() and type(value) is int):
        return value
    raise TypeError(f"{value!r:.60} is a {type(value).__name__}")


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or (pa.types.is_list(kind) and _has_map(kind.value_type))


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _value(one, kind.item_type) for key, one in value}
    if pa.types.is_list(kind):
        return [_value(one, kind.value_type) for one in value]
    return value
