"""A shard's state cut by slots, and put together again (S2: ``partition_processing_state``, ``merge_state``).

What belongs to a key goes where the key's slot goes: a ``KeyedOperator``'s values, timers, and every declared ``dict``, whose keys
must be the operator's own. Any other field says itself how it is cut and merged: ``state(split=…, merge=…)``. Works on
a ``ShardState`` (of ``checkpoint_state``, or read from a snapshot), so it needs no host, no Spark and no live operator.

Invariant: every key, timer and dict entry of the whole is in exactly one part; merging the parts gives the whole again. Between keys
of different parts the order of dict entries and of timers set for the same moment is not kept; within a key it is.

Parts refer to the values of the whole, they do not copy them: whoever goes on with both must decode a snapshot of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from perseid.errors import OperatorFailed
from perseid.state.buffer import merge_buffer_state
from perseid.state.fields import StateField, fields_of
from perseid.state.key_parts import KeyParts, emptied
from perseid.state.shard_state import ShardState
from perseid.state.spilled import Spilled
from perseid.vocabulary import SlotRange


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a split, as ``state(split=function)`` gets it: ``function(value, part)`` returns what of the value is this part's."""

    index: int
    of: int  # how many parts there are
    _parts_of: Callable[[Sequence[Hashable]], Sequence[int]]

    def holds(self, key: Hashable) -> bool:
        """Whether this part answers for the key: a scalar, or a tuple with several key columns."""
        return self.holds_many([key])[0]

    def holds_many(self, keys: Sequence[Hashable]) -> list[bool]:
        """The same for many keys, faster than one by one."""
        return [part == self.index for part in self._parts_of(keys)]


def obstacles(operator: Any) -> list[str]:
    """Why this operator's state cannot be cut by key, one sentence for each field; empty if it can."""
    if getattr(operator, "_by_key", False):
        return []
    found = []
    for name, field in fields_of(operator).items():
        if (field.split is None) != (field.merge is None):
            given, missing = ("split", "merge") if field.merge is None else ("merge", "split")
            found.append(f"field '{name}' has {given}= but no {missing}=")
        elif field.split is None and not isinstance(initial := field.initial(), (dict, Spilled)):
            found.append(
                f"field '{name}' is a {type(initial).__name__}, not a dict by key: say how it is cut and put together"
                f" with state(…, split=function(value, part), merge=function(values))"
            )
    return found


def partition_processing_state(
    state: ShardState,
    operator: Any,
    ranges: Sequence[SlotRange],
    *,
    key_types: Sequence[str] | None = None,
    name: str = "",
) -> list[ShardState]:
    """Cut a shard's state into one part for each of ``ranges``, which cover its slots. Each part reflects the epoch the whole did; what
    it had sent out and is not yet covered downstream goes with the first.

    ``key_types`` are Arrow's names of the key columns' types, on which slots depend; a ``KeyedOperator`` remembers its own.
    Raises ``OperatorFailed`` with the field that cannot be cut, and why.
    """
    name = name or type(operator).__name__
    _require_cover(state.slots, ranges)
    require_divisible(operator, name)
    captured, keyed = state.processing, state.processing["keyed"]
    types = tuple(keyed["key_types"]) if keyed is not None and keyed["key_types"] else key_types
    cut = KeyParts(name, ranges, state.slots, types)
    fields = _cut_fields(captured["fields"], fields_of(operator), cut)
    timers = cut.listed("a timer", captured["timers"], lambda timer: timer[0])
    keyeds = [None] * len(ranges) if keyed is None else _cut_keyed(keyed, cut)
    cuts = [{"timers": t, "fields": f, "keyed": k} for t, f, k in zip(timers, fields, keyeds, strict=True)]
    buffers = [state.buffer, *({} for _ in ranges[1:])]
    return [ShardState(c, state.epoch, r, b) for c, r, b in zip(cuts, ranges, buffers, strict=True)]


