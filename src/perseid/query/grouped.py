"""What a ``GroupedData`` says: its DataFrame, its key columns, and the watermark of that DataFrame.

Only public methods of Spark are asked, so that Spark Connect would do as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from perseid.duration import Duration
from perseid.errors import GraphError
from perseid.operators.event_time import EventTime

_DELAY = "spark.watermarkDelayMs"  # where withWatermark leaves it in the schema


@dataclass(frozen=True, slots=True)
class Grouped:
    """A DataFrame and the columns it is grouped by."""

    df: DataFrame
    key: tuple[str, ...]

    @classmethod
    def of(cls, grouped: Any, where: str) -> Grouped:
        """Raises ``GraphError`` for anything but the result of ``df.groupBy(columns)``."""
        if not isinstance(grouped, GroupedData) and not hasattr(grouped, "transformWithState"):
            raise GraphError(f"{where}: expected df.groupBy(…), got {type(grouped).__name__}")
        df: DataFrame = grouped._df
        names = grouped.agg(F.count(F.lit(1)).alias("n")).columns[:-1]
        by_lower = {name.lower(): name for name in df.columns}
        expressions = [name for name in names if name.lower() not in by_lower]
        if expressions or not names:
            found = f"the expression {expressions[0]!r}" if expressions else "no column"
            raise GraphError(
                f"{where}: groupBy has {found}; group by columns of the DataFrame: df.withColumn('key', …).groupBy('key')"
            )
        return cls(df, tuple(by_lower[name.lower()] for name in names))

    def watermark(self) -> EventTime | None:
        """The column and delay of ``withWatermark``."""
        for field in self.df.schema.fields:
            if _DELAY in field.metadata:
                return EventTime(field.name, Duration(int(field.metadata[_DELAY]) / 1_000))
        return None
