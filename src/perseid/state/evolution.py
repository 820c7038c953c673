"""State that outlives the code it was written by: fields come, go, are renamed, widened and migrated (X6).

``changes`` compares two shapes and says what would become of the state, without reading it. ``as_declared`` makes state of an
earlier shape one of this code's. It runs when state is read, before it is cut by key or given to an operator.

Invariant: state that ``as_declared`` returns has exactly the fields that the operator declares. What it cannot do raises
``GraphChanged``, and nothing has been written by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from perseid.errors import GraphChanged
from perseid.state.fields import fields_of
from perseid.state.shape import Fields, Migration, StateShape, migrations_of, shape_of, version_of
from perseid.state.shard_state import ShardState

_WIDER = {("int", "float"), ("bool", "int")}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different, as a sentence; ``refused`` if the state cannot follow it."""

    text: str
    refused: bool = False


def changes(then: StateShape, now: StateShape) -> list[Change]:
    """What becomes of state of that shape under code of this one."""
    if then.version > now.version:
        return [
            Change(
                f"its state was written by state_version {then.version}, which is newer than the code's {now.version}:"
                " run the newer code, or go back to the checkpoint before the change (perseid back)",
                True,
            )
        ]
    if then.version < now.version:
        missing = [n for n in range(then.version, now.version) if n not in now.migrations]
        if missing:
            return [
                Change(f"there is no @migrate(from_version={missing[0]}) for state of version {then.version}", True)
            ]
        return [Change(f"its state is migrated from version {then.version} to {now.version}")]
    found, names = [], _names(then, now)
    for name, shape in now.fields.items():
        before = next((old for old, new in names.items() if new == name), None)
        if before is None:
            found.append(Change(f"state field '{name}' is new and begins with {shape.default}"))
            continue
        if before != name:
            found.append(Change(f"state field '{before}' is now '{name}'"))
        was = then.fields[before].type
        if was and shape.type and was != shape.type:
            found.append(_retyped(name, was, shape.type, now.version))
    found += [
        Change(f"state field '{name}' is gone: its values are dropped") for name in then.fields if name not in names
    ]
    return found


def as_declared(state: ShardState, operator: Any, name: str) -> ShardState:
    """State as it was read, as that of this operator. What fits is given back as it is."""
    shape = shape_of(type(operator))
    if state.shape is None or (state.shape.version, state.shape.fields) == (shape.version, shape.fields):
        return state
    return replace(state, processing=_evolved(state.processing, state.shape.version, operator, name), shape=shape)


def _evolved(captured: dict[str, Any], version: int, operator: Any, name: str) -> dict[str, Any]:
    cls, keyed = type(operator), captured["keyed"]
    if (keyed is not None) != operator._by_key:
        return captured  # refused where it is restored
    declared = tuple(fields_of(operator))
    had = () if keyed is None else tuple(keyed["names"])
    steps = [(n, migrations_of(cls).get(n)) for n in range(version, version_of(cls))]
    if version > version_of(cls) or any(step is None for _, step in steps):
        raise GraphChanged(
            f"operator '{name}': its state has version {version}, the code {version_of(cls)}, and there is no way between"
        )

    def one(fields: Fields) -> Fields:
        for number, step in steps:
            assert step is not None
            fields = _migrated(step, number, fields, name)
        return _fitted(fields, operator, name, strict=bool(steps))

    if keyed is None:
        return {**captured, "fields": one(captured["fields"])}
    values = {
        key: tuple(one(dict(zip(had, old, strict=True))).values()) for key, old in dict(keyed["values"].items()).items()
    }
    return {**captured, "keyed": {**keyed, "names": declared, "values": values}}


def _migrated(step: Migration, number: int, fields: Fields, name: str) -> Fields:
    try:
        made: Any = step(dict(fields))
    except Exception as error:
        raise GraphChanged(
            f"operator '{name}': its migration from version {number} raised {type(error).__name__}: {error};"
            f" it got the fields {tuple(fields)}. Nothing was written, the state is as it was."
        ) from error
    if not isinstance(made, dict):
        raise GraphChanged(
            f"operator '{name}': its migration from version {number} gave {made!r:.80}; expected a dict of fields"
        )
    return made


def _fitted(fields: Fields, operator: Any, name: str, *, strict: bool) -> Fields:
    """The declared fields: those there are, by their names of before where those were others; the rest begins with its default."""
    made: Fields = {}
    declared = fields_of(operator)
    unknown = [field for field in fields if field not in declared]
    if strict and unknown:
        raise GraphChanged(f"operator '{name}': a migration gave the field '{unknown[0]}', which is not declared")
    for field_name, field in declared.items():
        before = field_name if field_name in fields else field.was
        if before is not None and before in fields:
            value = fields[before]
            made[field_name] = float(value) if type(value) is int and type(field.default) is float else value
        else:
            made[field_name] = field.initial()
    return made


def _names(then: StateShape, now: StateShape) -> Mapping[str, str]:
    """By the name a field had: the name it has."""
    found = {}
    for name, shape in now.fields.items():
        if name in then.fields:
            found[name] = name
        elif shape.was is not None and shape.was in then.fields:
            found[shape.was] = name
    return found


def _retyped(name: str, was: str, now: str, version: int) -> Change:
    accepted = (was, now) in _WIDER or was in [part.strip() for part in now.split("|")]
    if accepted or _parameters(was, now):
        return Change(f"state field '{name}' was {was}, is now {now}: its values are taken over")
    return Change(
        f"state field '{name}' was {was}, is now {now}: write state_version = {version + 1} and a"
        f" @migrate(from_version={version}) that makes the one of the other",
        True,
    )


def _parameters(was: str, now: str) -> bool:
    """``dict[str, int]`` and ``dict[str, float]``: the same but for what is wider, or not said."""
    if was.partition("[")[0] != now.partition("[")[0]:
        return False
    inside = [[part.strip() for part in text.partition("[")[2].removesuffix("]").split(",")] for text in (was, now)]
    if inside[0] == [""] or inside[1] == [""]:
        return True
    return len(inside[0]) == len(inside[1]) and all(
        a == b or (a, b) in _WIDER or b == "Any" for a, b in zip(*inside, strict=True)
    )
