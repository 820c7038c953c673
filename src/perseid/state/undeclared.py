"""State that nobody declared: attributes that change while an operator works, which no checkpoint holds. Its user is told, once.

An operator may have attributes besides its declared fields: constants that ``__init__`` sets, and scratch, which a leading underscore
marks (a cache). Any other that is not what it was when the shard was made would be lost with a host, and the results would be wrong.

It is seen, not guessed from the code: after an epoch each attribute is compared with what it was, by a pickle of at most ``MOST_BYTES``.
The first epochs are looked at, then ever fewer.
"""

from __future__ import annotations

import functools
import pickle
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perseid.state.fields import StateField, fields_of
from perseid.state.immutable import mutable_part
from perseid.state.operator_state import fresh

if TYPE_CHECKING:
    from perseid.operators.operator import Operator

MOST_BYTES = 1 << 16
_MADE_EMPTY = (dict, list, set, bytearray, Counter, OrderedDict, deque)
EVERY_EPOCH = 16
"""So many epochs are looked at one by one; from then on those whose number is a power of two."""


class UndeclaredState:
    """Watches the shards of one operator in one process."""

    def __init__(self, name: str, prototype: Operator) -> None:
        self._name, self._class = name, type(prototype)
        self._fields = fields_of(prototype)
        self._before = {attribute: _fingerprint(value) for attribute, value in self._attributes(fresh(prototype))}
        self._initial = dict(prototype.__dict__)
        self._epochs = 0
        self._told = {attribute for attribute, _ in _empty_containers(self._class)}  # before the start

    def after_epoch(self, shard: Operator) -> list[str]:
        """A shard has applied an epoch: what is to be told about its attributes."""
        self._epochs += 1
        if self._epochs > EVERY_EPOCH and self._epochs & (self._epochs - 1):
            return []
        found = []
        for attribute, value in self._attributes(shard):
            new = attribute not in self._before
            if attribute not in self._told and (new or _fingerprint(value) != self._before[attribute]):
                self._told.add(attribute)
                found.append(self._warning(attribute, self._initial.get(attribute, value)))
        return found

    def _attributes(self, shard: Operator) -> Iterator[tuple[str, Any]]:
        """Those that could be state: its own, and those of its class that can be changed in place."""
        for attribute, value in shard.__dict__.items():
            lazily = isinstance(getattr(self._class, attribute, None), functools.cached_property)
            if attribute not in self._fields and attribute != "context" and attribute[0] != "_" and not lazily:
                yield attribute, value
        yield from (
            (attribute, value) for attribute, value in _of_class(self._class) if attribute not in shard.__dict__
        )

    def _warning(self, attribute: str, value: Any) -> str:
        return undeclared(
            self._name, self._class, attribute, value, "changes while it works, but is not declared as state"
        )


def shared_containers(name: str, operator: Operator) -> list[str]:
    """What is to be told of a class before it runs: an empty container in its body can only be meant as state."""
    cls = type(operator)
    return [
        undeclared(
            name, cls, attribute, value, f"is one {type(value).__name__} for all shards and keys, not declared as state"
        )
        for attribute, value in _empty_containers(cls)
    ]


def undeclared(name: str, cls: type, attribute: str, value: Any, what: str) -> str:
    """The warning, with the line to write."""
    return (
        f"operator '{name}': the attribute '{attribute}' {what}: no checkpoint holds it, and after a recovery it begins anew."
        f" Write  {attribute}: {_declaration(value)}  in the body of {cls.__name__}. A cache that may be lost at any time has a"
        f" name with a leading underscore: _{attribute}"
    )


def _declaration(value: Any) -> str:
    kind = type(value).__name__
    if type(value) in _MADE_EMPTY:
        return f"{kind} = state(default_factory={kind})"
    if mutable_part(value) is not None:
        return f"{kind} = state(default_factory=lambda: …)"
    if isinstance(value, (int, float, str, bytes)):
        return f"{kind} = state(default={type(value)()!r})"
    return "Any = state(default=None)"


def _of_class(cls: type) -> Iterator[tuple[str, Any]]:
    """Containers in the bodies of the user's classes."""
    from perseid.operators.keyed import KeyedOperator
    from perseid.operators.operator import Operator

    own = {Operator, KeyedOperator, *Operator.__mro__}
    for base in cls.__mro__:
        if base not in own:
            for attribute, value in list(vars(base).items()):
                container = hasattr(value, "__len__") and mutable_part(value) is not None
                if container and attribute[0] != "_" and not isinstance(value, (StateField, type)):
                    yield attribute, value


def _empty_containers(cls: type) -> Iterator[tuple[str, Any]]:
    return ((attribute, value) for attribute, value in _of_class(cls) if not len(value))


class _TooLarge(Exception):
    pass


class _Bounded:
    """What a pickler writes to, up to a size."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._bytes = 0

    def write(self, data: Any) -> int:
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            raise _TooLarge
        self.parts.append(bytes(data))
        return len(data)


def _fingerprint(value: Any) -> Any:
    """Two of them differ if the value has changed; None where that cannot be told."""
    out = _Bounded()
    try:
        if getattr(value, "nbytes", 0) > MOST_BYTES:  # of NumPy or Arrow, which would copy all of it
            raise _TooLarge
        pickle.Pickler(out, 5).dump(value)
    except _TooLarge:
        return len(value) if hasattr(value, "__len__") else None
    except Exception:  # a class of the user's script, or something that is not meant to be saved
        return _fingerprint(own) if (own := getattr(value, "__dict__", None)) and isinstance(own, dict) else None
    return b"".join(out.parts)
