"""``transform_with_state`` and ``transform_with_state_in_pandas``: Spark's two methods, by Perseid."""

from __future__ import annotations

from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from perseid.errors import GraphError
from perseid.processor.operator import spark_processor
from perseid.query.batch import processed_batch
from perseid.query.grouped import Grouped
from perseid.query.processed import ProcessedStream

_OUTPUT_MODES = ("append", "update", "complete")


def transform_with_state(
    grouped: GroupedData,
    statefulProcessor: StatefulProcessor,
    outputStructType: StructType | str,
    outputMode: str,
    timeMode: str,
    initialState: GroupedData | None = None,
    eventTimeColumnName: str = "",
) -> ProcessedStream | DataFrame:
    """Spark's ``df.groupBy(…).transformWithState(…)``, with the state in Perseid's hosts.

        counts = perseid.transform_with_state(
            clicks.groupBy("id"), MyProcessor(), outputStructType="id string, n long", outputMode="Update", timeMode="None")
        query = counts.writeStream.format("parquet").option("checkpointLocation", "root/").start("out/")

    The arguments are those of Spark, and so is what ``writeStream.….start()`` gives: a query with ``processAllAvailable``,
    ``lastProgress``, ``stop`` and the others. Of a batch DataFrame the result is a batch DataFrame.
    """
    return _transform(
        grouped, statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName, pandas=False
    )  # fmt: skip


def transform_with_state_in_pandas(
    grouped: GroupedData,
    statefulProcessor: StatefulProcessor,
    outputStructType: StructType | str,
    outputMode: str,
    timeMode: str,
    initialState: GroupedData | None = None,
    eventTimeColumnName: str = "",
) -> ProcessedStream | DataFrame:
    """Spark's ``df.groupBy(…).transformWithStateInPandas(…)``, with the state in Perseid's hosts; see ``transform_with_state``.

    counts = perseid.transform_with_state_in_pandas(
        clicks.groupBy("id"), MyProcessor(), outputStructType="id string, n long", outputMode="Update", timeMode="None")
    """
    return _transform(
        grouped, statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName, pandas=True
    )  # fmt: skip


def _transform(
    grouped: Any,
    processor: Any,
    output: StructType | str,
    output_mode: str,
    time_mode: Any,
    initial: Any,
    event_time_column: str,
    *,
    pandas: bool,
) -> ProcessedStream | DataFrame:
    where = "transform_with_state_in_pandas" if pandas else "transform_with_state"
    rows = Grouped.of(grouped, where)
    if not isinstance(output_mode, str) or output_mode.lower() not in _OUTPUT_MODES:
        raise GraphError(f"{where}(outputMode={output_mode!r}): expected Append, Update or Complete")
    schema = _schema(output, where)
    operator = spark_processor(processor, time_mode=time_mode, pandas=pandas)
    first = None if initial is None else _initial(initial, rows, where)
    if event_time_column and event_time_column not in schema.names:
        raise GraphError(f"{where}(eventTimeColumnName={event_time_column!r}): the output has {schema.names}")
    watermark = rows.watermark()
    spark = rows.df.sparkSession
    if not rows.df.isStreaming:
        return processed_batch(operator, rows, first, schema)
    if operator.mode == "EventTime" and watermark is None:
        raise GraphError(
            f"{where}(timeMode='EventTime'): the DataFrame has no watermark; write df.withWatermark(column, delay)"
        )
    return ProcessedStream(spark, operator, rows, first, spark.createDataFrame([], schema), schema)


def _schema(output: StructType | str, where: str) -> StructType:
    if isinstance(output, StructType):
        return output
    try:
        return cast(StructType, StructType.fromDDL(output))
    except PySparkException as error:
        said = str(error).partition("\n")[0]
        raise GraphError(
            f"{where}(outputStructType={output!r}): expected columns such as 'id string, n long': {said}"
        ) from error


def _initial(initial: Any, rows: Grouped, where: str) -> Grouped:
    found = Grouped.of(initial, f"{where}(initialState=…)")
    if found.df.isStreaming:
        raise GraphError(f"{where}(initialState=…): expected a batch DataFrame, got a streaming one")
    types = [[df.schema[name].dataType for name in key] for df, key in ((rows.df, rows.key), (found.df, found.key))]
    if types[0] != types[1]:
        shown = [", ".join(kind.simpleString() for kind in kinds) for kinds in types]
        raise GraphError(f"{where}(initialState=…): it is grouped by ({shown[1]}), the stream by ({shown[0]})")
    return found
