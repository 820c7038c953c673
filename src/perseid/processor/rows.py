"""Rows between Arrow and the two forms that processors know: `Row` objects and pandas frames.

Whole columns are converted once per epoch; a key then gets a slice of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql import Row

if TYPE_CHECKING:
    import pandas as pd

Cut = Callable[[int, int], Iterator[Any]]
"""The rows from a start, so many of them, as the processor's iterator."""


def as_rows(table: pa.Table) -> Cut:
    """For `transformWithState`: an iterator of `Row` objects."""
    make, columns = Row(*table.column_names), [column.to_pylist() for column in table.columns]
    values = list(zip(*columns, strict=True))

    def cut(start: int, count: int) -> Iterator[Row]:
        return (make(*row) for row in values[start : start + count])

    return cut


def as_frames(table: pa.Table, time_zone: str) -> Cut:
    """For `transformWithStateInPandas`: an iterator with one frame; times without zone, in the session's."""
    whole = _to_pandas(table, time_zone)

    def cut(start: int, count: int) -> Iterator[pd.DataFrame]:
        frame = whole.iloc[start : start + count].copy()
        frame.index = range(count)
        return iter((frame,))

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


def frames_to_table(results: Iterable[Any], schema: pa.Schema, time_zone: str) -> pa.Table:
    """pandas frames as a table; columns by name, or by position where a frame has no names."""
    import pandas as pd

    tables = []
    for frame in results:
        if not isinstance(frame, pd.DataFrame):
            raise PySparkValueError(
                "Invalid return type. Please make sure that the UDF returns a "
                "pandas.DataFrame when the specified return type is StructType."
            )
        tables.append(_from_pandas(frame, schema, time_zone))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _to_pandas(table: pa.Table, time_zone: str) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(date_as_object=True, timestamp_as_object=False)
    for field in table.schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            frame[field.name] = frame[field.name].dt.tz_convert(time_zone).dt.tz_localize(None)
    return frame


def _from_pandas(frame: pd.DataFrame, schema: pa.Schema, time_zone: str) -> pa.Table:
    if any(not isinstance(name, str) for name in frame.columns):
        frame = frame.set_axis(schema.names, axis=1)
    arrays = []
    for field in schema:
        series = frame[field.name]
        if pa.types.is_timestamp(field.type) and field.type.tz is not None and series.dtype.kind == "M":
            series = series.dt.tz_localize(time_zone) if series.dt.tz is None else series
        arrays.append(pa.Array.from_pandas(series, type=field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
