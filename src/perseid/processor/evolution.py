"""State variables whose columns were changed: what an earlier version of the processor stored becomes what this one declares.

As Spark does with ``spark.sql.streaming.stateStore.encodingFormat=avro``: columns are found by name, a new one is null, one that is gone is
forgotten, a number may be given a wider type. Everything else is refused, in Spark's words.

Invariant: a row in the state has the columns that its variable declares, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import types as T

from perseid.processor.variables import Expiring, Stored, Variable

if TYPE_CHECKING:
    from perseid.processor.handle import Record

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FRACTIONS = (T.FloatType, T.DoubleType)


class Declared(NamedTuple):
    """What a variable was declared as; plain, since snapshots hold it."""

    kind: str
    columns: str  # JSON of Spark's schema
    keys: str  # of a map's keys, "" else
    expires: bool

    @classmethod
    def of(cls, variable: Variable) -> Declared:
        """Of a variable that ``init`` has just made."""
        return cls(variable.kind, variable.form.json, variable.key_columns, variable.expires)


def adapt(
    records: Mapping[Hashable, Record], then: Mapping[str, Declared], now: Mapping[str, Declared]
) -> dict[str, Declared]:
    """Make all keys' values of changed variables what is declared now; what has to be remembered."""
    for name, declared in now.items():
        before = then.get(name)
        if before is not None and before != declared:
            convert = _conversion(name, Declared(*before), declared)
            for record in records.values():
                if name in record:
                    record[name] = _converted(record[name], convert)
    return {**then, **now}


def _conversion(name: str, then: Declared, now: Declared) -> Callable[[Stored], Stored]:
    """From rows of then to rows of now."""
    if then.kind != now.kind:
        raise PySparkRuntimeError(
            f"[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE] Cannot change {name} to {now.kind}State between query restarts."
            f" Please set {name} to {then.kind}State, or restart with a new checkpoint directory."
        )
    if then.keys != now.keys:
        raise _impossible(name, "the columns of the map's keys were changed")
    if then.expires != now.expires:
        raise _impossible(name, "a time to live was added or taken away")
    columns = _schema(then.columns)
    places = {field.name: (place, field.dataType) for place, field in enumerate(columns.fields)}
    ways = [_way(name, field, *places.get(field.name, (None, None))) for field in _schema(now.columns).fields]

    def convert(row: Stored) -> Stored:
        return tuple([None if place is None else change(row[place]) for place, change in ways])

    return convert


def _way(
    name: str, field: T.StructField, place: int | None, before: T.DataType | None
) -> tuple[int | None, Callable[[Any], Any]]:
    """Where a column was, and what its values become."""
    kind = field.dataType
    if before is None or before == kind:
        return place, lambda value: value
    wider = any(
        type(before) in kinds and type(kind) in kinds[kinds.index(type(before)) :] for kinds in (_WHOLE, _FRACTIONS)
    )
    if wider:
        return place, lambda value: value
    if isinstance(before, _WHOLE) and isinstance(kind, T.DoubleType):
        return place, lambda value: None if value is None else float(value)
    raise _impossible(
        name, f"column '{field.name}' was {before.simpleString()} and cannot become {kind.simpleString()}"
    )


def _converted(kept: Any, convert: Callable[[Stored], Stored]) -> Any:
    """What one key has in one variable."""
    if isinstance(kept, dict):
        return {key: _converted(row, convert) for key, row in kept.items()}
    if isinstance(kept, list):
        return [_converted(row, convert) for row in kept]
    return Expiring(convert(kept.row), kept.expires_ms) if isinstance(kept, Expiring) else convert(kept)


def _schema(text: str) -> T.StructType:
    return T.StructType.fromJson(json.loads(text))


def _impossible(name: str, why: str) -> PySparkRuntimeError:
    return PySparkRuntimeError(
        f"[STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION] Schema evolution is not possible for state variable {name}: {why}."
        " Run the processor as it was, or start with a new checkpoint root."
    )
