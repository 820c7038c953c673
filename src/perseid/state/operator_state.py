"""One shard of a stateful operator: made, run for an epoch, captured, restored, sized (S1).

A shard is the operator object itself: a copy of the prototype in the graph, with its own fields, keys and timers.

Invariant: what an epoch returns and leaves behind is a function of the inputs, the context and the captured state. If
``run_epoch`` raises, the shard's state is undefined: restore it before it runs again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from perseid.errors import GraphChanged, OperatorFailed, OperatorMistake
from perseid.state import codec
from perseid.state.fields import StateField, fields_of
from perseid.state.keyed import KeyedState
from perseid.state.moved import learn_moved
from perseid.state.results import Results, as_table
from perseid.state.sizes import size_of
from perseid.state.spilled import Spilled
from perseid.state.timers import Timers

if TYPE_CHECKING:
    from perseid.operators.context import Context
    from perseid.operators.operator import Operator

    AnyOperator = TypeVar("AnyOperator", bound=Operator)

_ENGINE = frozenset(
    {"_fields", "_timers", "_keyed", "_spilling", "_moved", "context"}
)  # what an operator object has from here, not from the user
_MISTAKES = (NameError, ImportError, NotImplementedError)  # raised by code that is wrong, never by a bad moment
_TIMER_BYTES = 400  # of one pending timer: index, heap entry and the four values


def fresh(operator: AnyOperator) -> AnyOperator:
    """A new shard: a copy of the prototype with every field at its default and no timers.

    Attributes set in ``__init__`` are copied deeply, so shards in one host share nothing.
    """
    fields = fields_of(operator)
    shard = object.__new__(type(operator))
    own = shard.__dict__
    own.update(
        (name, copy.deepcopy(value))
        for name, value in operator.__dict__.items()
        if name not in fields and name not in _ENGINE
    )
    own["_fields"] = fields
    own["_timers"] = Timers()
    own["_spilling"] = spills(shard)
    if shard._by_key:
        own["_keyed"] = KeyedState(fields, getattr(shard, "ttl", None), getattr(shard, "spill", None))
    else:
        own.update((name, field.initial()) for name, field in fields.items())
    codec.learn(type(operator))
    learn_moved(operator._moved)
    return shard


def spills(operator: Operator) -> bool:
    """Whether some of its state may be on disk."""
    if operator._by_key:
        return getattr(operator, "spill", None) is not None
    return any(field.spill is not None for field in fields_of(operator).values())


def capture(operator: Operator) -> dict[str, Any]:
    """What a snapshot of the shard holds: references into the live state, no copies (it runs in a forked child)."""
    captured: dict[str, Any] = {"timers": operator._timers.capture()}
    if operator._by_key:
        captured["fields"] = {}
        captured["keyed"] = operator._keyed.capture()
    else:
        own = operator.__dict__
        captured["fields"] = {name: own[name] if name in own else getattr(operator, name) for name in operator._fields}
        captured["keyed"] = None
    return captured


def restore(operator: Operator, captured: dict[str, Any]) -> None:
    """Make the shard what it was when captured. It takes the captured objects over, it does not copy them."""
    keyed = captured["keyed"]
    if operator._by_key != (keyed is not None):
        now, then = ("by key", "as a whole") if operator._by_key else ("as a whole", "by key")
        raise GraphChanged(f"{type(operator).__name__} keeps its state {now}, the snapshot was taken {then}")
    if keyed is not None:
        operator._keyed.restore(keyed)
    else:
        fields = captured["fields"]
        if fields.keys() != operator._fields.keys():
            raise GraphChanged(
                f"{type(operator).__name__}: the snapshot has the state fields {tuple(fields)},"
                f" the operator declares {tuple(operator._fields)}"
            )
        operator.__dict__.update(fields)
    operator.__dict__["_spilling"] = spills(operator)
    if operator._spilling:
        spilled_of(operator)
    operator.__dict__["_timers"] = Timers.restored(captured["timers"])


def spilled_of(operator: Operator) -> list[Spilled[Any, Any]]:
    """The spilled parts of its state. A plain dict in their place, of a snapshot taken before or put there by the operator, is spilled."""
    if operator._by_key:
        values = operator._keyed.values
        return [values] if isinstance(values, Spilled) else []
    own, found = operator.__dict__, []
    for name, field in operator._fields.items():
        if field.spill is not None:
            value = own.get(name)
            if not isinstance(value, Spilled):
                value = own[name] = Spilled(field.spill, value or {})
            elif value.limit != field.spill:
                value.set_limit(field.spill)
            found.append(value)
    return found


def state_bytes(operator: Operator, sizing: Callable[[Any, StateField], int] = size_of) -> int:
    """A quick estimate of the shard's state in bytes: a few samples per field, however many elements (M5a)."""
    size = len(operator._timers) * _TIMER_BYTES
    if operator._by_key:
        return size + operator._keyed.estimated_bytes(operator._fields, sizing)
    return size + sum(sizing(getattr(operator, name), field) for name, field in operator._fields.items())


def run_epoch(operator: Operator, inputs: Mapping[str, pa.Table], context: Context) -> pa.Table | None:
    """One epoch of one shard, also when it has no rows: drop late rows, forget idle keys, process, fire timers.

    Afterwards ``context`` says how many rows were late and the newest event time of each input.
    """
    timers = operator._timers
    context.timers = timers
    timers.has_event_time = context.event_time is not None or context.watermark_ms is not None
    operator.context = context
    whole = operator._whole_epoch
    if context.event_time is not None and not whole:
        inputs = context.event_time.on_time(inputs, context)
    if operator._by_key:
        operator._keyed.expire(context.time_ms, timers)
    doing = "process"
    name = context.shard.operator
    try:
        if len(inputs) == 1:
            (rows,) = inputs.values()
            output = as_table(operator.process(rows), name)
        else:
            output = as_table(operator.process(**inputs), name)
        if timers and not whole:
            due = timers.due(context.time_ms, context.watermark_ms)
            if context.skipped:
                due = [timer for timer in due if repr(timer) not in context.skipped]
            if due:
                doing = "on_timer"
                results = Results(name)
                results.add(output)
                results.add(operator.on_timer(due))
                output = results.table()
    except OperatorFailed:
        raise
    except Exception as error:
        kind = OperatorMistake if isinstance(error, _MISTAKES) else OperatorFailed
        raise kind(_failure(doing, error, inputs, context)) from error
    if operator._spilling:
        for spilled in spilled_of(operator):
            spilled.shrink()
    return output


def _failure(doing: str, error: Exception, inputs: Mapping[str, pa.Table], context: Context) -> str:
    """Operator, shard, epoch, what was raised, and the first rows."""
    where = f"operator '{context.shard.operator}', shard {context.shard.index}, epoch {context.epoch}"
    if context.current_key is not None:
        where += f", key {context.current_key[0]!r:.80}"
    shown = "; ".join(f"{name}: {rows.slice(0, 3).to_pylist()!r:.400}" for name, rows in inputs.items())
    return f"{where}: {doing} raised {type(error).__name__}: {error}\n  first rows of {shown}"
