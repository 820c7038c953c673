"""How Spark cuts rows into Arrow batches on their way to Python: by their number alone, where no row can be large.

Spark bounds a batch by rows and by bytes, and to know the bytes it adds up the buffers of all columns after every row: a fifth of all the
time Linear Road spent in the JVM. Rows of nothing but numbers, dates and the like are bounded by their number well enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DayTimeIntervalType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)  # Spark does not look at sizes then
_SMALL = (
    NumericType, BooleanType, DateType, TimestampType, TimestampNTZType, DayTimeIntervalType, YearMonthIntervalType
)  # fmt: skip


def bound_by_rows(own: SparkSession, schemas: Iterable[StructType]) -> None:
    """Leave the bound of bytes out of Perseid's own session if all streams have small rows."""
    if all(isinstance(field.dataType, _SMALL) for schema in schemas for field in schema):
        own.conf.set(LIMIT, NO_LIMIT)
