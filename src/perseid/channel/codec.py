"""Messages as JSON and back, derived from the types of their fields: a new field or kind of message needs nothing here.

On the wire a message is a list: its kind, then its fields in their order. Mappings are lists of pairs, since keys may be shards.

Invariant: what is read has just the types that the message declares; anything else is a ``ChannelError`` that names the field.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from perseid.checkpoint.lifecycle import SavedShard
from perseid.errors import ChannelError
from perseid.storage.manifest import ShardSnapshot

M = TypeVar("M")
Code = Callable[[Any], Any]

REAL: Mapping[Any, Any] = {SavedShard: ShardSnapshot}
"""What a protocol stands for on the wire."""


class _Unexpected(Exception):
    """What came is not what the type says."""


def encode(message: Any) -> list[Any]:
    """A message as JSON takes it."""
    kind: Any = type(message)
    write = _writer(kind)
    values = write(message) if write is not None else message
    return [kind.__name__, *values]


class Kinds(Generic[M]):
    """The messages that may come over one kind of connection: a message type, or several as a union."""

    def __init__(self, union: Any) -> None:
        self._readers: dict[str, Code] = {kind.__name__: _reader(kind) for kind in get_args(union) or (union,)}

    def decode(self, data: Any) -> M:
        """The message. Raises ``ChannelError`` if it is none of these kinds, or not whole."""
        read = self._readers.get(data[0]) if type(data) is list and data and type(data[0]) is str else None
        if read is None:
            shown = repr(data)[:80]
            raise ChannelError(f"a peer sent {shown}: expected one of {', '.join(sorted(self._readers))}")
        try:
            message: M = read(data[1:])
        except _Unexpected as error:
            raise ChannelError(f"a peer sent a wrong message: {data[0]}{error}") from None
        return message


# -- types ------------------------------------------------------------------------------------------------------------


def _plain(kind: Any) -> Any:
    """A type without the names that are given to it."""
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return REAL.get(kind, kind)


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or named tuple, with their types; None for other types."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: hints[field.name] for field in fields(kind)}
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return get_type_hints(kind)
    return None


def _optional(kind: Any) -> Any:
    """X of ``X | None``; None for other types."""
    if get_origin(kind) not in (Union, types.UnionType):
        return None
    others = [one for one in get_args(kind) if one is not type(None)]
    if len(others) != 1 or len(get_args(kind)) != 2:
        raise TypeError(f"{kind} is a choice of types, which nothing on the wire tells apart")
    return others[0]


# -- writing ----------------------------------------------------------------------------------------------------------


@cache
def _writer(kind: Any) -> Code | None:
    """Makes JSON of a value of this type; None where JSON takes it as it is."""
    kind = _plain(kind)
    if (names := _fields(kind)) is not None:
        return _record_writer(kind, names)
    if (inner := _optional(kind)) is not None:
        write = _writer(inner)
        return None if write is None else lambda value: None if value is None else write(value)
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and args[-1] is not ...:
        each = [_writer(one) or _same for one in args]
        return lambda value: [write(one) for write, one in zip(each, value, strict=True)]
    if origin in (tuple, frozenset):
        write_one = _writer(args[0]) or _same
        ordered = sorted if origin is frozenset else _same
        return lambda value: [write_one(one) for one in ordered(value)]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        key, of = (_writer(one) or _same for one in args)
        return lambda value: [[key(name), of(one)] for name, one in value.items()]
    if kind in (int, str, bool, float) or origin is Literal:
        return None
    raise TypeError(f"{kind} cannot be part of a message")


def _record_writer(kind: Any, names: dict[str, Any]) -> Code | None:
    writers = {f"_{name}": write for name, one in names.items() if (write := _writer(one)) is not None}
    if not is_dataclass(kind):
        each = [writers.get(f"_{name}", _same) for name in names]
        return list if not writers else lambda value: [one(part) for one, part in zip(each, value, strict=True)]
    values = [f"_{name}(value.{name})" if f"_{name}" in writers else f"value.{name}" for name in names]
    return _function(f"def made(value): return [{', '.join(values)}]", writers)


def _function(code: str, known: Mapping[str, Any]) -> Code:
    """A function of its own for each type, as dataclasses make them: half of the time of a loop over its fields."""
    found: dict[str, Any] = dict(known)
    exec(code, found)
    made: Code = found["made"]
    return made


def _same(value: Any) -> Any:
    return value


# -- reading ----------------------------------------------------------------------------------------------------------


@cache
def _reader(kind: Any) -> Code:
    """Makes a value of this type of JSON. Raises ``_Unexpected``."""
    kind = _plain(kind)
    if (names := _fields(kind)) is not None:
        return _record_reader(kind, names)
    if (inner := _optional(kind)) is not None:
        read = _reader(inner)
        return lambda data: None if data is None else read(data)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _choice_reader(args)
    if origin is tuple and args[-1] is not ...:
        each = tuple(_reader(one) for one in args)
        return lambda data: tuple([read(one) for read, one in zip(each, _list(data, len(each)), strict=True)])
    if origin in (tuple, frozenset):
        read_one, made = _reader(args[0]), origin
        return lambda data: made([read_one(one) for one in _list(data)])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        key, of = _reader(args[0]), _reader(args[1])
        return lambda data: {key(name): of(one) for name, one in (_list(pair, 2) for pair in _list(data))}
    if kind in (int, str, bool, float):
        return _scalar_reader(kind)
    raise TypeError(f"{kind} cannot be part of a message")


def _scalar_reader(kind: type) -> Code:
    taken = (int, float) if kind is float else (kind,)

    def read(data: Any) -> Any:
        if type(data) not in taken:
            raise _Unexpected(f": expected {kind.__name__}, got {repr(data)[:80]}")
        return data

    return read


def _choice_reader(choices: tuple[Any, ...]) -> Code:
    def read(data: Any) -> Any:
        if data not in choices:
            raise _Unexpected(f": expected one of {choices}, got {repr(data)[:80]}")
        return data

    return read


def _record_reader(kind: Any, names: dict[str, Any]) -> Code:
    readers = {name: _reader(one) for name, one in names.items()}
    known: dict[str, Any] = {"kind": kind, "wrong": lambda data: _wrong(readers, data), "_Unexpected": _Unexpected}
    checks, values = [f"type(data) is list and len(data) == {len(names)}"], []
    for place, (name, one) in enumerate(names.items()):
        plain = _plain(one)
        if plain in (int, str, bool):
            known[f"is{place}"] = plain
            checks.append(f"type(data[{place}]) is is{place}")
            values.append(f"data[{place}]")
        else:
            known[f"_{name}"] = readers[name]
            values.append(f"_{name}(data[{place}])")
    code = f"""
def made(data):
    if {" and ".join(checks)}:
        try:
            return kind({", ".join(values)})
        except _Unexpected:
            pass
    raise wrong(data)
"""
    return _function(code, known)


def _wrong(readers: Mapping[str, Code], data: Any) -> _Unexpected:
    """What is wrong with the fields of a record."""
    if type(data) is not list or len(data) != len(readers):
        return _Unexpected(f": expected the fields {', '.join(readers)}, got {repr(data)[:80]}")
    for (name, read), one in zip(readers.items(), data, strict=True):
        try:
            read(one)
        except _Unexpected as error:
            return _Unexpected(f".{name}{error}")
    raise AssertionError("nothing is wrong with it")


def _list(data: Any, size: int | None = None) -> list[Any]:
    if type(data) is not list or (size is not None and len(data) != size):
        expected = "a list" if size is None else f"a list of {size}"
        raise _Unexpected(f": expected {expected}, got {repr(data)[:80]}")
    return data
