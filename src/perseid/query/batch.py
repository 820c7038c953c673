"""``transform_with_state`` of a batch DataFrame: one epoch, in Spark's tasks, with no state before or after it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from perseid.clocks import wall_ms
from perseid.operators.context import Context
from perseid.operators.output import fit
from perseid.processor.operator import SparkProcessor
from perseid.query.grouped import Grouped
from perseid.spark.compile import arrow_schema
from perseid.state.operator_state import fresh, run_epoch
from perseid.vocabulary import Epoch

_ROW, _INITIAL = "row", "initial"


def processed_batch(operator: SparkProcessor, rows: Grouped, initial: Grouped | None, output: StructType) -> DataFrame:
    """The batch DataFrame that comes out."""
    spark = rows.df.sparkSession
    operator.prepare(spark)
    declared = arrow_schema(spark, output)
    types = {_ROW: arrow_schema(spark, rows.df.schema)}
    keys = {"rows": rows.key}
    keyed = [F.col(f"`{name}`").alias(f"key_{n}") for n, name in enumerate(rows.key)]
    both = rows.df.select(*keyed, F.struct(F.expr("*")).alias(_ROW))
    if initial is not None:
        types[_INITIAL], keys["initial"] = arrow_schema(spark, initial.df.schema), initial.key
        keyed = [F.col(f"`{name}`").alias(f"key_{n}") for n, name in enumerate(initial.key)]
        both = both.unionByName(
            initial.df.select(*keyed, F.struct(F.expr("*")).alias(_INITIAL)), allowMissingColumns=True
        )
    together = both.repartition(*[f"key_{n}" for n in range(len(rows.key))])
    time_ms = wall_ms()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        came = pa.Table.from_batches(list(batches))
        inputs = {("rows" if name == _ROW else name): _part(came, name, schema) for name, schema in types.items()}
        out = pa.ipc.read_schema(pa.py_buffer(declared))
        context = Context(epoch=Epoch(1), time_ms=time_ms, key=keys, output=out)
        table = run_epoch(fresh(operator), inputs, context)
        if table is not None:
            yield from fit(table, out, "transform_with_state").to_batches()

    return together.mapInArrow(run, output)


def _part(came: pa.Table, name: str, schema: bytes) -> pa.Table:
    """The rows of one input."""
    column = came.column(name).combine_chunks()
    there = column.filter(column.is_valid())
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(there)]).cast(
        pa.ipc.read_schema(pa.py_buffer(schema))
    )
