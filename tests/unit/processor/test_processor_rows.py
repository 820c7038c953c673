"""Rows and frames as a processor gets them and gives them back: the same as in Spark, whose own code is asked where it can be."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, PySparkTypeError, PySparkValueError
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.conversion import PandasToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema

from perseid.operators.values import values_of
from perseid.processor.frames import Frames, as_frames, frames_to_table
from perseid.processor.rows import as_rows, rows_to_table

TABLE = pa.table({"id": ["a", "b", "c"], "n": [1, None, 3], "count": [7, 8, 9], "_hidden": [True, False, None]})


def rename(row: Any) -> None:
    row.id = "b"


def test_rows_are_sparks_rows() -> None:
    rows = list(as_rows(TABLE)(0, 3))
    spark_row: Any = Row(*TABLE.column_names)
    assert rows == [spark_row(*row.values()) for row in TABLE.to_pylist()]
    first, theirs = rows[0], spark_row("a", 1, 7, True)
    assert isinstance(first, Row) and repr(first) == repr(theirs) and first.asDict() == theirs.asDict()
    assert (first.id, first["n"], first[2], first._hidden, "n" in first) == ("a", 1, 7, True, True)
    assert first.count(7) == 1  # a method of Row hides a column of its name
    for same in (pickle.loads(pickle.dumps(first)), copy.copy(first), copy.deepcopy(first)):
        assert type(same) is Row and same == first and same.__fields__ == theirs.__fields__
    wrong: list[Callable[[Any], Any]] = [lambda row: row.missing, lambda row: row["missing"], rename]
    for use in wrong:
        with pytest.raises(PySparkException) as ours:
            use(first)
        with pytest.raises(ours.type):
            use(theirs)


def test_of_two_columns_with_one_name_the_first_is_found_by_it() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    (row,) = as_rows(table)(0, 1)
    assert (row.n, row["n"], tuple(row)) == (1, 1, (1, 2))


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_dates_and_times_are_those_of_arrow(zone: str | None) -> None:
    ms = [0, None, 1_730_000_000_000, -1, 1_720_000_000_000]
    days = pa.array([dt.date(1900, 1, 1), None, dt.date(2024, 2, 29)])
    for column in (pa.array(ms, pa.timestamp("ms", zone)), pa.array([None], pa.timestamp("us", zone)), days):
        assert [repr(value) for value in values_of(column)] == [repr(value) for value in column.to_pylist()]


def test_rows_that_name_their_columns_otherwise_become_a_table_by_name() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64()), ("inner", pa.struct([("x", pa.int64())]))])
    unfinished: Any = Row("id", "n", "inner")
    rows = [
        Row(id="a", n=1, inner=Row(x=1)),
        Row(n=2, id="b", inner=None),
        Row(id="c", more=5),
        unfinished("d", 4),
    ]
    assert rows_to_table(rows, schema).to_pylist() == [
        {"id": "a", "n": 1, "inner": {"x": 1}},
        {"id": "b", "n": 2, "inner": None},
        {"id": "c", "n": None, "inner": None},
        {"id": "d", "n": 4, "inner": None},
    ]
    with pytest.raises(PySparkValueError, match="Expected Row objects, got a tuple"):
        rows_to_table([("a", 1)], schema)
    with pytest.raises(PySparkTypeError):
        rows_to_table([Row("a", "1", "2")], schema)  # without names


def test_frames_hold_what_sparks_frames_hold() -> None:
    table = pa.table(
        {
            "id": ["a", "a", "b"],
            "small": pa.array([1, 2, 3], pa.int16()),
            "ratio": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "day": [dt.date(2024, 1, 1)] * 3,
            "at": pa.array([0, 1_000, 2_000], pa.timestamp("us", "UTC")),
            "local": pa.array([0, None, 2_000], pa.timestamp("us")),
            "took": pa.array([0, 1_000, None], pa.duration("us")),
        }
    )
    (frame,) = as_frames(table, Frames(time_zone="Europe/Berlin"))(0, 2)
    rows = table.slice(0, 2).to_pandas(date_as_object=True)
    rows["at"] = rows["at"].dt.tz_convert("Europe/Berlin").dt.tz_localize(None)
    theirs = pd.DataFrame(list(rows.itertuples(index=False)))  # how Spark makes them
    pd.testing.assert_frame_equal(frame, theirs)


@pytest.mark.filterwarnings("error")
def test_a_frame_is_the_processors_own_to_change() -> None:
    cut = as_frames(pa.table({"id": ["a", "a", "b"], "n": [1, 2, 3]}), Frames())
    (mine,) = cut(0, 2)
    mine["n"] += 10
    mine.loc[0, "id"] = "changed"
    mine["more"] = 0
    (other,) = cut(2, 1)
    assert mine["n"].tolist() == [11, 12] and other.to_dict("list") == {"id": ["b"], "n": [3]}


def test_frames_have_at_most_as_many_rows_as_the_session_wants() -> None:
    cut = as_frames(pa.table({"n": range(10)}), Frames(rows=4))
    assert [frame["n"].tolist() for frame in cut(1, 6)] == [[1, 2, 3, 4], [5, 6]]
    assert [frame.index.tolist() for frame in cut(1, 6)] == [[0, 1, 2, 3], [0, 1]]


FRAMES = [
    pd.DataFrame({"id": ["a"], "n": [1]}),
    pd.DataFrame({"n": [2.0, None], "id": ["b", None]}),
    pd.DataFrame({"id": ["c"], "n": [2.7], "more": [0]}),
    pd.DataFrame({"id": ["d"], "n": ["12"]}),
    pd.DataFrame([["e", 5]]),
    pd.DataFrame({"id": pd.Series(["f"], dtype="category"), "n": [6]}),
    pd.DataFrame({"id": ["a"], "n": [1]}).iloc[:0],
    pd.DataFrame(),
    pd.DataFrame(index=[0]),
]


@pytest.mark.parametrize("times", [1, 3])
def test_frames_of_all_kinds_become_the_rows_that_spark_makes_of_them(times: int) -> None:
    schema = T.StructType([T.StructField("id", T.StringType()), T.StructField("n", T.LongType())])
    wrapped = T.StructType([T.StructField("_0", schema)])

    def by_spark(frame: pd.DataFrame) -> list[dict[str, Any]]:
        batch = PandasToArrowConversion.convert(
            [frame], wrapped, timezone="UTC", safecheck=False, arrow_cast=True, assign_cols_by_name=True
        )
        return [row["_0"] for row in batch.to_pylist()]

    given = [frame for frame in FRAMES for _ in range(times)]
    rows = frames_to_table(given, to_arrow_schema(schema), Frames()).to_pylist()
    assert rows == [row for frame in given for row in by_spark(frame)]
    kinds = [("a", 1), ("b", 2), (None, None), ("c", 2), ("d", 12), ("e", 5), ("f", 6)]
    assert set(kinds) == {(row["id"], row["n"]) for row in rows}


def test_a_frame_that_does_not_fit_is_refused() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    with pytest.raises(PySparkValueError, match="column 'n' with type 'object' to Arrow type 'int64'"):
        frames_to_table([pd.DataFrame({"id": ["a"], "n": ["x"]})], schema, Frames())
    with pytest.raises(PySparkValueError, match="column 'n' with type 'float64'"):
        frames_to_table([pd.DataFrame({"id": ["a"], "n": [1.5]})], schema, Frames(safely=True))
    with pytest.raises(KeyError, match="n"):
        frames_to_table([pd.DataFrame({"id": ["a"]})], schema, Frames())
    with pytest.raises(PySparkValueError, match=r"returns a pandas\.DataFrame"):
        frames_to_table([Row(id="a", n=1)], schema, Frames())
    decimal = pa.schema([("n", pa.decimal128(3))])
    some = frames_to_table([pd.DataFrame({"n": [5]})], decimal, Frames(decimals_of_integers=True))
    assert some.to_pylist() == [{"n": Decimal(5)}]
