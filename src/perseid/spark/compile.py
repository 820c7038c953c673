"""The graph checked against Spark before anything starts: schemas, key columns, outputs, determinism.

Every transform is called twice with empty inputs; what it returns is analysed, not run. All mistakes are named at once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from perseid.channel.packed_layout import Layout
from perseid.channel.rows import INPUT, ORDER, SEED, SHARD, input_column
from perseid.errors import GraphError, OperatorMistake
from perseid.graph.graph import Graph
from perseid.graph.nodes import EpochInfo, SinkNode, SourceNode, StatefulNode, TransformNode, UnionNode
from perseid.graph.validation import word_of
from perseid.spark.key_types import hashed_as, key_type_mistake
from perseid.spark.own_session import Moved, no_rows
from perseid.spark.pack_columns import Packed, column_named, layout_for
from perseid.spark.pickled_operators import pickling_mistake
from perseid.spark.repeatable import Doubts, doubts_of
from perseid.spark.seed_rows import Numbered, Seeds, seed_number
from perseid.state.undeclared import shared_containers
from perseid.vocabulary import SLOTS, Epoch, Offset

DIFFERS = "it differs when Spark computes a lost stage again, so rows could be lost or doubled"
MAY_DIFFER = "it may differ when Spark computes a lost stage again, and then rows could be lost or doubled"


@dataclass(frozen=True, slots=True)
class CompiledOperator:
    """What an exchange needs to know of a stateful operator."""

    node: StatefulNode
    output: StructType
    output_arrow: bytes
    rows_arrow: bytes
    ordered: bool
    layout: Layout | None  # of its rows on the way
    key_types: tuple[str, ...]  # Arrow's names, on which slots depend
    session: SparkSession  # in which its epochs run
    _divisions: dict[tuple[int, ...], Division] = field(default_factory=dict)

    def division(self, bounds: Sequence[int]) -> Division:
        """Among shards whose slots end there; the same one whenever it is asked for."""
        found = self._divisions.get(tuple(bounds))
        if found is None:
            found = self._divisions[tuple(bounds)] = Division.of(self.session, self.node, bounds, self.layout)
        return found


@dataclass(frozen=True, slots=True)
class Division:
    """How the rows of an operator are brought together by shard. Its expressions are many calls to the JVM, so they are made once."""

    columns: tuple[Column, ...]  # the shard of a row, by input
    seeds: Seeds
    numbered: Numbered
    packed: Packed | None  # what packs its rows; None where they travel as they are

    @classmethod
    def of(cls, spark: SparkSession, node: StatefulNode, bounds: Sequence[int], layout: Layout | None) -> Division:
        columns = tuple(shard_column(node.key[name], bounds) for name in node.input_names)
        seeds = Seeds(spark, len(bounds))
        packed = Packed(layout, columns[0], len(bounds), seeds) if layout is not None else None
        return cls(columns, seeds, Numbered(seeds, len(bounds)), packed)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The schemas of all streams, and the operators ready for exchanges."""

    schemas: dict[str, StructType]
    operators: dict[str, CompiledOperator]
    unordered: frozenset[str]  # sources whose rows only operators read to which any order is the same
    moved: Moved
    timed: Mapping[str, tuple[str, ...]]  # by operator with event time: its inputs that have the column
    warnings: tuple[str, ...] = ()  # what may come out otherwise when it is computed again, or is lost in a recovery


def arrow_schema(spark: SparkSession, schema: StructType) -> bytes:
    """The Arrow schema of a DataFrame, as Spark sends and expects it in this session."""
    data: bytes = no_rows(spark, schema).toArrow().schema.serialize().to_pybytes()
    return data


