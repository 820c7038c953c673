"""The columns of two streams beside each other: those of the left, then those of the right without its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from perseid.errors import GraphError, OperatorMistake
from perseid.operators.event_time import EventTime
from perseid.ready.columns import Numbers

LEFT, RIGHT = "left", "right"
Key = Mapping[str, tuple[str, ...]]


def check_suffix(name: str, suffix: Any) -> None:
    """Raises ``GraphError`` for what can be no suffix."""
    if not isinstance(suffix, str) or not suffix:
        raise GraphError(f"{name}(suffix={suffix!r}): expected what to put behind names that both streams have")


def check_event_time(inputs: Mapping[str, pa.Schema], event_time: EventTime | None) -> None:
    """Raises ``OperatorMistake`` if one of the streams has no event time."""
    if event_time is not None:
        for name, schema in inputs.items():
            if event_time.column not in schema.names:
                raise OperatorMistake(
                    f"the {name} stream has no event-time column '{event_time.column}': {schema.names}"
                )


def joined_schema(inputs: Mapping[str, pa.Schema], key: Key, suffix: str) -> pa.Schema:
    """The columns of pairs."""
    left, right = inputs[LEFT], inputs[RIGHT]
    others = right_columns(left.names, right.names, key, suffix)
    fields = [pa.field(field.name, field.type) for field in left]
    return pa.schema([*fields, *(pa.field(name, right.field(column).type) for column, name in others.items())])


def with_partners(left: pa.Table, right: pa.Table, places: Numbers, key: Key, suffix: str) -> pa.Table:
    """Each left row with the right row at its place; with nulls where that is below 0."""
    others = right_columns(left.column_names, right.column_names, key, suffix)
    taken = right.select(list(others)).take(pa.array(places, mask=places < 0))
    return pa.table(
        {name: left.column(name) for name in left.column_names} | dict(zip(others.values(), taken.columns, strict=True))
    )


def right_columns(
    left: Sequence[str], right: Sequence[str], key: Mapping[str, tuple[str, ...]], suffix: str
) -> dict[str, str]:
    """What the columns of the right stream are called behind those of the left. Its key columns are the left's."""
    found = {column: column + suffix if column in left else column for column in right if column not in key[RIGHT]}
    names = [*left, *found.values()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise OperatorMistake(
            f"two columns of its output have the name {twice[0]!r}: rename one before, or give another suffix="
        )
    return found
