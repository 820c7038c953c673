"""Declared state: the fields of an operator that are saved, sized and restored (S1, M5a).

    class WordCount(Operator):
        counts: dict[str, int] = state(default_factory=dict)
        seen: int = state(default=0)

Only what is declared is state. Any other attribute is configuration (set in ``__init__``, the same for every shard) or
scratch (assigned while processing, gone after a recovery).

Invariant: two shards never share a default. Hence defaults are immutable, or made anew by a factory.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from perseid.byte_size import byte_size
from perseid.errors import GraphError, SettingsError
from perseid.state.immutable import mutable_part
from perseid.state.spilled import Spilled


class _Missing(enum.Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


@dataclass(slots=True, eq=False)
class StateField:
    """One declared field. A descriptor that yields to the instance's own ``__dict__``: reading state costs nothing."""

    default: Any = MISSING
    default_factory: Callable[[], Any] | None = None
    sample: int = 3
    element_size: int | Callable[[Any], int] | None = None
    length: Callable[[Any], int] | None = None
    split: Callable[..., Any] | None = None
    merge: Callable[..., Any] | None = None
    spill: int | None = None  # bytes
    was: str | None = None  # its name in earlier versions of the code
    name: str = ""

    def initial(self) -> Any:
        """The value a new shard (or a new key) starts with."""
        if self.spill is not None:
            return Spilled(self.spill)
        return self.default if self.default_factory is None else self.default_factory()

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.initial()  # only the first read comes here
        return value


def state(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    sample: int = 3,
    element_size: int | Callable[[Any], int] | None = None,
    length: Callable[[Any], int] | None = None,
    split: Callable[..., Any] | None = None,
    merge: Callable[..., Any] | None = None,
    spill: str | int | None = None,
    was: str | None = None,
) -> Any:
    """Declare a field of an operator as state.

        total: int = state(default=0)
        counts: dict[str, int] = state(default_factory=dict)
        index: MyTree = state(default_factory=MyTree, length=MyTree.nodes, element_size=48)

    ``default`` is an immutable value, ``default_factory`` makes a new one for every shard (and, in a
    ``KeyedOperator``, for every key). Exactly one of them is needed.

    How its size is estimated: by default the mean of three elements (first, middle, last) times the number of elements.
    ``sample=N`` takes N elements. ``element_size`` fixes the bytes of one element (or computes it from the field's
    value), ``length`` computes the number of elements of a structure that has no ``len``.

    ``split`` and ``merge`` say how the field is cut by key and put together again when the number of shards changes:
    ``split(value, part)`` returns what of the value is the part's (``part.holds(key)``,
    ``part.holds_many(keys)``, ``part.index``, ``part.of``),
    ``merge(values)`` makes one value of those of all parts. Dicts by key need neither, nor does a ``KeyedOperator``.

        seen: list[tuple[str, int]] = state(
            default_factory=list,
            split=lambda seen, part: [pair for pair in seen if part.holds(pair[0])],
            merge=lambda parts: [pair for part in parts for pair in part],
        )

    ``was`` is the name that the field had in an earlier version of the code: state of then is taken over.

    ``spill`` makes the field a dict by key that is larger than the memory it may use: at most so much of it is in memory, the
    rest on the machine's own disk. It needs no default. See ``perseid.Spilled``.

        counts: dict[str, int] = state(spill="256 MB")
    """
    if spill is not None:
        return StateField(
            default_factory=dict,
            split=split,
            merge=merge,
            spill=_spilling(spill, default, default_factory),
            was=was,
        )
    if (default is MISSING) == (default_factory is None):
        came = "neither" if default is MISSING else "both"
        raise GraphError(f"state(...): expected either default= or default_factory=, got {came}")
    if default_factory is not None and not callable(default_factory):
        raise GraphError(
            f"state(default_factory={default_factory!r}): expected something to call, such as dict or list;"
            f" for a plain value write state(default={default_factory!r})"
        )
    if default is not MISSING:
        _require_immutable(default)
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 1:
        raise GraphError(f"state(sample={sample!r}): expected the number of elements to look at, 1 or more")
    for option, function in (("length", length), ("split", split), ("merge", merge)):
        if function is not None and not callable(function):
            raise GraphError(f"state({option}={function!r}): expected a function of the field's value")
    if (
        element_size is not None
        and not callable(element_size)
        and not (isinstance(element_size, int) and element_size > 0)
    ):
        raise GraphError(
            f"state(element_size={element_size!r}): expected bytes, 1 or more, or a function of the field's value"
        )
    if was is not None and (not isinstance(was, str) or not was.isidentifier()):
        raise GraphError(f"state(was={was!r}): expected the name that the field had before")
    return StateField(default, default_factory, sample, element_size, length, split, merge, was=was)


def fields_of(operator: type | object) -> dict[str, StateField]:
    """The declared fields of an operator class (or of an instance's class), those of base classes first.

    A subclass takes a field away by giving its name another meaning, as with any attribute.
    """
    cls = operator if isinstance(operator, type) else type(operator)
    found: dict[str, StateField] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, StateField):
                found[name] = value
            else:
                found.pop(name, None)
    return found


def _spilling(limit: str | int, default: Any, factory: Any) -> int:
    if default is not MISSING or factory not in (None, dict):
        raise GraphError("state(spill=...): the field is a dict, empty at the start; give no other default")
    try:
        return byte_size(limit)
    except SettingsError as error:
        raise GraphError(f"state(spill={limit!r}): {error}") from error


def _require_immutable(default: Any) -> None:
    if isinstance(default, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        name = getattr(default, "__name__", repr(default))
        raise GraphError(f"state(default={name}): a value was expected, not something to call;"
                         f" write state(default_factory={name})")  # fmt: skip
    culprit = mutable_part(default)
    if culprit is not None:
        kind = type(culprit).__name__
        raise GraphError(
            f"state(default={default!r:.80}): a {kind} can be changed in place, so all shards and keys would share it;"
            f" write state(default_factory={kind}) or state(default_factory=lambda: ...)"
        )
