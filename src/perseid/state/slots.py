"""Key → slot, the same in Python as in Spark's ``pmod(xxhash64(key columns), 256)`` (S1, routing state).

Spark's ``xxhash64`` starts from the seed 42 and hashes column after column, each with the hash so far as its seed; a
null leaves it as it is. Integers are hashed as 8 bytes if the column is a long, else as 4; decimals as their unscaled number, in
8 bytes up to 18 digits, else in as few bytes as it needs. So the column's type matters: pass ``types`` (Arrow's names) when key
columns are not longs and doubles.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import re
import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import Final, cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from perseid.errors import GraphError
from perseid.vocabulary import SLOTS, Slot, SlotRange

_SEED: Final = 42
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_NAN_FLOAT: Final = struct.pack("<I", 0x7FC00000)
_NAN_DOUBLE: Final = struct.pack("<Q", 0x7FF8000000000000)
_SMALL_INTS: Final = frozenset({"int8", "int16", "int32"})
_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64,
    (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261),
)
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_DECIMAL: Final = re.compile(r"decimal\d*\((\d+), (-?\d+)\)")
_LONG_DIGITS: Final = 18  # of a decimal that Spark keeps in a long
_EXACT: Final = decimal.Context(prec=80, traps=[decimal.InvalidOperation, decimal.Inexact])


def divided(slots: SlotRange, parts: int) -> list[SlotRange]:
    """A range cut into so many, whose sizes differ by at most one (the paper's key split).

    >>> divided((0, 10), 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    first, last = slots
    return list(pairwise(first + (last - first) * i // parts for i in range(parts + 1)))


def slot_of(*key: object, types: Sequence[str] | None = None) -> Slot:
    """The slot of a key, given as its column values.

    >>> slot_of("streams") == slot_of("streams", types=["string"])
    True

    ``types`` are the Arrow types of the key columns by name (``"int32"``, ``"float"``, …); without them an ``int`` is
    a long and a ``float`` is a double. A decimal's slot depends on its column's precision and scale: it needs its type.
    """
    hashed = _SEED
    if types is None:
        for value in key:
            if value is not None:
                hashed = xxhash.xxh64_intdigest(_bytes_of(value, ""), hashed)
    else:
        for value, kind in zip(key, types, strict=True):
            if value is not None:
                hashed = xxhash.xxh64_intdigest(_bytes_of(value, kind), hashed)
    return Slot(hashed % SLOTS)  # SLOTS divides 2**64: the same as pmod of the signed hash


def slots_of(keys: Sequence[object], types: Sequence[str] | None = None) -> list[int]:
    """The slots of many keys, each a scalar or a tuple of column values: ``slot_of`` for all of them, and faster.

    >>> slots_of(["a", "b"]) == [slot_of("a"), slot_of("b")]
    True
    """
    classes = set(map(type, keys))
    if classes == {str}:
        digest, encoded = xxhash.xxh64_intdigest, str.encode
        return [digest(data, _SEED) % SLOTS for data in map(encoded, cast("Sequence[str]", keys))]
    if classes == {int} and (types is None or tuple(types) == ("int64",)):
        return _slots_of_longs(np.array(keys, np.int64))
    if (
        classes == {tuple}
        and (found := _slots_of_columns(cast("Sequence[tuple[object, ...]]", keys), types)) is not None
    ):
        return found
    return [slot_of(*(key if isinstance(key, tuple) else (key,)), types=types) for key in keys]


def _slots_of_columns(keys: Sequence[tuple[object, ...]], types: Sequence[str] | None) -> list[int] | None:
    """Column after column, if each holds texts or longs only; else None."""
    width = len(keys[0])
    if set(map(len, keys)) != {width} or (types is not None and len(types) != width):
        return None
    hashed: Iterable[int] = repeat(_SEED)
    for column, kind in zip(zip(*keys, strict=True), types or [""] * width, strict=True):
        classes = set(map(type, column))
        if classes == {str}:
            data: Iterable[bytes] = map(str.encode, cast("Iterable[str]", column))
        elif classes == {int} and kind in ("", "int64"):
            data = map(_LONG.pack, column)
        else:
            return None
        hashed = list(map(xxhash.xxh64_intdigest, data, hashed))
    return [h % SLOTS for h in hashed]


def _slots_of_longs(values: NDArray[np.int64]) -> list[int]:
    """xxHash64 of eight bytes each, whole columns at a time."""
    with np.errstate(over="ignore"):
        hashed = np.uint64(_SEED) + _P5 + np.uint64(8)
        mixed = hashed ^ (_rotated(values.view(np.uint64) * _P2, 31) * _P1)
        mixed = _rotated(mixed, 27) * _P1 + _P4
        mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
        mixed ^= mixed >> np.uint64(32)
    slots: list[int] = (mixed % np.uint64(SLOTS)).astype(np.int64).tolist()
    return slots


def _rotated(values: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _bytes_of(value: object, kind: str) -> bytes:
    """What Spark feeds to the hash for one value."""
    if kind.startswith("decimal") or isinstance(value, decimal.Decimal):
        return _bytes_of_decimal(value, kind)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return _INT.pack(value)
    if isinstance(value, int):
        return _INT.pack(value) if kind in _SMALL_INTS else _LONG.pack(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, float):
        if math.isnan(value):
            return _NAN_FLOAT if kind == "float" else _NAN_DOUBLE
        positive = value + 0.0  # -0.0 becomes 0.0
        return _FLOAT.pack(positive) if kind == "float" else _DOUBLE.pack(positive)
    if isinstance(value, datetime.datetime):
        since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return _LONG.pack(since // _MICROSECOND)
    if isinstance(value, datetime.date):
        return _INT.pack(value.toordinal() - _EPOCH_DAY)
    if isinstance(value, datetime.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _LONG.pack((seconds * 1_000_000 + value.microsecond) * 1_000)
    raise GraphError(
        f"key {value!r:.80} of type {type(value).__name__}: a key column must be a boolean, integer, float, decimal, string,"
        " binary, date, time or timestamp; cast it in a transform before the operator"
    )


def _bytes_of_decimal(value: object, kind: str) -> bytes:
    """The number without its point. The precision of the column, not the value, says how it is hashed."""
    digits, scale = _precision_and_scale(kind)
    if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int)):
        raise GraphError(f"key {value!r:.80} of type {type(value).__name__}: its column is a {kind}")
    try:
        unscaled = int(_EXACT.scaleb(decimal.Decimal(value), scale).to_integral_exact(context=_EXACT))
    except decimal.DecimalException as error:
        raise ValueError(f"{value} is not a value of a {kind}") from error
    if abs(unscaled) >= 10**digits:
        raise ValueError(f"{value} has more digits than a {kind}")
    if digits <= _LONG_DIGITS:
        return _LONG.pack(unscaled)
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)  # as Java's BigInteger.toByteArray


@functools.cache
def _precision_and_scale(kind: str) -> tuple[int, int]:
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        raise GraphError(
            "the slot of a decimal key depends on its column's type:"
            f" expected a type such as 'decimal128(10, 2)', got {kind!r}; pass types="
        )
    return int(found[1]), int(found[2])
