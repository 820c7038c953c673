"""``spark.read.format("perseid")``: a checkpoint root as tables of Spark, read in its tasks.

    spark.read.format("perseid").option("operator", "count").load("words-root")
    spark.read.format("perseid").option("table", "epochs").load("words-root")

Spark finds it by itself, by the name of the package ``pyspark_perseid``;
``spark.dataSource.register(pyspark_perseid.DefaultSource)`` does the same.

    table         state (the default), timers, epochs, checkpoints
    operator      of state and timers; may be left out where there is one
    field         of the state of an operator that is not a KeyedOperator; may be left out where there is one dict
    checkpoint    of state and timers: its id; default the newest
    shard         of state and timers: only this shard
    text          fields, with commas between them, that are shown as JSON text whatever they are declared as

Every shard is a partition, read by one task with the key of the root: who may not read the root reads nothing. A schema that is given with
``.schema(…)`` chooses columns. A task stops reading when Spark has enough rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from perseid.cli.roots import existing_root
from perseid.errors import RootError, SettingsError
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints
from perseid.storage.store import Store, local_folder
from perseid.transfer.read_state import SavedOperator
from perseid.transfer.state_tables import StateTable

_OPTIONS = ("path", "table", "operator", "field", "checkpoint", "shard", "text")
_TIME = pa.timestamp("us", "UTC")
_EPOCHS = pa.schema([
    ("epoch", pa.int64()),
    ("time", _TIME),
    ("slices", pa.map_(pa.string(), pa.struct([("begin", pa.int64()), ("end", pa.int64())]))),
    ("committed_by", pa.list_(pa.string())),
])  # fmt: skip
_SHARD = pa.struct([
    ("operator", pa.string()), ("shard", pa.int32()), ("first_slot", pa.int32()), ("end_slot", pa.int32()),
    ("epoch", pa.int64()), ("bytes", pa.int64()), ("path", pa.string()),
])  # fmt: skip
_CHECKPOINTS = pa.schema([
    ("checkpoint", pa.int64()),
    ("created", _TIME),
    ("scheme", pa.string()),
    ("units", pa.map_(pa.string(), pa.int64())),
    ("shards", pa.list_(_SHARD)),
])  # fmt: skip


class PerseidDataSource(DataSource):
    """The tables of a root."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._wanted = _Wanted.of(options)

    @classmethod
    def name(cls) -> str:
        return "perseid"

    def schema(self) -> StructType:
        return from_arrow_schema(self._wanted.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        return PerseidReader(self._wanted, schema)


class PerseidReader(DataSourceReader):
    """Reads one table, shard by shard. All are of one checkpoint, also when a newer one is taken meanwhile."""

    def __init__(self, wanted: _Wanted, schema: StructType) -> None:
        self._wanted, self._schema = wanted, schema
        self._state: tuple[int, str, StateTable] | None = None  # the key of the root is no part of it
        self._shards: list[int | None] = [None]
        if not wanted.is_state:
            known = wanted.schema().names
        else:
            saved, table = wanted.state()
            known = table.schema.names
            self._state = int(saved.manifest.id), saved.name, table
            self._shards = [s.index for s in saved.snapshots if wanted.shard in (None, s.index)]
            if not self._shards:
                raise RootError(f"operator '{saved.name}': no shard {wanted.shard} in checkpoint {saved.manifest.id}")
        for name in schema.fieldNames():
            if name not in known:
                raise SettingsError(f"perseid: no column {name!r}; the table has {', '.join(known)}")

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(shard) for shard in self._shards]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        target = to_arrow_schema(self._schema, timezone="UTC")
        for batch in self._batches(partition.value):
            yield from pa.Table.from_batches([batch]).select(target.names).cast(target).to_batches()

    def _batches(self, shard: int | None) -> Iterator[pa.RecordBatch]:
        store = existing_root(self._wanted.root)
        if self._state is None:
            rows = _epochs(store) if self._wanted.table == "epochs" else _checkpoints(store)
            yield from pa.Table.from_pylist(rows, schema=self._wanted.schema()).to_batches()
            return
        checkpoint, operator, table = self._state
        saved = SavedOperator.of(store, operator, checkpoint)
        (snapshot,) = (s for s in saved.snapshots if s.index == shard)
        yield from table.batches(saved.read(snapshot), snapshot.index, saved.where(snapshot))