def compile_graph(spark: SparkSession, own: SparkSession, graph: Graph) -> Compiled:
    """Check the graph with Spark: transforms in the user's session, for epochs in Perseid's ``own``.

    Raises ``GraphError`` with every mistake found.
    """
    mistakes: list[str] = []
    frames: dict[str, DataFrame] = {}
    operators: dict[str, CompiledOperator] = {}
    doubts: list[tuple[str, Doubts]] = []
    for node in graph.nodes:
        if isinstance(node, SinkNode) or any(name not in frames for name in node.inputs):
            continue
        inputs = [frames[name] for name in node.inputs]
        try:
            match node:
                case SourceNode():
                    frames[node.name] = node.source.read(Offset(0), Offset(0))
                case TransformNode():
                    call = functools.partial(
                        node.function, *inputs, *((EpochInfo(Epoch(1), 0),) if node.takes_epoch else ())
                    )
                    df = call()
                    if not hasattr(df, "mapInArrow"):
                        mistakes.append(f"transform {node.name!r}: expected a DataFrame back, got {type(df).__name__}")
                        continue
                    found = doubts_of(df, call)
                    doubts.append((word_of(node), found.without(doubts_of(inputs[0])) if found != Doubts() else found))
                    frames[node.name] = spark.createDataFrame([], df.schema)
                case UnionNode():
                    frames[node.name] = union(inputs)
                    frames[node.name].schema  # noqa: B018  (analysed here, so that a mismatch is found now)
                case StatefulNode():
                    wrong = _operator_mistakes(node, inputs)
                    mistakes += wrong
                    if not wrong:
                        if node.combine is not None:
                            doubts.append(
                                (f"{word_of(node)}, combine=", doubts_of(to_rows(node, inputs, ordered=False)))
                            )
                        operators[node.name] = _compile_operator(own, node, inputs)
                        frames[node.name] = spark.createDataFrame([], operators[node.name].output)
        except PySparkException as error:
            mistakes.append(f"{word_of(node)}: {str(error).strip().splitlines()[0]}")
        except GraphError:
            raise
        except PicklingError as error:
            said = str(error).strip().splitlines()[0][:200]
            mistakes.append(f"{word_of(node)}: a function in it cannot be sent to Spark's workers: {said}")
        except Exception as error:
            mistakes.append(f"{word_of(node)}: {type(error).__name__}: {error}")
    mistakes += [f"{where} uses {what} ({DIFFERS})" for where, found in doubts for what in found.refused]
    if mistakes:
        raise GraphError(*mistakes)
    warned = [f"{where} uses {what} ({MAY_DIFFER})" for where, found in doubts for what in found.warned]
    warned += [warning for node in graph.operators for warning in shared_containers(node.name, node.operator)]
    unordered = [source.name for source in graph.sources if _any_order(graph, source.name, operators)]
    schemas = {name: df.schema for name, df in frames.items()}
    timed = {
        n.name: _timed_inputs(n, n.event_time.column, schemas) for n in graph.operators if n.event_time is not None
    }
    return Compiled(schemas, operators, frozenset(unordered), Moved(schemas), timed, tuple(warned))


def _timed_inputs(node: StatefulNode, column: str, schemas: Mapping[str, StructType]) -> tuple[str, ...]:
    pairs = zip(node.inputs, node.input_names, strict=True)
    return tuple(name for stream, name in pairs if column in schemas[stream].fieldNames())


def _any_order(graph: Graph, stream: str, operators: Mapping[str, CompiledOperator]) -> bool:
    """Does nobody look at the order of these rows? What a transform does with it is not known."""
    readers = graph.consumers(stream)
    return all(reader.name in operators and not operators[reader.name].ordered for reader in readers)


def _operator_mistakes(node: StatefulNode, inputs: list[DataFrame]) -> list[str]:
    unpicklable = pickling_mistake(node.operator)
    mistakes = [f"{word_of(node)}: {unpicklable}"] if unpicklable is not None else []
    for name, df in zip(node.input_names, inputs, strict=True):
        where = f"operator {node.name!r}" + (f", input {name!r}" if len(inputs) > 1 else "")
        missing = [column for column in node.key[name] if column not in df.columns]
        if missing:
            mistakes.append(f"{where}: no key column {', '.join(map(repr, missing))}; its input has {df.columns}")
        mistakes += [f"{where}: column {c!r} begins with __perseid_" for c in df.columns if c.startswith("__perseid_")]
        found = (key_type_mistake(c, df.schema[c].dataType) for c in node.key[name] if c not in missing)
        mistakes += [f"{where}: {mistake}" for mistake in found if mistake is not None]
    if not mistakes:
        kinds = {
            name: [hashed_as(df.schema[column].dataType) for column in node.key[name]]
            for name, df in zip(node.input_names, inputs, strict=True)
        }
        if len({tuple(kind) for kind in kinds.values()}) > 1:  # the same key would fall to different shards
            told = "; ".join(f"{name}: {', '.join(kind)}" for name, kind in kinds.items())
            mistakes.append(
                f"operator {node.name!r}: its inputs have keys of different types ({told}), so equal keys would not meet;"
                " cast them to one type in a transform before it"
            )
    if node.event_time is not None and not any(node.event_time.column in df.columns for df in inputs):
        mistakes.append(
            f"operator {node.name!r}: no event-time column {node.event_time.column!r};"
            f" its inputs have {[df.columns for df in inputs]}"
        )
    return mistakes


