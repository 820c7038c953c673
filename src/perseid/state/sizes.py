"""How many bytes a state field holds, estimated in constant time (M5a).

A container's size is its own plus the mean size of a few of its elements times their number: by default three, the
first, the middle and the last. Bytes, NumPy, Arrow and pandas data are exact. Nothing is walked: of a dict, which has
no middle to jump to, the "middle" is at most ``REACH`` elements from its front. An object that does not show what it holds is
counted as itself alone, and ``unknown_part`` names it, so that a hint can be asked for.

Invariant: the cost of an estimate depends on the type's nesting (bounded by ``DEPTH``), not on the number of elements.
"""

from __future__ import annotations

import enum
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from perseid.state.fields import StateField

REACH = 64
"""How far an estimate walks into a container that cannot be indexed."""

DEPTH = 5
"""How many levels of containers an estimate goes down; it ends on cyclic data, too."""

ATTRIBUTES = 16
"""How many attributes of a user's own object are looked at."""

_FIXED = frozenset({"builtins", "datetime", "decimal", "fractions", "uuid", "re", "ipaddress", "pathlib"})
_getsizeof = sys.getsizeof
_SCALARS = frozenset({int, float, bool, str, bytes, bytearray, complex, type(None)})
_ARROW = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)


class SizeUnknown(Exception):
    """A field's hints do not give its size."""


def size_of(value: Any, field: StateField | None = None) -> int:
    """Bytes of a field's value, by the field's own rules if it has some.

    >>> size_of(b"x" * 1000) >= 1000
    True
    """
    if field is None:
        return _size(value, 3, DEPTH)
    if field.element_size is None and field.length is None:
        return _size(value, field.sample, DEPTH)
    return _hinted(value, field)


def _hinted(value: Any, field: StateField) -> int:
    """By the field's hints. Raises ``SizeUnknown``, which says what is wrong with them."""
    if field.length is not None:
        length = _from_user(field.length, value, "length")
    elif hasattr(value, "__len__"):
        length = len(value)
    else:
        raise SizeUnknown(f"element_size= is given, but a {type(value).__name__} has no len(): give length=, too")
    if field.element_size is not None:
        size = (
            _from_user(field.element_size, value, "element_size")
            if callable(field.element_size)
            else field.element_size
        )
        return int(length * size)
    elements = sampled(value, field.sample)
    if length and not elements:
        raise SizeUnknown(
            f"length= is given, but a {type(value).__name__} has no elements to look at: give element_size=, too"
        )
    return int(length * _mean(elements, field.sample, DEPTH - 1))


def _from_user(function: Callable[[Any], int], value: Any, name: str) -> int:
    try:
        answer = function(value)
    except Exception as error:
        raise SizeUnknown(f"its {name}= raised {type(error).__name__}: {error}") from error
    if isinstance(answer, bool) or not isinstance(answer, (int, float, np.integer, np.floating)) or answer < 0:
        raise SizeUnknown(f"its {name}= returned {answer!r:.40}, expected a number of at least 0")
    return int(answer)


def unknown_part(value: Any, sample: int = 3, depth: int = DEPTH) -> type | None:
    """A class in ``value`` whose objects do not show how much they hold; None if all sampled ones do."""
    kind = type(value)
    if kind in _SCALARS or isinstance(value, (np.ndarray, np.generic, *_ARROW, memoryview, type, enum.Enum)):
        return None
    if isinstance(value, Mapping) and _nbytes(value) is not None:  # a spilled one: to look into it means to read it
        return None
    if isinstance(value, (Mapping, Sequence, Set, deque)):
        parts = [part for element in sampled(value, sample) for part in element] if depth and len(value) else []
    elif kind.__module__ in _FIXED or kind.__module__.startswith("pandas.") or _nbytes(value) is not None:
        return None
    else:
        parts = list(islice(getattr(value, "__dict__", {}).values(), ATTRIBUTES)) + _slots(value)
        own_size: Any = kind.__sizeof__
        if not parts and own_size is object.__sizeof__ and not _is_plain(value):
            return kind
    found = (unknown_part(part, sample, depth - 1) for part in parts) if depth else iter(())
    return next((part for part in found if part is not None), None)


def _is_plain(value: Any) -> bool:
    """Written in Python: what it holds is in its attributes, and there are none."""
    return hasattr(value, "__dict__") or any("__slots__" in vars(cls) for cls in type(value).__mro__[:-1])


