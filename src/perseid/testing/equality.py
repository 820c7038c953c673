"""Whether two states are the same, whatever they are made of: containers, arrays, tables, users' own objects.

Unlike ``==`` it takes NaN for NaN, looks into NumPy arrays and into objects that define no equality. The order of a dict counts
for nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_ARROW = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray, pa.Schema)


def same(one: Any, other: Any) -> bool:
    """
    >>> same({"a": [float("nan")]}, {"a": [float("nan")]})
    True
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype.hasobject:
            return all(map(same, one.ravel().tolist(), other.ravel().tolist()))
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    if isinstance(one, _ARROW):
        return bool(one.equals(other))
    if isinstance(one, float):
        return one == other or (one != one and other != other)
    if getattr(type(one), "__eq__", None) is getattr(object, "__eq__", None):
        return same(_attributes(one), _attributes(other))
    return bool(one == other)


def _attributes(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                found[name] = getattr(value, name)
    return found
