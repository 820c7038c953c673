"""Operators go to their hosts as pickles: tried on the driver before the start, with the attribute that cannot go named.

Without it Spark would say so of every host that is started, in words of its own, until the time to start is over.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from pyspark import cloudpickle as untyped

from perseid.operators.operator import Operator

_cloudpickle: Any = untyped
_DEPTH = 6  # how far a culprit is looked for
_DRIVER_ONLY = ("pyspark.sql", "pyspark.core", "pyspark.context", "pyspark.rdd", "py4j")


def pickling_mistake(operator: Operator) -> str | None:
    """Why an operator cannot be sent to hosts, with the part that cannot; None if it can."""
    try:
        data = _cloudpickle.dumps(operator)
    except Exception as error:
        path, culprit = _culprit(operator)
        where = " ".join(path) if path else f"a {type(culprit).__name__}"
        return f"it cannot be sent to hosts: {where} {_holds(culprit)} ({_said(error)}); {_advice(culprit)}"
    try:
        pickle.loads(data)
    except Exception as error:
        return f"it can be pickled, but not be made again from the pickle, as hosts do: {_said(error)}"
    return None


def _culprit(thing: Any) -> tuple[list[str], Any]:
    """The innermost part that cannot be pickled, and the way to it."""
    path: list[str] = []
    seen: set[int] = set()
    while len(path) < _DEPTH and id(thing) not in seen:
        seen.add(id(thing))
        found = next(((name, part) for name, part in _parts(thing) if not _portable(part)), None)
        if found is None:
            break
        name, thing = found
        path.append(name if not path else f"→ {name}")
    return path, thing


def _portable(part: Any) -> bool:
    try:
        _cloudpickle.Pickler(io.BytesIO()).dump(part)
    except Exception:
        return False
    return True


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """What pickling a thing pickles, too, each with a name for a message."""
    if isinstance(thing, FunctionType):
        yield from _captured(thing)
    elif isinstance(thing, type):
        yield from ((_member(thing, name, value), _plain(value)) for name, value in list(vars(thing).items()))
        yield from ((f"base class {base.__name__}", base) for base in thing.__bases__)
    elif isinstance(thing, Mapping):
        yield from ((f"key {key!r:.40}", value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((f"element {number}", value) for number, value in enumerate(thing))
    elif not _driver_only(thing) and not isinstance(thing, ModuleType):
        yield from ((f"attribute '{name}'", value) for name, value in getattr(thing, "__dict__", {}).items())
        yield f"class {type(thing).__name__}", type(thing)


def _captured(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function takes along when it is pickled by value."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        yield f"variable '{name}'", cell.cell_contents
    names = function.__globals__.keys() & set(function.__code__.co_names)
    yield from ((f"variable '{name}'", function.__globals__[name]) for name in sorted(names))


def _member(cls: type, name: str, value: Any) -> str:
    return f"method '{name}'" if isinstance(_plain(value), FunctionType) else f"class attribute '{name}'"


def _plain(value: Any) -> Any:
    return getattr(value, "__func__", getattr(value, "fget", value))


def _driver_only(thing: Any) -> bool:
    return type(thing).__module__.startswith(_DRIVER_ONLY)


def _holds(culprit: Any) -> str:
    return f"is a {type(culprit).__name__}"


def _advice(culprit: Any) -> str:
    if _driver_only(culprit):
        return (
            "it exists on the driver only: do what needs it in a transform, or give the operator the values it needs"
            " (collect them first)"
        )
    return "give the operator what is needed to make it, and make it in process() when it is first used"


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
