"""Rows between Arrow and the pandas frames of ``transformWithStateInPandas``.

To make a frame costs a hundred times what its rows cost, so little is done frame by frame: an epoch is one frame of which a key
gets slices, and what the keys return is put together, column by column, before it is converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkTypeError, PySparkValueError

from perseid.byte_size import byte_size
from perseid.processor.rows import Cut

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

Columns = list[Any]  # NumPy arrays or extension arrays of pandas, in the order of the schema


@dataclass(frozen=True, slots=True)
class Frames:
    """How a session wants its pandas frames: the time zone of their times, how large one may be, how numbers are converted."""

    time_zone: str = "UTC"
    rows: int = 0  # of one frame at most; 0: no limit
    bytes: int = 0  # the same, about
    decimals_of_integers: bool = False
    safely: bool = False  # a number that does not fit is an error

    @classmethod
    def of(cls, spark: SparkSession) -> Frames:
        """Those of a session."""
        conf = spark.conf
        return cls(
            conf.get("spark.sql.session.timeZone") or "UTC",
            max(0, int(conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)),
            _bytes(conf.get("spark.sql.execution.arrow.maxBytesPerBatch") or "-1"),
            conf.get("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false") == "true",
            conf.get("spark.sql.execution.pandas.convertToArrowArraySafely", "false") == "true",
        )

    def rows_of(self, table: pa.Table) -> int:
        """How many rows of this table one frame has at most."""
        most = self.rows or table.num_rows
        if self.bytes:
            most = min(most, self.bytes * table.num_rows // max(1, table.nbytes))
        return max(1, most)


def as_frames(table: pa.Table, frames: Frames) -> Cut:
    """An iterator of frames; times without zone, in the session's. A frame is the processor's own to change."""
    whole, most = _to_pandas(table, frames.time_zone), frames.rows_of(table)
    make, blocks = type(whole)._from_mgr, whole._mgr  # ``iloc`` takes three times as long, and warns of a slice

    def cut(start: int, count: int) -> Iterator[pd.DataFrame]:
        for first in range(start, start + count, most):
            end = min(first + most, start + count)
            rows = blocks.get_slice(slice(first, end), axis=1)
            rows.axes[1] = _counted(end - first)
            yield make(rows, rows.axes)

    return cut


def frames_to_table(results: Iterable[Any], schema: pa.Schema, frames: Frames) -> pa.Table:
    """pandas frames as a table; columns by name, or by position where a frame has no names."""
    names = schema.names
    parts = [_columns(frame, names) for frame in results]
    tables = [_joined(list(alike), schema, frames) for _, alike in groupby(parts, _dtypes)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _columns(frame: Any, names: list[str]) -> Columns:
    """Copies of the columns of a frame, in this order; nulls of one without any."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise PySparkValueError(
            "Invalid return type. Please make sure that the UDF returns a "
            "pandas.DataFrame when the specified return type is StructType."
        )
    found = frame.columns.tolist()
    if not found:
        frame = frame.reindex(columns=names)
    elif found != names and any(isinstance(name, str) for name in found):
        frame = frame[names]
    elif found != names:
        frame = frame.iloc[:, list(range(len(names)))]
    return [column.copy() for column in frame._iter_column_arrays()]  # public methods take ten times as long


def _dtypes(columns: Columns) -> list[Any]:
    return [column.dtype for column in columns]


def _joined(parts: list[Columns], schema: pa.Schema, frames: Frames) -> pa.Table:
    """Frames with the same types as a table."""
    import pandas as pd

    arrays = []
    for field, pieces in zip(schema, zip(*parts, strict=True), strict=True):
        plain = isinstance(pieces[0], np.ndarray)
        series = pd.Series(np.concatenate(pieces)) if plain else pd.concat(list(map(pd.Series, pieces)))
        arrays.append(_to_arrow(series, field, frames))
    return pa.Table.from_arrays(arrays, schema=schema)


def _to_arrow(series: pd.Series[Any], field: pa.Field, frames: Frames) -> pa.Array:
    if pa.types.is_timestamp(field.type) and field.type.tz is not None and series.dtype.kind == "M":
        series = series.dt.tz_localize(frames.time_zone) if series.dt.tz is None else series
    if frames.decimals_of_integers and pa.types.is_decimal(field.type) and series.dtype.kind in "iu":
        series = series.map(Decimal)
    said = f"value of the column '{field.name}' with type '{series.dtype}' to"
    try:
        try:
            return pa.Array.from_pandas(series, type=field.type, safe=frames.safely)
        except pa.ArrowInvalid:
            return pa.Array.from_pandas(series).cast(field.type, safe=frames.safely)
    except TypeError as error:
        raise PySparkTypeError(
            f"Cannot convert the output {said} the specified return type of the column: '{field.type}': {error}"
        ) from error
    except ValueError as error:
        raise PySparkValueError(f"Failed to convert the {said} Arrow type '{field.type}': {error}") from error


def _to_pandas(table: pa.Table, time_zone: str) -> pd.DataFrame:
    """The rows with the types that Spark's frames have, whose values went through Python: 64 bits wide, times in nanoseconds."""
    frame: pd.DataFrame = table.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=True)
    wider = {name: f"{kind.kind}8" for name, kind in frame.dtypes.items() if kind.kind in "if" and kind.itemsize < 8}
    frame = frame.astype(wider).copy()  # one that may be written to
    for field in table.schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            frame[field.name] = frame[field.name].dt.tz_convert(time_zone).dt.tz_localize(None)
    return frame


@cache
def _counted(rows: int) -> pd.Index[Any]:
    import pandas as pd

    return pd.RangeIndex(rows)


def _bytes(amount: str) -> int:
    """A size in a setting of Spark's; 0 where there is no limit."""
    return 0 if amount.startswith("-") or amount == "0" else byte_size(amount)
