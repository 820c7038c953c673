"""A running ``transformWithState`` query moves over: what its Spark checkpoint holds is the beginning of a root.

State and timers are read with Spark's own ``statestore`` source and put into the variables that the processor's ``init`` makes, as the
processor itself would. The watermark goes on, too; and where the root's only source is a streaming DataFrame, so do its offsets: the first
epoch has the rows after the last batch of the old query.

Invariant: the old checkpoint is only read. One shard is in memory at a time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from perseid.errors import RootError
from perseid.graph.graph import Graph
from perseid.graph.nodes import ROWS, StatefulNode
from perseid.processor.handle import Forms, Handle
from perseid.processor.operator import SparkProcessor
from perseid.processor.variables import List, Map, Value, Variable
from perseid.scaling.routing import even_slots
from perseid.state.operator_state import fresh
from perseid.state.shard_state import ShardState, checkpoint_state
from perseid.storage import layout
from perseid.storage.local import LocalStore
from perseid.storage.manifest import Checkpoints
from perseid.storage.remote import RemoteStore
from perseid.storage.store import Store, local_folder
from perseid.transfer.begin_root import BEGINNING, Beginning, begin_root, has_begun
from perseid.vocabulary import SLOTS, SlotRange, SourceName

_EXPIRES = "ttlExpirationMs"


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """What a Spark query left: the last batch it committed, and its operator with state."""

    spark: SparkSession
    path: str
    store: Store
    batch: int
    operator: int
    variables: tuple[str, ...]
    watermark_ms: int  # of the last batch
    next_watermark_ms: int  # of the one after

    @classmethod
    def at(cls, spark: SparkSession, path: str) -> SparkCheckpoint:
        """Raises ``RootError`` if it is no checkpoint of a query with ``transformWithState``."""
        folder = local_folder(path)
        if folder is not None and not folder.is_dir():
            raise RootError(f"{path}: no such folder; expected the checkpoint location of a Spark query")
        store: Store = LocalStore(folder) if folder is not None else RemoteStore.from_uri(path)
        batches = [int(name) for name in store.list("commits") if name.isdigit()]
        if not batches:
            raise RootError(f"{path}: is no checkpoint of a Spark query, or it has committed no batch")
        try:
            found = spark.read.format("state-metadata").load(path).collect()
        except PySparkException as error:
            raise RootError(f"{path}: Spark cannot read its state: {str(error).partition(chr(10))[0]}") from error
        operators = {row["operatorId"]: row for row in found if "transformWithState" in row["operatorName"]}
        if len(operators) != 1:
            names = ", ".join(sorted({row["operatorName"] for row in found})) or "none"
            raise RootError(f"{path}: expected one operator with transformWithState, it has: {names}")
        ((number, row),) = operators.items()
        batch = max(batches)
        before = json.loads(store.read(f"offsets/{batch}").decode().splitlines()[1])
        after = json.loads(store.read(f"commits/{batch}").decode().splitlines()[1])
        return cls(
            spark, path, store, batch, number, _variables(row["operatorProperties"]),
            int(before.get("batchWatermarkMs", 0)), int(after.get("nextBatchWatermarkMs", 0)),
        )  # fmt: skip

    def rows(self, slots: SlotRange, key: tuple[str, ...], variable: str | None) -> Iterator[Row]:
        """What a variable holds for keys in these slots; without a variable the timers. ``key``: the columns of the new operator's."""
        reader = self.spark.read.format("statestore").option("path", self.path).option("operatorId", self.operator)
        reader = reader.option("batchId", self.batch)
        reader = (
            reader.option("readRegisteredTimers", True) if variable is None else reader.option("stateVarName", variable)
        )
        df = reader.load()
        names = df.select("key.*").columns
        if len(names) != len(key):
            raise RootError(f"{self.path}: its state is by {', '.join(names)}, the operator's by {', '.join(key)}")
        slot = F.pmod(F.xxhash64(*[F.col(f"key.`{name}`") for name in names]), F.lit(SLOTS))
        return df.filter((slot >= slots[0]) & (slot < slots[1])).toLocalIterator()


