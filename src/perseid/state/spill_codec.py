"""Keys and values as SQLite keeps them: integers, floats and texts as they are, all else as bytes.

Keys are what a shard's keys are: scalars, or tuples of scalars. Equal keys are equal bytes, and keys of different types are
different keys (unlike in a dict, 1 and 1.0 are two).

Invariant: what comes out is what went in, with NumPy's scalars as keys turned into Python's.
"""

from __future__ import annotations

import datetime
import decimal
import io
import marshal
import math
import pickle
import uuid
from collections.abc import Hashable
from typing import Any

import numpy as np

from perseid.state.codec import Pickler, Unpickler, importable

Key = int | str | bytes
Packed = int | float | str | bytes

_LOW, _HIGH = -(1 << 63), 1 << 63
_CANONICAL = 2  # the last version of marshal that writes equal values as equal bytes, whoever else refers to them
_SCALARS = frozenset({int, bool, str, bytes, type(None)})
_PICKLED = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)


def pack_key(key: Hashable) -> Key:
    """Raises ``TypeError`` for what cannot be the key of a shard."""
    if type(key) is int and _LOW <= key < _HIGH:
        return key
    if type(key) is str and _encodable(key):
        return key
    if isinstance(key, np.generic):
        return pack_key(key.item())
    several = type(key) is tuple
    parts = key if isinstance(key, tuple) and several else (key,)
    return marshal.dumps((several, tuple([_scalar(part, key) for part in parts])), _CANONICAL)


def unpack_key(key: Key) -> Hashable:
    if type(key) is not bytes:
        return key
    several, parts = marshal.loads(key)
    scalars = tuple([pickle.loads(part[0]) if type(part) is tuple else part for part in parts])
    return scalars if several else scalars[0]


def _scalar(part: Any, key: Hashable) -> Any:
    """What marshal writes as it is, or the pickle of a date and the like: one object alone is always pickled in the same way."""
    part = part.item() if isinstance(part, np.generic) else part
    if type(part) in _SCALARS:
        return part
    if type(part) is float:
        return part + 0.0  # -0.0 is the key 0.0
    if isinstance(part, _PICKLED):
        return (pickle.dumps(part, 4),)
    raise TypeError(
        f"the key {key!r:.80} cannot be spilled: expected a scalar or a tuple of scalars, as rows have them"
    )


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class ValueCodec:
    """Values, one by one. Classes of the user's script, which pickle cannot find by their names, are written once for all values.

    ``classes`` go with whatever the values go with.
    """

    def __init__(self, classes: list[type] | None = None) -> None:
        self.classes: list[type] = classes if classes is not None else []

    def pack(self, value: Any) -> Packed:
        kind = type(value)
        if (
            (kind is int and _LOW <= value < _HIGH)
            or (kind is float and not math.isnan(value))
            or (kind is str and _encodable(value))
        ):
            return value  # type: ignore[no-any-return]
        out = io.BytesIO()
        try:
            Pickler(out, 5).dump(value)
        except (pickle.PicklingError, AttributeError, TypeError):
            out = io.BytesIO()
            _ByNumber(out, self.classes).dump(value)
        return out.getvalue()

    def unpack(self, packed: Packed) -> Any:
        if type(packed) is not bytes:
            return packed
        try:
            return pickle.loads(packed)
        except (pickle.UnpicklingError, AttributeError, ImportError):
            return _ByName(io.BytesIO(packed), self.classes).load()


class _ByNumber(Pickler):
    """Classes that pickle does not find are written as their place in a list."""

    def __init__(self, out: io.BytesIO, classes: list[type]) -> None:
        super().__init__(out, 5)
        self._classes = classes

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, type) or importable(obj):
            return None
        if obj not in self._classes:
            self._classes.append(obj)
        return self._classes.index(obj)


class _ByName(Unpickler):
    def __init__(self, packed: io.BytesIO, classes: list[type]) -> None:
        super().__init__(packed)
        self._classes = classes

    def persistent_load(self, number: Any) -> Any:
        return self._classes[number]
