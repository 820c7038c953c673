"""Which part of a split each key belongs to, and what belongs to keys divided like them.

A key belongs to the part that has its slot. Invariant: what is divided by key is in exactly one part; a key that is none of the shard's, or
none of the operator's, is refused with the reason.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np

from perseid.errors import GraphError, OperatorFailed
from perseid.state.slots import slot_of, slots_of
from perseid.state.spilled import Spilled
from perseid.vocabulary import SLOTS, SlotRange

_OUTSIDE = -1
_PLAIN: dict[type, str] = {str: "string", int: "int64"}


class KeyParts:
    """Key → part, with a refusal for what is no key of this shard."""

    def __init__(self, name: str, ranges: Sequence[SlotRange], slots: SlotRange, types: Sequence[str] | None) -> None:
        self.name, self.parts, self._slots = name, len(ranges), slots
        self._types = None if types is None else tuple(types)
        self._table = [_OUTSIDE] * SLOTS
        for index, (first, last) in enumerate(ranges):
            self._table[first:last] = [index] * (last - first)

    def parts_of(self, keys: Sequence[Hashable], what: str) -> list[int]:
        """The part of each key. Raises ``OperatorFailed`` for one that is no key of this shard."""
        found = self._quickly(keys)
        if found is None or _OUTSIDE in found:
            found = [self._find(key, what) for key in keys]  # tells which key, and what is wrong with it
        return found

    def _quickly(self, keys: Sequence[Hashable]) -> list[int] | None:
        """All keys at once, if they are plain: texts and integers of string and long columns."""
        classes = set(map(type, keys))
        if classes == {tuple}:
            tuples = cast("Sequence[tuple[object, ...]]", keys)
            if len(set(map(len, tuples))) != 1:
                return None
            kinds = [
                _PLAIN.get(found.pop()) if len(found) == 1 else None
                for found in (set(map(type, c)) for c in zip(*tuples, strict=True))
            ]
        else:
            kinds = [_PLAIN.get(classes.pop()) if len(classes) == 1 else None]
        if None in kinds or self._types not in (None, tuple(kinds)):
            return None
        try:
            table = self._table
            return [table[slot] for slot in slots_of(keys, self._types)]
        except (OverflowError, struct.error):
            return None

    def _find(self, key: Hashable, what: str) -> int:
        columns = tuple(map(_plain, key)) if isinstance(key, tuple) else (_plain(key),)
        if self._types is not None and (len(columns) != len(self._types) or not all(map(_fits, columns, self._types))):
            raise self._refusal(key, what, f"the operator's key columns are ({', '.join(self._types)})")
        try:
            slot = slot_of(*columns, types=self._types)
        except (GraphError, OverflowError, ValueError, struct.error) as error:
            raise self._refusal(key, what, f"which is none of the operator's: {error}") from error
        part = self._table[slot]
        if part == _OUTSIDE:
            first, last = self._slots
            raise self._refusal(
                key, what, f"which lies in slot {slot}; this shard holds the slots from {first} to {last - 1}"
            )
        return part

    def _refusal(self, key: Hashable, what: str, why: str) -> OperatorFailed:
        return OperatorFailed(
            f"operator '{self.name}': {what} has the key {key!r:.80}, {why}; only what is keyed by the operator's key can be"
            " cut: use state(split=…, merge=…) for other fields"
        )

    def mapping(self, what: str, whole: Any) -> list[Any]:
        """A dict by key, of whatever class, as one of that class for each part."""
        if isinstance(whole, Spilled):
            return whole.cut(self.parts, lambda keys: self.parts_of(keys, what))
        parts = [emptied(whole) for _ in range(self.parts)]
        keys = list(whole)
        for key, part in zip(keys, self.parts_of(keys, what), strict=True):
            parts[part][key] = whole[key]
        return parts

    def listed(self, what: str, whole: Sequence[Any], key_of: Callable[[Any], Hashable]) -> list[list[Any]]:
        parts: list[list[Any]] = [[] for _ in range(self.parts)]
        for item, part in zip(whole, self.parts_of([key_of(item) for item in whole], what), strict=True):
            parts[part].append(item)
        return parts


def emptied(whole: dict[Any, Any]) -> dict[Any, Any]:
    """An empty dict of the same class: a defaultdict keeps its factory."""
    if type(whole) is dict:
        return {}
    same = copy.copy(whole)
    same.clear()
    return same


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's: a dict finds the one by the other."""
    return value.item() if isinstance(value, np.generic) else value


def _fits(value: Any, kind: str) -> bool:
    """Whether a value can be that of a key column of this type."""
    if value is None:
        return True
    if kind.startswith(("timestamp", "date")):
        return isinstance(value, datetime.datetime) == kind.startswith("timestamp") and isinstance(value, datetime.date)
    if kind.startswith("time"):  # of the day
        return isinstance(value, datetime.time)
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    if kind.startswith(("int", "uint")):
        return isinstance(value, int)
    if kind.startswith("decimal"):
        return isinstance(value, (decimal.Decimal, int))
    if kind in ("float", "double", "halffloat"):
        return isinstance(value, (float, int))
    if "string" in kind:
        return isinstance(value, str)
    return isinstance(value, (bytes, bytearray, memoryview)) if "binary" in kind else True