def spark_beginning(spark: SparkSession, path: str, graph: Graph, node: StatefulNode) -> Beginning:
    """The state of a Spark query's operator, for this one. Raises ``RootError``."""
    if not isinstance(node.operator, SparkProcessor):
        raise RootError(f"operator '{node.name}': expected perseid.spark_processor(…) to take a Spark query's state")
    found = SparkCheckpoint.at(spark, path)
    node.operator.prepare(spark)
    shards = [(slots, partial(_shard, found, node, slots)) for slots in even_slots(node.shards)]
    times = {}
    if node.event_time is not None and found.next_watermark_ms:
        times[f"{node.name}.{ROWS}"] = found.next_watermark_ms + node.event_time.delay.ms
    streams = [source for source in graph.sources if source.source.kind == "stream"]
    carried = SourceName(streams[0].name) if len(streams) == 1 else None
    return Beginning(node.name, shards, times, lambda store: None if carried is None else _carry(found, store, carried))


def begin_from_spark(spark: SparkSession, path: str, root: str, graph: Graph) -> None:
    """Let a query of one operator begin with the state of a Spark query. Nothing is done on a root that has begun."""
    store = Store.at(root)
    if not has_begun(store) and next(Checkpoints(store).newest_first(), None) is None:
        (node,) = graph.operators
        begin_root(root, graph, spark_beginning(spark, path, graph, node))


def _shard(found: SparkCheckpoint, node: StatefulNode, slots: SlotRange) -> ShardState:
    """The state of one shard, put into its variables one after the other."""
    operator = fresh(cast(SparkProcessor, node.operator))
    processor: Any = cloudpickle.loads(operator._processor)
    handle = Handle(operator.records, operator._timers, 0, operator.mode, Forms(operator._schemas))
    processor.init(handle)
    handle.phase = "INITIALIZED"
    key = node.key[ROWS]
    for name in found.variables:
        variable = handle.variables.get(name)
        if variable is not None:  # else the processor has it no longer
            _fill(handle, variable, found.rows(slots, key, name), f"{found.path}: variable '{name}'")
    if operator.mode != "None":
        for row in found.rows(slots, key, None):
            handle.turn_to(_key(row))
            handle.registerTimer(row["expiration_timestamp_ms"])
            handle.leave()
    processor.close()
    if node.event_time is not None:
        operator.watermark_before_ms = found.watermark_ms
    return checkpoint_state(operator, BEGINNING, slots=slots, copy=False)


def _fill(handle: Handle, variable: Variable, rows: Iterator[Row], where: str) -> None:
    for row in rows:
        handle.turn_to(_key(row))
        match variable:
            case Value():
                variable.update(_value(handle, variable, _column(row, "value", where)))
            case List():
                variable.appendValue(_value(handle, variable, _column(row, "list_element", where)))
            case Map():
                value = _value(handle, variable, _column(row, "user_map_value", where))
                variable.updateValue(tuple(row["user_map_key"]), value)
        handle.leave()


def _value(handle: Handle, variable: Variable, stored: Row) -> tuple[Any, ...]:
    """The row of a value; one that expires is written as if at the time at which it was."""
    if _EXPIRES not in stored.__fields__:
        return tuple(stored)
    if variable._ttl_ms is not None:
        handle.time_ms = stored[_EXPIRES] - variable._ttl_ms
    return tuple(stored["value"])


def _column(row: Row, name: str, where: str) -> Row:
    if name not in row.__fields__:
        raise RootError(f"{where}: is of another kind than the processor declares: it has {', '.join(row.__fields__)}")
    return cast(Row, row[name])


def _key(row: Row) -> Hashable:
    key = row["key"]
    return key[0] if len(key) == 1 else tuple(key)


def _variables(properties: str) -> tuple[str, ...]:
    """Names of the state variables, as Spark wrote them down."""
    return tuple(variable["stateName"] for variable in json.loads(properties).get("stateVariables", ()))


def _carry(found: SparkCheckpoint, store: Store, source: SourceName) -> None:
    """How far the old query's sources were read, for the query that reads them from now on."""
    target, old = f"{layout.source(source)}/checkpoint", found.store
    folders = ["offsets", "commits", *(f"sources/{name}" for name in old.list("sources"))]
    for path in [f"{folder}/{name}" for folder in folders for name in old.list(folder)]:
        if not path.endswith(".crc"):
            store.write(f"{target}/{path}", [old.read(path)])
    # Spark wants the query's id beside offsets; another one than the old query's, which may go on
    store.write(f"{target}/metadata", [json.dumps({"id": str(uuid.uuid4())}).encode()])
