"""The result of ``transform_with_state``: what a user of Spark knows as a streaming DataFrame, as far as it can be had.

It has ``writeStream``, ``schema``, ``columns``, ``isStreaming`` and the methods of a DataFrame that look at one row at a time, such
as ``select`` and ``filter``. They are tried on an empty DataFrame at once, so a mistake shows where it is made, and run on every epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from perseid.errors import GraphError
from perseid.query.grouped import Grouped
from perseid.query.writer import ProcessedStreamWriter

Step = Callable[[DataFrame], DataFrame]

ROW_BY_ROW = frozenset({
    "select", "selectExpr", "filter", "where", "withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed",
    "drop", "dropna", "fillna", "replace", "toDF", "alias", "transform", "hint", "to", "withMetadata",
})  # fmt: skip
"""The methods of a DataFrame that a processed stream has."""


@dataclass(frozen=True, eq=False)
class ProcessedStream:
    """Made by ``transform_with_state``; ``writeStream`` starts it."""

    spark: SparkSession
    operator: Any  # a SparkProcessor
    rows: Grouped
    initial: Grouped | None
    shown: DataFrame  # empty, with the columns that come out
    output: StructType  # of the processor
    steps: tuple[tuple[str, Step], ...] = ()

    isStreaming = True

    @property
    def schema(self) -> StructType:
        """The columns that come out."""
        return self.shown.schema

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return self.shown.columns

    @property
    def sparkSession(self) -> SparkSession:
        """The session of the DataFrame."""
        return self.spark

    def printSchema(self, level: int | None = None) -> None:
        """Print the columns as a tree."""
        self.shown.printSchema(level)

    @property
    def writeStream(self) -> ProcessedStreamWriter:
        """Where it goes, and how it is started: the methods of Spark's ``DataStreamWriter``."""
        return ProcessedStreamWriter(self)

    def __getattr__(self, name: str) -> Any:
        if name in ROW_BY_ROW:
            return lambda *args, **kwargs: self._step(name, args, kwargs)
        if name.startswith("_") or not hasattr(DataFrame, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise GraphError(
            f"transform_with_state(…).{name}: the result has writeStream and {', '.join(sorted(ROW_BY_ROW))};"
            f" for anything else use foreachBatch, or build a perseid.App with perseid.spark_processor(…)"
        )

    def __getitem__(self, item: Any) -> Any:
        return self.shown[item]

    def __repr__(self) -> str:
        return f"ProcessedStream[{', '.join(f'{f.name}: {f.dataType.simpleString()}' for f in self.schema.fields)}]"

    def _step(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ProcessedStream:
        def step(df: DataFrame) -> DataFrame:
            done: DataFrame = getattr(df, name)(*args, **kwargs)
            return done

        return replace(self, shown=step(self.shown), steps=(*self.steps, (name, step)))
