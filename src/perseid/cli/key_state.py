"""The state of one key, looked up in decoded snapshots.

A key given on the command line is text; state may have it as text, a number, a tuple… So keys are compared by how they
read: ``--key 7`` finds ``7`` and ``"7"``, ``--key "('a', 7)"`` or ``--key a,7`` finds the pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class KeyState:
    """What one shard knows of a key."""

    operator: str
    shard: int
    epoch: int
    values: dict[str, Any] = field(default_factory=dict)  # by field
    timers: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.values or self.timers)


def look_up(captured: Mapping[str, Any], key: str, *, operator: str, shard: int, epoch: int) -> KeyState:
    """The values of ``key`` in one shard's captured state; empty when the shard does not know it."""
    values: dict[str, Any] = {}
    keyed = captured.get("keyed") or {}
    for found in _matching(keyed.get("values", {}), key):
        values.update(zip(keyed["names"], keyed["values"][found], strict=True))
    for name, value in (captured.get("fields") or {}).items():
        if isinstance(value, Mapping):
            for found in _matching(value, key):
                values[name] = value[found]
    timers = [
        f"{kind} timer{f' {name!r}' if name else ''} at {at_ms}"
        for whose, at_ms, kind, name in captured.get("timers") or ()
        if _reads_as(whose, key)
    ]
    return KeyState(operator, shard, epoch, values, timers)


def summary(captured: Mapping[str, Any]) -> dict[str, str]:
    """The state of a shard in a few words per field, for when no key was asked for."""
    told = {}
    keyed = captured.get("keyed") or {}
    if keyed.get("names"):
        told[", ".join(keyed["names"])] = f"{len(keyed['values']):,} keys"
    for name, value in (captured.get("fields") or {}).items():
        told[name] = f"{type(value).__name__} of {len(value):,}" if hasattr(value, "__len__") else repr(value)[:60]
    return told


def _matching(keys: Iterable[Any], key: str) -> list[Any]:
    if isinstance(keys, Mapping) and key in keys:
        return [key]
    return [candidate for candidate in keys if _reads_as(candidate, key)]


def _reads_as(candidate: Any, key: str) -> bool:
    if isinstance(candidate, str):
        return candidate == key
    if isinstance(candidate, bytes):
        return candidate == key.encode()
    if isinstance(candidate, tuple):
        return repr(candidate) == key or ",".join(map(str, candidate)) == key
    return str(candidate) == key
