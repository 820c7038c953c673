"""Values as JSON and back, derived from the types of their fields: a new field or a new kind of message or event needs nothing here.

A dataclass or named tuple is the list of its fields, in their order. Mappings are lists of pairs, since keys may be shards. Of a union the
name of the class comes first. ``object`` and ``Any`` are JSON already. Sets are in order.

Invariant: what is read has just the types that are declared; anything else is a ``Mismatch`` that names the field.
"""

from __future__ import annotations

import enum
import hashlib
import types
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Code = Callable[[Any], Any]
_SCALARS = (int, str, bool, float)


class Mismatch(Exception):
    """What came is not what the type says."""


class Codec:
    """Writes and reads values by their types. ``stands_for`` says which classes a protocol stands for."""

    def __init__(
        self,
        stands_for: Mapping[Any, Any] | None = None,
        written_by: Mapping[Any, Code] | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        """``written_by``: types that are only ever written, and how. ``ordered``: mappings are written in the order of their keys."""
        self._ordered = ordered
        self._stands_for = dict(stands_for or {})
        self._writers: dict[Any, Code | None] = dict(written_by or {})
        self._readers: dict[Any, Code] = {}
        self._on_the_way: set[Any] = set()

    def write(self, kind: Any, value: Any) -> Any:
        """A value of this type as JSON takes it."""
        write = self.writer(kind)
        return value if write is None else write(value)

    def read(self, kind: Any, data: Any) -> Any:
        """The value of this type. Raises ``Mismatch``."""
        return self.reader(kind)(data)

    def fingerprint(self, *kinds: Any) -> str:
        """A short text that changes with any field of any type that these kinds are made of."""
        shapes: dict[str, str] = {}
        for kind in kinds:
            self._shape(kind, shapes)
        return hashlib.blake2b(repr(sorted(shapes.items())).encode(), digest_size=6).hexdigest()

    # -- types --------------------------------------------------------------------------------------------------------

    def plain(self, kind: Any) -> Any:
        """A type without the names that are given to it."""
        while hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        kind = getattr(kind, "__value__", kind)
        return self._stands_for.get(kind, kind)

    def _shape(self, kind: Any, shapes: dict[str, str]) -> None:
        kind = self.plain(kind)
        names = _fields(kind)
        if names is not None and kind.__name__ not in shapes:
            shapes[kind.__name__] = ", ".join(f"{name}: {self.plain(one)}" for name, one in names.items())
            for one in names.values():
                self._shape(one, shapes)
        for one in get_args(kind) if get_origin(kind) is not Literal else ():
            self._shape(one, shapes)

    def _choice(self, kind: Any) -> tuple[list[Any], bool] | None:
        """The classes of a union, and whether None is one of them; None for other types."""
        if get_origin(kind) not in (Union, types.UnionType):
            return None
        flat: list[Any] = []
        for one in get_args(kind):
            inner = self._choice(self.plain(one))
            flat += [*inner[0], *([type(None)] if inner[1] else [])] if inner is not None else [one]
        others = [one for one in flat if one is not type(None)]
        return others, len(others) < len(flat)

    # -- writing ------------------------------------------------------------------------------------------------------

    def writer(self, kind: Any) -> Code | None:
        """Makes JSON of a value of this type; None where JSON takes it as it is."""
        if kind not in self._writers:
            if kind in self._on_the_way:  # a type that holds itself
                return lambda value: self.write(kind, value)
            self._on_the_way.add(kind)
            self._writers[kind] = self._made_writer(self.plain(kind))
            self._on_the_way.discard(kind)
        return self._writers[kind]

    def _made_writer(self, kind: Any) -> Code | None:
        if kind in self._writers:
            return self._writers[kind]
        if (names := _fields(kind)) is not None:
            return self._record_writer(kind, names)
        if (choice := self._choice(kind)) is not None:
            return self._choice_writer(*choice)
        origin, args = get_origin(kind), get_args(kind)
        if kind in _SCALARS or kind in (object, Any) or origin is Literal or _is_enum(kind):
            return None
        if origin is tuple and args[-1] is not ...:
            each = [self.writer(one) or _same for one in args]
            return lambda value: [write(one) for write, one in zip(each, value, strict=True)]
        if _is(origin, Set):
            write_one = self.writer(args[0]) or _same
            return lambda value: [write_one(one) for one in sorted(value)]
        if _is(origin, Mapping):
            key, of = (self.writer(one) or _same for one in args)
            if self._ordered:
                return lambda value: [[key(name), of(one)] for name, one in sorted(value.items(), key=_first)]
            return lambda value: [[key(name), of(one)] for name, one in value.items()]
        if _is(origin, Sequence):
            write_one = self.writer(args[0]) or _same
            return lambda value: [write_one(one) for one in value]
        raise TypeError(f"{kind} cannot be written")

    def _choice_writer(self, others: list[Any], optional: bool) -> Code | None:
        if len(others) == 1:
            write = self.writer(others[0])
            return None if write is None else lambda value: None if value is None else write(value)
        if all(one in _SCALARS for one in map(self.plain, others)):
            return None
        classes = self._told_apart(others)
        writers: dict[type, Code] = {}

        def written(value: Any) -> Any:
            kind = type(value)
            write = writers.get(kind)
            if write is None:
                if value is None and optional:
                    return None
                if kind not in classes:
                    raise TypeError(f"{kind.__name__} is none of {', '.join(one.__name__ for one in classes)}")
                name, fields_of = kind.__name__, self.writer(kind) or list
                write = writers[kind] = lambda value: [name, *fields_of(value)]
            return write(value)

        return written

    def _record_writer(self, kind: Any, names: dict[str, Any]) -> Code | None:
        writers = {f"_{name}": write for name, one in names.items() if (write := self.writer(one)) is not None}
        if not is_dataclass(kind) and not writers:
            return list
        values = [f"_{name}(value.{name})" if f"_{name}" in writers else f"value.{name}" for name in names]
        return _function(f"def made(value): return [{', '.join(values)}]", writers)

    # -- reading ------------------------------------------------------------------------------------------------------

    def reader(self, kind: Any) -> Code:
        """Makes a value of this type of JSON."""
        if kind not in self._readers:
            if kind in self._on_the_way:
                return lambda data: self.read(kind, data)
            self._on_the_way.add(kind)
            self._readers[kind] = self._made_reader(self.plain(kind))
            self._on_the_way.discard(kind)
        return self._readers[kind]

    def _made_reader(self, kind: Any) -> Code:
        if (names := _fields(kind)) is not None:
            return self._record_reader(kind, names)
        if (choice := self._choice(kind)) is not None:
            return self._choice_reader(*choice)
        origin, args = get_origin(kind), get_args(kind)
        if kind in (object, Any):
            return _same
        if origin is Literal:
            return _literal_reader(args)
        if _is_enum(kind):
            return _enum_reader(kind)
        if origin is tuple and args[-1] is not ...:
            each = tuple(self.reader(one) for one in args)
            return lambda data: tuple([read(one) for read, one in zip(each, _list(data, len(each)), strict=True)])
        if _is(origin, Mapping):
            key, of = self.reader(args[0]), self.reader(args[1])
            return lambda data: {key(name): of(one) for name, one in (_list(pair, 2) for pair in _list(data))}
        if _is(origin, Set) or _is(origin, Sequence):
            read_one = self.reader(args[0])
            made = origin if origin in (set, frozenset, list) else frozenset if _is(origin, Set) else tuple
            return lambda data: made([read_one(one) for one in _list(data)])
        if kind in _SCALARS:
            return _scalar_reader(kind)
        raise TypeError(f"{kind} cannot be read")

    def _told_apart(self, others: list[Any]) -> list[Any]:
        classes = [self.plain(one) for one in others]
        if any(_fields(one) is None for one in classes):
            raise TypeError(f"{others} cannot be told apart")
        return classes

    def _choice_reader(self, others: list[Any], optional: bool) -> Code:
        if len(others) == 1:
            read = self.reader(others[0])
            return lambda data: None if data is None else read(data)
        classes = {getattr(self.plain(one), "__name__", str(one)): one for one in others}
        if all(one in _SCALARS for one in map(self.plain, others)):
            each = [self.reader(one) for one in others]

            def first(data: Any) -> Any:
                if data is None and optional:
                    return None
                for read in each:
                    try:
                        return read(data)
                    except Mismatch:
                        continue
                raise Mismatch(f": expected one of {', '.join(classes)}, got {repr(data)[:80]}")

            return first

        self._told_apart(others)

        def told(data: Any) -> Any:
            if data is None and optional:
                return None
            if type(data) is not list or not data or type(data[0]) is not str or data[0] not in classes:
                raise Mismatch(f": expected one of {', '.join(sorted(classes))}, got {repr(data)[:80]}")
            try:
                return self.reader(classes[data[0]])(data[1:])
            except Mismatch as error:
                raise Mismatch(f": {data[0]}{error}") from None

        return told

    def _record_reader(self, kind: Any, names: dict[str, Any]) -> Code:
        readers = {name: self.reader(one) for name, one in names.items()}
        known: dict[str, Any] = {"kind": kind, "wrong": lambda data: _wrong(readers, data), "Mismatch": Mismatch}
        checks, values = [f"type(data) is list and len(data) == {len(names)}"], []
        for place, (name, one) in enumerate(names.items()):
            plain = self.plain(one)
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
        except Mismatch:
            pass
    raise wrong(data)
"""
        return _function(code, known)


# -- parts ------------------------------------------------------------------------------------------------------------


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or named tuple, with their types; None for other types."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: hints[field.name] for field in fields(kind) if field.init}
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return {name: hints[name] for name in kind._fields}
    return None


def _is(origin: Any, kind: type) -> bool:
    return isinstance(origin, type) and issubclass(origin, kind)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _same(value: Any) -> Any:
    return value


def _function(code: str, known: Mapping[str, Any]) -> Code:
    """A function of its own for each type, as dataclasses make them: half of the time of a loop over its fields."""
    found: dict[str, Any] = dict(known)
    exec(code, found)
    made: Code = found["made"]
    return made


def _scalar_reader(kind: type) -> Code:
    taken = (int, float) if kind is float else (kind,)

    def read(data: Any) -> Any:
        if type(data) not in taken:
            raise Mismatch(f": expected {kind.__name__}, got {repr(data)[:80]}")
        return data

    return read


def _literal_reader(choices: tuple[Any, ...]) -> Code:
    def read(data: Any) -> Any:
        if data not in choices:
            raise Mismatch(f": expected one of {choices}, got {repr(data)[:80]}")
        return data

    return read


def _enum_reader(kind: type[enum.Enum]) -> Code:
    members = {member.value: member for member in kind}

    def read(data: Any) -> Any:
        if type(data) is list or data not in members:
            raise Mismatch(f": expected one of {', '.join(map(str, members))}, got {repr(data)[:80]}")
        return members[data]

    return read


def _wrong(readers: Mapping[str, Code], data: Any) -> Mismatch:
    """What is wrong with the fields of a record."""
    if type(data) is not list or len(data) != len(readers):
        return Mismatch(f": expected the fields {', '.join(readers)}, got {repr(data)[:80]}")
    for (name, read), one in zip(readers.items(), data, strict=True):
        try:
            read(one)
        except Mismatch as error:
            return Mismatch(f".{name}{error}")
    raise AssertionError("nothing is wrong with it")


def _list(data: Any, size: int | None = None) -> list[Any]:
    if type(data) is not list or (size is not None and len(data) != size):
        expected = "a list" if size is None else f"a list of {size}"
        raise Mismatch(f": expected {expected}, got {repr(data)[:80]}")
    return data