def _size(value: Any, sample: int, depth: int) -> int:
    kind = type(value)
    if kind in _SCALARS:
        return _getsizeof(value)
    if isinstance(value, np.ndarray):
        size = _getsizeof(value) if value.base is None else value.nbytes
        if value.dtype.hasobject and value.size and depth:
            size += int(value.size * _mean(sampled(value.ravel(order="K"), sample), sample, depth - 1))
        return size
    if isinstance(value, _ARROW):
        return int(value.nbytes)
    if isinstance(value, memoryview):
        return value.nbytes
    if kind.__module__.startswith("pandas.") and hasattr(value, "memory_usage"):
        return _pandas_size(value, sample, depth)
    exact = _nbytes(value)
    if exact is not None:
        return exact
    if depth and isinstance(value, (Mapping, Sequence, Set, deque)) and len(value):
        return _getsizeof(value) + int(len(value) * _mean(sampled(value, sample), sample, depth - 1))
    if depth and not isinstance(value, (str, bytes, type)):
        return _getsizeof(value) + _attributes_size(value, sample, depth - 1)
    return _getsizeof(value)


def _mean(elements: list[tuple[Any, ...]], sample: int, depth: int) -> float:
    if not elements:
        return 0.0
    return sum(_size(part, sample, depth) for element in elements for part in element) / len(elements)


def sampled(value: Any, sample: int) -> list[tuple[Any, ...]]:
    """A few elements: (element,), or (key, value) of a mapping."""
    count = len(value) if hasattr(value, "__len__") else 0
    if isinstance(value, Mapping):
        return _ends(value.items, value.items, count, sample)
    if isinstance(value, deque):
        return [(part,) for part in _ends(value.__iter__, value.__reversed__, count, sample)]
    if hasattr(value, "__getitem__"):
        return [(value[place],) for place in _places(count, sample)]
    if hasattr(value, "__iter__"):
        return [(part,) for part in _ends(value.__iter__, None, count, sample)]
    return []


def _places(count: int, sample: int) -> Iterable[int]:
    if count <= sample:
        return range(count)
    if sample == 3:
        return (0, count // 2, count - 1)
    if sample < 3:
        return (0, count - 1)[:sample]
    return random.Random(count).sample(range(count), sample)


def _ends(
    forward: Callable[[], Iterable[Any]], backward: Callable[[], Any] | None, count: int, sample: int
) -> list[Any]:
    """Elements from the front, a little behind it, and from the end, in at most REACH (or ``sample``) steps."""
    if count <= sample:
        return list(forward())
    last: list[Any] = []
    if backward is not None and sample > 1:
        ending = backward()
        try:
            last = list(islice(ending if hasattr(ending, "__next__") else reversed(ending), sample // 3 or 1))
        except TypeError:  # a mapping that cannot be reversed
            last = []
    front = sample - len(last)
    reach = min(count, max(REACH, front))
    step = max(1, (reach - 1) // max(1, front - 1)) if front > 1 else 1
    return list(islice(forward(), 0, reach, step))[:front] + last


def _attributes_size(value: Any, sample: int, depth: int) -> int:
    """A user's own object: what its attributes hold."""
    attributes = getattr(value, "__dict__", None)
    if attributes:
        size = _getsizeof(attributes) + sum(
            _size(part, sample, depth) for part in islice(attributes.values(), ATTRIBUTES)
        )
        return size
    return sum(_size(part, sample, depth) for part in _slots(value))


def _slots(value: Any) -> list[Any]:
    parts = []
    for cls in type(value).__mro__[:-1]:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots)[:ATTRIBUTES]:
            part = getattr(value, name, None)
            if part is not None:
                parts.append(part)
    return parts


def _nbytes(value: Any) -> int | None:
    """Tensors, masked and labelled arrays say it themselves."""
    exact = getattr(type(value), "nbytes", None) and value.nbytes
    return exact if isinstance(exact, int) and not isinstance(exact, bool) else None


def _pandas_size(value: Any, sample: int, depth: int) -> int:
    usage = value.memory_usage(index=True, deep=False)
    size = int(usage if isinstance(usage, (int, np.integer)) else usage.sum())
    columns = [value[name] for name in value.columns] if hasattr(value, "columns") else [value]
    for column in columns[:REACH] if depth else ():
        if column.dtype == object and len(column):
            elements = [(column.iloc[place],) for place in _places(len(column), sample)]
            size += int(len(column) * _mean(elements, sample, depth - 1))
    return size
