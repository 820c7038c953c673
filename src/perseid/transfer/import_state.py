"""``perseid import``: state that ``perseid export`` wrote, as the beginning of a new root.

The code may differ from the one that wrote it, as far as state can follow code (``state.evolution``). The shards are those that were
exported; where the application declares another number, they are cut and merged at the first start.

Invariant: one shard is in memory at a time, and of spilled state a piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perseid.errors import RootError
from perseid.graph.nodes import StatefulNode
from perseid.state.fields import fields_of
from perseid.state.shape import StateShape
from perseid.state.shard_state import ShardState
from perseid.state.spilled import Spilled
from perseid.transfer.begin_root import BEGINNING, Beginning
from perseid.transfer.columns import Column
from perseid.transfer.export_state import FORMAT, NAME, file_name
from perseid.transfer.state_tables import StateTable, timers_of


def exported_beginning(folder: Path, node: StatefulNode) -> Beginning:
    """What an export says, for an operator of the new root. Raises ``RootError`` for a folder that is none."""
    try:
        about = json.loads((folder / NAME).read_text())
    except FileNotFoundError:
        raise RootError(
            f"{folder}: has no {NAME}: it is no folder of `perseid export`, or one that was not finished"
        ) from None
    except ValueError as error:
        raise RootError(f"{folder / NAME}: is damaged: {error}") from error
    if about.get("format") != FORMAT:
        raise RootError(f"{folder}: was written by another version of Perseid: format {about.get('format')}")
    shards = []
    for shard in about["shards"]:
        first, last = shard["slots"]
        shards.append(((first, last), lambda shard=shard: _Shard(folder, about, shard, node).state()))
    renamed = {f"{node.name}.{name.partition('.')[2]}": at_ms for name, at_ms in about["event_times_ms"].items()}
    return Beginning(node.name, shards, renamed)


class _Shard:
    """One shard of an export."""

    def __init__(self, folder: Path, about: Mapping[str, Any], shard: Mapping[str, Any], node: StatefulNode) -> None:
        self._folder, self._about, self._shard, self._node = folder, about, shard, node

    def state(self) -> ShardState:
        """As it was when it was exported."""
        keyed: dict[str, Any] | None = None
        fields: dict[str, Any] = {}
        timers: list[tuple[Any, ...]] = []
        for name, kind in self._about["tables"].items():
            path = self._folder / name / file_name(self._shard["index"])
            if not path.exists():
                raise RootError(f"{path}: is not there: the export is not complete")
            with pq.ParquetFile(path) as file:
                table = _table(kind, name, file.schema_arrow, self._about["text"])
                if kind == "timers":
                    timers = [tuple(timer) for batch in file.iter_batches() for timer in timers_of(batch)]
                elif kind == "values":
                    keyed = self._keyed(table, file)
                else:
                    fields[table.columns[0].name] = self._field(table, file)
        shape = self._shape(fields if keyed is None else keyed["names"])
        captured = {"timers": timers, "fields": fields, "keyed": keyed}
        first, last = self._shard["slots"]
        return ShardState(captured, BEGINNING, (first, last), {}, shape)

    def _shape(self, names: Any) -> StateShape | None:
        if self._shard["shape"] is None:
            return None
        shape = StateShape.from_json(self._shard["shape"])
        return replace(shape, fields={name: field for name, field in shape.fields.items() if name in names})

    def _keyed(self, table: StateTable, file: pq.ParquetFile) -> dict[str, Any]:
        limit = getattr(self._node.operator, "spill", None)
        values: MutableMapping[Any, Any] = {} if limit is None else Spilled(limit)
        touched: dict[Any, int] = {}
        own = [
            (place, column.name)
            for place, column in enumerate(table.columns)
            if isinstance(self._made(column.name), dict)
        ]
        for entries in _pieces(table, file):
            for _, value, _ in entries:
                for place, name in own:
                    value[place] = self._own_dict(name, value[place])
            values.update((key, tuple(value)) for key, value, _ in entries)
            touched.update((key, at_ms) for key, _, at_ms in entries if at_ms is not None)
        in_time = dict(sorted(touched.items(), key=lambda entry: entry[1]))
        names = tuple(column.name for column in table.columns)
        return {"names": names, "values": values, "touched": in_time, **self._shard["keyed"]}

    def _field(self, table: StateTable, file: pq.ParquetFile) -> Any:
        name = table.columns[0].name
        if not table.key:
            (entry,) = (entry for entries in _pieces(table, file) for entry in entries)
            return self._own_dict(name, entry[1])
        made = self._made(name)
        values = made if isinstance(made, MutableMapping) else {}
        for entries in _pieces(table, file):
            values.update((key, value) for key, value, _ in entries)
        return values

    def _made(self, name: str) -> Any:
        """What the default of a field makes, which may have another name now."""
        declared = fields_of(self._node.operator)
        field = declared.get(name) or next((f for f in declared.values() if f.was == name), None)
        return None if field is None else field.initial()

    def _own_dict(self, name: str, value: Any) -> Any:
        """A dict as one of the field's own class: a defaultdict keeps its factory."""
        made = self._made(name)
        if type(value) is not dict or type(made) is dict or not isinstance(made, dict):
            return value
        made.update(value)
        return made


def _table(kind: Any, name: str, schema: pa.Schema, text: list[str]) -> StateTable:
    """The table whose columns a file has."""
    key = tuple(schema.field("key").type) if "key" in schema.names else ()
    if kind == "timers":
        return StateTable(kind, key)
    value = schema.field("value")
    if kind == "values":
        columns = tuple(Column(f.name, f.type, f.name in text) for f in value.type)
        return StateTable(kind, key, columns, "touched_ms" in schema.names)
    field = name.removeprefix("field-")
    return StateTable(kind, key, (Column(field, value.type, field in text),))


def _pieces(table: StateTable, file: pq.ParquetFile) -> Iterator[list[tuple[Any, Any, int | None]]]:
    return (list(table.entries(batch)) for batch in file.iter_batches())