def _compile_operator(spark: SparkSession, node: StatefulNode, inputs: list[DataFrame]) -> CompiledOperator:
    output = _output(spark, node, inputs)
    ordered = node.operator.ordered and node.combine is None
    rows = _schema(arrow_schema(spark, to_rows(node, inputs, ordered=ordered).schema))
    name = node.input_names[0]
    columns = list(rows) if len(inputs) == 1 else list(rows.field(input_column(0)).type)
    types = {column.name: str(column.type) for column in columns}
    return CompiledOperator(
        node,
        output,
        pa.schema([f.with_nullable(True) for f in _schema(arrow_schema(spark, output))]).serialize().to_pybytes(),
        pa.schema([f.with_nullable(True) for f in rows]).serialize().to_pybytes(),
        ordered,
        layout_for(inputs[0].schema) if len(inputs) == 1 and node.combine is None else None,
        tuple(types[column] for column in node.key[name]),
        spark,
    )


def _output(spark: SparkSession, node: StatefulNode, inputs: list[DataFrame]) -> StructType:
    """The columns that the operator returns: as declared, or as it tells them from its inputs."""
    if node.output is not None:
        return cast(StructType, StructType.fromDDL(node.output))
    schemas = {name: _schema(arrow_schema(spark, df.schema)) for name, df in zip(node.input_names, inputs, strict=True)}
    try:
        return from_arrow_schema(node.operator._output(schemas, node.key, node.event_time))
    except OperatorMistake as error:
        raise GraphError(f"{word_of(node)}: {error}") from error


def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def union(inputs: list[DataFrame]) -> DataFrame:
    """The rows of several streams with the same columns, one stream after the other."""
    df = inputs[0]
    for other in inputs[1:]:
        df = df.unionByName(other)
    return df


def shard_column(key: Sequence[str], bounds: Sequence[int]) -> Column:
    """The shard of a row: its slot, looked up among the upper bounds of the shards' slot ranges."""
    if len(bounds) == 1:
        return F.lit(0)
    slot = F.pmod(F.xxhash64(*(column_named(name) for name in key)), F.lit(SLOTS))
    shard = F.when(slot < bounds[0], F.lit(0))
    for index, bound in enumerate(bounds[1:-1], start=1):
        shard = shard.when(slot < bound, F.lit(index))
    return shard.otherwise(F.lit(len(bounds) - 1))


def to_rows(
    node: StatefulNode,
    inputs: list[DataFrame],
    *,
    ordered: bool,
    division: Division | None = None,
    extra: tuple[str, ...] = (),
) -> DataFrame:
    """The rows of an operator as they go to its hosts; with a ``division``, brought together by shard.

    ``extra`` are columns of Perseid's own that travel along (the epoch, in a replay).
    """
    place = [F.monotonically_increasing_id().alias(ORDER)] if ordered else []
    if len(inputs) == 1:
        df = inputs[0]
        if node.combine is not None:
            return _combined(node, df, division, extra)
        if division is not None and division.packed is not None:
            return division.packed.of(df, extra, place)
        if division is None:
            return df.select("*", *place) if place else df
        return division.numbered.of(df.select(division.columns[0].alias(SHARD), "*", *place), extra)
    shards = division.columns if division is not None else (F.lit(0),) * len(inputs)
    tagged = []
    for index, (shard, df) in enumerate(zip(shards, inputs, strict=True)):
        own = [c for c in df.columns if c not in extra]
        structs = [
            F.struct(*[other[c] for c in other.columns if c not in extra]).alias(input_column(i))
            if i == index
            else F.lit(None).cast(StructType([f for f in other.schema if f.name not in extra])).alias(input_column(i))
            for i, other in enumerate(inputs)
        ]
        assert own
        tagged.append(df.select(shard.alias(SHARD), F.lit(index).alias(INPUT), *structs, *extra))
    df = union(tagged).select("*", *place)
    return df.drop(SHARD) if division is None else division.numbered.of(df, extra)


def _combined(node: StatefulNode, df: DataFrame, division: Division | None, extra: tuple[str, ...]) -> DataFrame:
    """Partial aggregation by Spark, per shard, between the shuffle and Python."""
    assert node.combine is not None
    aggregates = [F.expr(expression).alias(name) for name, expression in node.combine.items()]
    (keys,) = node.key.values()
    if division is None:
        return df.groupBy(*extra, *keys).agg(*aggregates)
    df = division.numbered.flagged(df.select("*", division.columns[0].alias(SHARD)), extra)
    # The shard is named among the keys, so that Spark does not shuffle again.
    df = df.groupBy(SHARD, SEED, *extra, *keys).agg(*aggregates)
    number = F.when(F.col(SEED), seed_number(F.col(SHARD))).otherwise(F.col(SHARD))
    return df.select(number.alias(SHARD), *(column_named(name) for name in (*extra, *keys, *node.combine)))
