"""What can be wrong with one stateful operator: its class, its parameters, its key, its declared fields."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from perseid.byte_size import byte_size
from perseid.duration import Duration
from perseid.errors import OperatorFailed, SettingsError
from perseid.graph.nodes import StatefulNode
from perseid.operators.event_time import EventTime
from perseid.operators.keyed import KeyedOperator
from perseid.operators.operator import Operator
from perseid.state.codec import encode
from perseid.state.fields import StateField, fields_of
from perseid.vocabulary import SLOTS


def operator_mistakes(node: StatefulNode) -> Iterator[str]:
    """Every mistake, without the operator's name in front."""
    yield from _class_mistakes(node)
    yield from _key_mistakes(node)
    output: Any = node.output
    tells = output is None and type(node.operator)._output is not Operator._output
    if not tells and (not isinstance(output, str) or not output.strip()):
        yield f'output={node.output!r}: expected the columns it returns, such as "word string, n long"'
    if isinstance(node.shards, bool) or not isinstance(node.shards, int) or not 1 <= node.shards <= SLOTS:
        yield f"shards={node.shards!r}: expected a number from 1 to {SLOTS}"
    event_time: Any = node.event_time
    if event_time is not None and not isinstance(event_time, EventTime):
        yield f"event_time={node.event_time!r}: expected perseid.event_time(column, delay=…)"
    elif isinstance(node.operator, Operator):
        yield from node.operator._mistakes(event_time)
    combine: Any = node.combine
    if combine is not None:
        if not (
            isinstance(combine, Mapping) and combine and all(isinstance(x, str) for kv in combine.items() for x in kv)
        ):
            yield f'combine={combine!r}: expected SQL aggregates by column name, such as {{"n": "count(*)"}}'
        if len(node.inputs) > 1:
            yield "combine: only for an operator with one input"
        if event_time is not None:
            yield "combine: not together with event_time, since late rows could not be told from others any more"
    for name in node.input_names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            yield f"input name {name!r}: expected a name that can be a parameter of process()"


def _class_mistakes(node: StatefulNode) -> Iterator[str]:
    operator: Any = node.operator
    if isinstance(operator, type):
        if issubclass(operator, Operator):
            yield f"got the class {operator.__name__} instead of an instance: write {operator.__name__}()"
        else:
            yield f"expected an instance of a subclass of Operator, got the class {operator.__name__}"
        return
    if not isinstance(operator, Operator):
        yield f"expected an instance of a subclass of Operator, got a {type(operator).__name__}"
        return
    cls = type(operator)
    method = "process_key" if isinstance(operator, KeyedOperator) else "process"
    base = KeyedOperator if isinstance(operator, KeyedOperator) else Operator
    if getattr(cls, method) is getattr(base, method):
        hint = "; a KeyedOperator's process() calls it" if cls.process is not base.process else ""
        yield f"{cls.__name__} has no {method}(){hint}"
    else:
        yield from _signature_mistakes(getattr(operator, method), method, node)
    ttl = getattr(operator, "ttl", None)
    if isinstance(operator, KeyedOperator) and ttl is not None and not isinstance(ttl, Duration):
        yield f"{cls.__name__}.ttl is {ttl!r}: expected a duration such as every(hours=1)"
    yield from _spill_mistakes(operator)
    yield from _field_mistakes(operator)


def _spill_mistakes(operator: Operator) -> Iterator[str]:
    if not isinstance(operator, KeyedOperator):
        return
    name, limit = type(operator).__name__, operator.spill
    try:
        if limit is not None:
            byte_size(limit)
    except SettingsError as error:
        yield f"{name}.spill: {error}"
    for field_name, field in fields_of(operator).items():
        if field.spill is not None:
            yield (
                f"state field '{field_name}' of a KeyedOperator is one of each key's and cannot be spilled by itself:"
                f' write spill = "…" in the body of {name} to spill the values of all keys'
            )


def _signature_mistakes(method: Any, name: str, node: StatefulNode) -> Iterator[str]:
    """Whether the method can be called as it will be."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return
    before = ["key"] if name == "process_key" else []
    try:
        if len(node.input_names) == 1:
            signature.bind(*before, "rows")
        else:
            signature.bind(*before, **dict.fromkeys(node.input_names))
    except TypeError as error:
        wanted = ", ".join([*before, *(("rows",) if len(node.input_names) == 1 else node.input_names)])
        yield f"{name}{signature} cannot be called as {name}({wanted}): {error}"


def _key_mistakes(node: StatefulNode) -> Iterator[str]:
    several = len(node.key) > 1
    for input_name, columns in node.key.items():
        of_input = f" of input '{input_name}'" if several else ""
        if not columns or any(not isinstance(column, str) or not column for column in columns):
            yield f"key{of_input} is {columns!r}: expected the names of one or more columns"
        elif len(set(columns)) < len(columns):
            yield f"key{of_input} names a column twice: {columns!r}"
    lengths = {len(columns) for columns in node.key.values() if columns}
    if len(lengths) > 1:
        yield f"key has a different number of columns for each input: {dict(node.key)}"


def _field_mistakes(operator: Operator) -> Iterator[str]:
    cls = type(operator)
    fields = fields_of(cls)
    for name, value in vars(operator).items():
        if isinstance(value, StateField):
            yield f"state field '{name}' is declared in a method: declare it in the body of {cls.__name__}"
        elif name in fields and not _same(value, fields[name].initial()):
            yield (
                f"state field '{name}' has a value in the instance given; every shard starts from the field's default:"
                " keep configuration in an attribute of another name"
            )
    for name, field in fields.items():
        if any(name in vars(base) for base in (Operator, KeyedOperator)) or name in Operator.__annotations__:
            yield f"state field '{name}': the name is one of Operator's own"
        unsavable = _unsavable(name, field)
        if unsavable is not None:
            yield unsavable
        cycle = _cyclic_type(_type_hint(cls, name), ())
        if cycle is not None and field.element_size is None:
            yield (
                f"state field '{name}': its type {cycle.__name__} contains itself, so its size cannot be sampled:"
                " give element_size= and length="
            )


def _unsavable(name: str, field: StateField) -> str | None:
    """Why a checkpoint could not save what the field begins with."""
    try:
        value = field.initial()
        encode({"fields": {name: value}})
    except OperatorFailed as error:
        return f"{error}; declare only what a checkpoint can save (pickle), and make the rest anew where it is needed"
    except Exception as error:
        return f"state field '{name}': its default raised {type(error).__name__}: {error}"
    return None


def _same(value: Any, default: Any) -> bool:
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return type(value) is type(default)  # an array says neither yes nor no


def _type_hint(cls: type, name: str) -> Any:
    """What a class says the type of one attribute is; None if it says nothing, or only type checkers can tell."""
    for base in cls.__mro__:
        annotation = vars(base).get("__annotations__", {}).get(name)
        if annotation is not None:
            alone = type(base.__name__, (), {"__annotations__": {name: annotation}, "__module__": base.__module__})
            try:
                return typing.get_type_hints(alone)[name]
            except Exception:
                return None
    return None


def _cyclic_type(hint: Any, within: tuple[type, ...]) -> type | None:
    """A class of records that is reached again through its own fields (M5a)."""
    for argument in typing.get_args(hint):
        found = _cyclic_type(argument, within)
        if found is not None:
            return found
    if not isinstance(hint, type) or not (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        return None
    if hint in within:
        return hint
    for name in getattr(hint, "__annotations__", {}):
        found = _cyclic_type(_type_hint(hint, name), (*within, hint))
        if found is not None:
            return found
    return None