@dataclass(frozen=True)
class _Wanted:
    """What the options say."""

    root: str
    table: str
    operator: str | None
    field: str | None
    checkpoint: int | None
    shard: int | None
    text: tuple[str, ...]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Wanted:
        given = {name.lower(): str(value) for name, value in options.items()}
        unknown = [name for name in given if name not in _OPTIONS]
        if unknown:
            raise SettingsError(f"perseid: no option {unknown[0]!r}; there is: {', '.join(_OPTIONS)}")
        if "path" not in given:
            raise SettingsError("perseid: which root? Write .load('root/')")
        table = given.get("table", "state")
        if table not in ("state", "timers", "epochs", "checkpoints"):
            raise SettingsError(f"perseid: no table {table!r}; there is: state, timers, epochs, checkpoints")
        folder = local_folder(given["path"])
        text = tuple(name.strip() for name in given.get("text", "").split(",") if name.strip())
        return cls(
            given["path"] if folder is None else str(Path(folder).absolute()),
            table,
            given.get("operator"),
            given.get("field"),
            _number(given, "checkpoint"),
            _number(given, "shard"),
            text,
        )

    def schema(self) -> pa.Schema:
        """Of all its columns."""
        match self.table:
            case "epochs":
                return _EPOCHS
            case "checkpoints":
                return _CHECKPOINTS
            case _:
                return self.state()[1].schema

    @property
    def is_state(self) -> bool:
        """Whether it is read from snapshots."""
        return self.table in ("state", "timers")

    def state(self) -> tuple[SavedOperator, StateTable]:
        """The operator in the checkpoint, and its table."""
        saved = SavedOperator.of(existing_root(self.root), self.operator, self.checkpoint)
        tables = saved.tables(text=self.text)
        if self.table == "timers":
            return saved, next(table for table in tables if table.kind == "timers")
        state = [table for table in tables if table.kind != "timers"]
        if self.field is not None and state[0].kind == "field":
            state = [table for table in state if table.columns[0].name == self.field]
        elif len(state) > 1:
            state = [table for table in state if table.key]
        if len(state) != 1:
            fields = ", ".join(column.name for table in tables for column in table.columns)
            raise SettingsError(f"perseid: which field of operator '{saved.name}'? option field: {fields}")
        return saved, state[0]


def _epochs(store: Store) -> list[dict[str, Any]]:
    ledger = Ledger.view(store)
    found = []
    units = ledger.committed_units
    for number in range(ledger.trimmed_to + 1, ledger.last_admitted + 1):
        admitted = ledger.admitted(number)  # type: ignore[arg-type]
        if admitted is not None:
            slices = {str(name): {"begin": int(b), "end": int(e)} for name, (b, e) in admitted.slices.items()}
            done = sorted(unit for unit, epoch in units.items() if epoch >= number)
            found.append(
                {
                    "epoch": number,
                    "time": admitted.time_ms * 1_000,
                    "slices": list(slices.items()),
                    "committed_by": done,
                }
            )
    return found


def _checkpoints(store: Store) -> list[dict[str, Any]]:
    found = []
    for manifest in Checkpoints(store).newest_first():
        shards = [
            {"operator": s.operator, "shard": s.index, "first_slot": s.slots[0], "end_slot": s.slots[1],
             "epoch": s.epoch, "bytes": s.file.bytes, "path": s.path}
            for s in manifest.shards
        ]  # fmt: skip
        units = [(str(unit), int(epoch)) for unit, epoch in manifest.units.items()]
        found.append({"checkpoint": manifest.id, "created": manifest.created_ms * 1_000, "scheme": manifest.scheme,
                      "units": units, "shards": shards})  # fmt: skip
    return found


def _number(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        return int(options[name])
    except ValueError:
        raise SettingsError(f"perseid: option {name}: expected a number, got {options[name]!r}") from None
