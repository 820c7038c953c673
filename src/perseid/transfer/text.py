"""Values of Python as JSON text and back: for state whose declared type is no type of a column.

Numbers, text, lists and dicts with text keys look as anywhere. All else is an object with one name that begins with ``$``. It is data and
no pickle: to read it runs no code but that of dataclasses, named tuples and enums which the program has loaded already.

Invariant: ``from_text(as_text(value))`` equals the value and has its type, or ``as_text`` raises ``NoText``.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from perseid.errors import PerseidError
from perseid.state.codec import known_class
from perseid.state.moved import found_moved

_FACTORIES = {cls.__name__: cls for cls in (int, float, str, bytes, list, dict, set)}


class NoText(Exception):
    """A value that has no form as text."""


def as_text(value: Any) -> str:
    """The value as JSON. Raises ``NoText``."""
    return json.dumps(_written(value), separators=(",", ":"), ensure_ascii=False)


def from_text(text: str) -> Any:
    """The value. Raises ``PerseidError`` for text that ``as_text`` did not write, or a class that is not there any more."""
    try:
        return _read(json.loads(text))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise PerseidError(f"{text[:80]!r} is no value as text: {type(error).__name__}: {error}") from error


def _written(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [_written(one) for one in value]
    if kind is dict:
        if all(type(key) is str for key in value) and not (len(value) == 1 and next(iter(value)).startswith("$")):
            return {key: _written(one) for key, one in value.items()}
        return {"$dict": _pairs(value)}
    write = _WRITE.get(kind)
    if write is not None:
        return {f"${kind.__name__}": write(value)}
    if isinstance(value, np.generic):
        return {"$numpy": [value.dtype.str, _written(value.item())]}
    if isinstance(value, enum.Enum):
        return {"$enum": [_path(kind), value.name]}
    if dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind)]
        return {"$dataclass": [_path(kind), {name: _written(getattr(value, name)) for name in fields}]}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return {"$namedtuple": [_path(kind), [_written(one) for one in value]]}
    if isinstance(value, tuple) and kind.__name__ == "Row":
        return {"$Row": [list(getattr(value, "__fields__", ())), [_written(one) for one in value]]}
    raise NoText(f"a {kind.__module__}.{kind.__qualname__} has no form as text")


def _pairs(value: Any) -> list[list[Any]]:
    return [[_written(key), _written(one)] for key, one in value.items()]


def _listed(value: Any) -> list[Any]:
    return [_written(one) for one in value]


def _array(value: Any) -> Any:
    if value.dtype.hasobject:
        raise NoText("a NumPy array of objects has no form as text")
    data = np.ascontiguousarray(value).tobytes()
    return [value.dtype.str, list(value.shape), base64.b64encode(data).decode()]


def _with_default(value: Any) -> Any:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        raise NoText(f"a defaultdict of {factory!r:.60} has no form as text")
    return [None if factory is None else factory.__name__, _pairs(value)]


_WRITE: dict[type, Callable[[Any], Any]] = {
    tuple: _listed,
    set: _listed,
    frozenset: _listed,
    deque: lambda value: [value.maxlen, _listed(value)],
    Counter: _pairs,
    OrderedDict: _pairs,
    defaultdict: _with_default,
    bytes: lambda value: base64.b64encode(value).decode(),
    bytearray: lambda value: base64.b64encode(value).decode(),
    datetime.date: datetime.date.isoformat,
    datetime.datetime: datetime.datetime.isoformat,
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    decimal.Decimal: str,
    uuid.UUID: str,
    np.ndarray: _array,
}


def _read(data: Any) -> Any:
    if type(data) is list:
        return [_read(one) for one in data]
    if type(data) is not dict:
        return data
    if len(data) == 1:
        ((name, inside),) = data.items()
        if name.startswith("$"):
            return _READ[name](inside)
    return {key: _read(one) for key, one in data.items()}


def _read_pairs(data: Any) -> list[tuple[Any, Any]]:
    return [(_read(key), _read(one)) for key, one in data]


def _read_array(data: Any) -> Any:
    kind, shape, encoded = data
    return np.frombuffer(base64.b64decode(encoded), np.dtype(kind)).reshape(shape).copy()


def _read_dataclass(data: Any) -> Any:
    path, values = data
    made = object.__new__(_class(path))
    for field in dataclasses.fields(made):
        if field.name in values:
            object.__setattr__(made, field.name, _read(values[field.name]))
        elif field.default is not dataclasses.MISSING:  # new since then
            object.__setattr__(made, field.name, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default_factory())
    return made


def _read_row(data: Any) -> Any:
    from pyspark.sql import Row

    names, values = data
    read = [_read(one) for one in values]
    return Row(*names)(*read) if names else Row(*read)


_READ: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$dict": lambda data: dict(_read_pairs(data)),
    "$tuple": lambda data: tuple(map(_read, data)),
    "$set": lambda data: set(map(_read, data)),
    "$frozenset": lambda data: frozenset(map(_read, data)),
    "$deque": lambda data: deque(map(_read, data[1]), data[0]),
    "$Counter": lambda data: Counter(dict(_read_pairs(data))),
    "$OrderedDict": lambda data: OrderedDict(_read_pairs(data)),
    "$defaultdict": lambda data: defaultdict(None if data[0] is None else _FACTORIES[data[0]], _read_pairs(data[1])),
    "$bytes": base64.b64decode,
    "$bytearray": lambda data: bytearray(base64.b64decode(data)),
    "$date": datetime.date.fromisoformat,
    "$datetime": datetime.datetime.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": lambda data: datetime.timedelta(*data),
    "$Decimal": decimal.Decimal,
    "$UUID": uuid.UUID,
    "$ndarray": _read_array,
    "$numpy": lambda data: np.dtype(data[0]).type(_read(data[1])),
    "$enum": lambda data: _class(data[0])[data[1]],
    "$dataclass": _read_dataclass,
    "$namedtuple": lambda data: _class(data[0])(*map(_read, data[1])),
    "$Row": _read_row,
}


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(path: str) -> Any:
    """A class that data may be of: one that the program has loaded."""
    module, _, name = path.partition(":")
    found = found_moved(module, name) or known_class(module, name)
    data = isinstance(found, type) and (
        dataclasses.is_dataclass(found) or issubclass(found, enum.Enum) or hasattr(found, "_fields")
    )
    if not data:
        raise PerseidError(
            f"the class {path} is not loaded, or is no dataclass, named tuple or enum; if it has another name now, write"
            f" perseid.moved({path!r}, …)"
        )
    return found
