"""Rows between Arrow and the two forms that processors know: `Row` objects and pandas frames.

Whole columns are converted once per epoch; a key then gets a slice of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql import Row

from perseid.byte_size import byte_size

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

Cut = Callable[[int, int], Iterator[Any]]
"""The rows from a start, so many of them, as the processor's iterator."""


def as_rows(table: pa.Table) -> Cut:
    """For `transformWithState`: an iterator of `Row` objects."""
    make, columns = Row(*table.column_names), [column.to_pylist() for column in table.columns]
    values = list(zip(*columns, strict=True))

    def cut(start: int, count: int) -> Iterator[Row]:
        return (make(*row) for row in values[start : start + count])

    return cut


@dataclass(frozen=True, slots=True)
class Frames:
    """How a session wants its pandas frames: the time zone of their times, how large one may be, how numbers are converted."""

    time_zone: str = "UTC"
    rows: int = 0  # of one frame at most; 0: no limit
    bytes: int = 0  # the same, about
    decimals_of_integers: bool = False

    @classmethod
    def of(cls, spark: SparkSession) -> Frames:
        """Those of a session."""
        conf = spark.conf
        return cls(
            conf.get("spark.sql.session.timeZone") or "UTC",
            max(0, int(conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)),
            _bytes(conf.get("spark.sql.execution.arrow.maxBytesPerBatch") or "-1"),
            conf.get("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false") == "true",
        )

    def rows_of(self, table: pa.Table) -> int:
        """How many rows of this table one frame has at most."""
        most = self.rows or table.num_rows
        if self.bytes:
            most = min(most, self.bytes * table.num_rows // max(1, table.nbytes))
        return max(1, most)


def as_frames(table: pa.Table, frames: Frames) -> Cut:
    """For `transformWithStateInPandas`: an iterator of frames; times without zone, in the session's."""
    whole, most = _to_pandas(table, frames.time_zone), frames.rows_of(table)

    def cut(start: int, count: int) -> Iterator[pd.DataFrame]:
        for first in range(start, start + count, most):
            frame = whole.iloc[first : min(first + most, start + count)].copy()
            frame.index = range(len(frame))
            yield frame

    return cut


def rows_to_table(results: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """`Row` objects as a table, as Spark makes one of them: by name, null where a name is missing."""
    dicts = []
    for row in results:
        if not isinstance(row, Row):
            raise PySparkValueError(
                f"Invalid return type. Expected Row objects, got a {type(row).__name__}: {row!r:.80}"
            )
        dicts.append(row.asDict(True))
    return pa.Table.from_pylist(dicts, schema=schema)


def frames_to_table(results: Iterable[Any], schema: pa.Schema, frames: Frames) -> pa.Table:
    """pandas frames as a table; columns by name, or by position where a frame has no names."""
    import pandas as pd

    tables = []
    for frame in results:
        if not isinstance(frame, pd.DataFrame):
            raise PySparkValueError(
                "Invalid return type. Please make sure that the UDF returns a "
                "pandas.DataFrame when the specified return type is StructType."
            )
        tables.append(_from_pandas(frame, schema, frames))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _to_pandas(table: pa.Table, time_zone: str) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(date_as_object=True, timestamp_as_object=False)
    for field in table.schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            frame[field.name] = frame[field.name].dt.tz_convert(time_zone).dt.tz_localize(None)
    return frame


def _from_pandas(frame: pd.DataFrame, schema: pa.Schema, frames: Frames) -> pa.Table:
    if any(not isinstance(name, str) for name in frame.columns):
        frame = frame.set_axis(schema.names, axis=1)
    arrays = []
    for field in schema:
        series = frame[field.name]
        if pa.types.is_timestamp(field.type) and field.type.tz is not None and series.dtype.kind == "M":
            series = series.dt.tz_localize(frames.time_zone) if series.dt.tz is None else series
        if frames.decimals_of_integers and pa.types.is_decimal(field.type) and series.dtype.kind in "iu":
            series = series.map(Decimal)
        try:
            arrays.append(pa.Array.from_pandas(series, type=field.type))
        except pa.ArrowException as error:
            raise PySparkValueError(
                f"Failed to convert the value of the column '{field.name}' with type '{series.dtype}' to Arrow type"
                f" '{field.type}': {error}"
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _bytes(amount: str) -> int:
    """A size in a setting of Spark's; 0 where there is no limit."""
    return 0 if amount.startswith("-") or amount == "0" else byte_size(amount)