def merge_state(states: Sequence[ShardState], operator: Any, *, name: str = "") -> ShardState:
    """The states of several neighbours as that of one shard. All must reflect the same epoch."""
    name = name or type(operator).__name__
    if not states:
        raise OperatorFailed(f"operator '{name}': nothing to merge: expected the state of at least one shard")
    require_divisible(operator, name)
    states = sorted(states, key=lambda state: state.slots)
    if any(a.slots[1] != b.slots[0] for a, b in pairwise(states)):
        raise OperatorFailed(f"operator '{name}': expected neighbours to merge, got {[s.slots for s in states]}")
    epochs = {state.epoch for state in states}
    if len(epochs) > 1:
        raise OperatorFailed(f"operator '{name}': states to merge reflect different epochs: {sorted(epochs)}")
    merged = _merged([state.processing for state in states], operator, name)
    slots = (states[0].slots[0], states[-1].slots[1])
    return ShardState(merged, epochs.pop(), slots, merge_buffer_state([state.buffer for state in states]))


def _merged(parts: Sequence[dict[str, Any]], operator: Any, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field_name, field in fields_of(operator).items() if parts[0]["keyed"] is None else ():
        values = [part["fields"][field_name] for part in parts]
        if field.merge is not None:
            fields[field_name] = field.merge(values)
        else:
            fields[field_name] = _joined(values, f"operator '{name}': field '{field_name}'")
    return {
        "timers": [timer for part in parts for timer in part["timers"]],
        "fields": fields,
        "keyed": None if parts[0]["keyed"] is None else _merged_keyed([part["keyed"] for part in parts], name),
    }


def require_divisible(operator: Any, name: str) -> None:
    """Raise ``OperatorFailed`` with every obstacle."""
    found = obstacles(operator)
    if found:
        raise OperatorFailed(f"operator '{name}': its state cannot be cut by key: " + "; ".join(found))


def _cut_fields(values: dict[str, Any], fields: dict[str, StateField], cut: KeyParts) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{} for _ in range(cut.parts)]
    for name, value in values.items():
        field = fields[name]
        what = f"field '{name}'"
        if field.split is not None:
            for index, part in enumerate(parts):
                part[name] = field.split(value, _part(index, cut, what))
        elif isinstance(value, (dict, Spilled)):
            for part, mine in zip(parts, cut.mapping(what, value), strict=True):
                part[name] = mine
        else:
            raise OperatorFailed(
                f"operator '{cut.name}': {what} holds a {type(value).__name__}; expected a dict by key, which it was declared as"
            )
    return parts


def _part(index: int, cut: KeyParts, what: str) -> Part:
    return Part(index, cut.parts, lambda keys: cut.parts_of(keys, what))


def _cut_keyed(keyed: dict[str, Any], cut: KeyParts) -> list[dict[str, Any]]:
    values = cut.mapping("a value", keyed["values"])
    touched = cut.mapping("a value", keyed["touched"])  # insertion keeps the order of touching
    return [{**keyed, "values": v, "touched": t} for v, t in zip(values, touched, strict=True)]


def _merged_keyed(parts: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    where = f"operator '{name}': its values by key"
    names = tuple(parts[0]["names"])
    if any(tuple(part["names"]) != names for part in parts):
        raise OperatorFailed(f"{where} have different fields in different shards: {[part['names'] for part in parts]}")
    types = {tuple(part["key_types"]) for part in parts if part["key_types"]}
    if len(types) > 1:
        raise OperatorFailed(f"{where} have keys of different types in different shards: {sorted(types)}")
    in_time = heapq.merge(*(part["touched"].items() for part in parts), key=lambda entry: entry[1])
    return {
        "names": names,
        "values": _joined([part["values"] for part in parts], where),
        "touched": dict(in_time),
        "clock_ms": max(part["clock_ms"] for part in parts),
        "key_types": next(iter(types), ()),
    }


def _joined(parts: Sequence[Any], where: str) -> Any:
    """Dicts of different keys as one, of the first one's class."""
    if isinstance(parts[0], Spilled):
        try:
            return Spilled.joined(parts)
        except ValueError as error:
            raise OperatorFailed(f"{where}: {error}") from error
    whole = emptied(parts[0])
    for index, part in enumerate(parts):
        for key, value in part.items():
            if key in whole:
                raise OperatorFailed(
                    f"{where}: key {key!r:.80} is in shard {index} of the merged ones and in one before it"
                )
            whole[key] = value
    return whole


def _require_cover(slots: SlotRange, ranges: Sequence[SlotRange]) -> None:
    at = slots[0]
    for first, last in sorted(ranges):
        if first != at or last <= first:
            break
        at = last
    else:
        if ranges and at == slots[1]:
            return
    raise OperatorFailed(
        f"expected slot ranges that cover {slots[0]} to {slots[1] - 1} without gap or overlap, got {list(ranges)}"
    )
