"""What operators return, made into a table and fitted to the declared output."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from perseid.errors import OperatorFailed
from perseid.operators.output import fit
from perseid.state.results import Results, as_table

SCHEMA = pa.schema({"word": pa.string(), "n": pa.int64()})


def test_a_table_that_fits_is_passed_on_as_it_is() -> None:
    table = pa.table({"word": ["a"], "n": [1]})
    assert fit(table, SCHEMA, "count") is table


def test_columns_are_put_in_order_and_cast_where_nothing_is_lost() -> None:
    table = pa.table({"n": pa.array([1.0, 2.0]), "word": pa.array(["a", "b"], pa.large_string())})
    fitted = fit(table, SCHEMA, "count")
    assert fitted.schema.equals(SCHEMA)
    assert fitted.to_pylist() == [{"word": "a", "n": 1}, {"word": "b", "n": 2}]


def test_a_column_of_nothing_but_nulls_fits_any_type() -> None:
    assert fit(pa.table({"word": [None], "n": [None]}), SCHEMA, "count").schema.equals(SCHEMA)


def test_naive_times_are_taken_as_utc() -> None:
    schema = pa.schema({"ts": pa.timestamp("us", tz="UTC")})
    moment = datetime.datetime(2026, 1, 1)
    assert fit(pa.table({"ts": [moment]}), schema, "x").column("ts")[0].as_py() == moment.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"word": ["a"]}, "missing 'n'"),
        ({"word": ["a"], "n": [1], "m": [2]}, "not declared 'm'"),
        ({"wrd": ["a"], "n": [1]}, "missing 'word'; not declared 'wrd'"),
        ({"word": ["a"], "n": [1.5]}, "column 'n' was declared int64, came as double"),
        ({"word": ["a"], "n": ["x"]}, "column 'n' was declared int64, came as string"),
        ({"word": ["a"], "n": [[1]]}, "column 'n' was declared int64, came as list"),
    ],
)
def test_what_does_not_fit_is_told_with_what_was_declared_and_what_came(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(OperatorFailed) as caught:
        fit(pa.table(table), SCHEMA, "count")
    text = str(caught.value)
    assert text.startswith("operator 'count': ")
    assert problem in text
    assert "Declared: (word string, n int64). Came: (" in text


def test_a_column_given_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["word", "n", "n"])
    with pytest.raises(OperatorFailed, match="twice 'n'"):
        fit(table, SCHEMA, "count")


def test_nulls_where_none_are_allowed_are_refused() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    assert fit(pa.table({"n": [1]}), schema, "count").schema.equals(schema)
    with pytest.raises(OperatorFailed, match="declared not null, but 1 of 2 values are null"):
        fit(pa.table({"n": [1, None]}), schema, "count")


@pytest.mark.parametrize(
    "result",
    [
        pa.table({"a": [1, 2]}),
        pa.record_batch({"a": [1, 2]}),
        [{"a": 1}, {"a": 2}],
        ({"a": n} for n in (1, 2)),
        pd.DataFrame({"a": [1, 2]}),
    ],
)
def test_everything_that_may_be_returned_becomes_a_table(result: Any) -> None:
    table = as_table(result, "x")
    assert table is not None
    assert table.column("a").to_pylist() == [1, 2]


@pytest.mark.parametrize("result", [None, [], (), iter(())])
def test_nothing_stays_nothing(result: Any) -> None:
    assert as_table(result, "x") is None


def test_rows_with_different_columns_lose_none() -> None:
    table = as_table([{"a": 1}, {"b": 2}, {"a": 3, "b": 4}], "x")
    assert table is not None
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}, {"a": 3, "b": 4}]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"a": 1}, r"got a dict; return \[row\] for one row, or pa.table\(columns\)"),
        ("text", "got a str"),
        (7, "got a int"),
        ([1, 2], "expected rows as mappings of column to value, got a int: 1"),
        ([{"a": 1}, {"a": "x"}], "its rows cannot become columns"),
    ],
)
def test_other_results_are_refused_with_a_hint(result: Any, message: str) -> None:
    with pytest.raises(OperatorFailed, match=message):
        as_table(result, "x")


def test_results_keep_their_order_whatever_their_kind() -> None:
    results = Results("x")
    results.add([{"a": 1}])
    results.add(pa.table({"a": [2.5]}))
    results.add(None)
    results.add([{"a": 3}])
    table = results.table()
    assert table is not None
    assert table.column("a").to_pylist() == [1, 2.5, 3]


def test_results_that_do_not_go_together_are_told() -> None:
    results = Results("x")
    results.add(pa.table({"a": [1]}))
    results.add(pa.table({"a": ["b"]}))
    with pytest.raises(OperatorFailed, match=r"do not fit together: \(a int64\) and \(a string\)"):
        results.table()


def test_the_index_of_a_pandas_frame_is_a_column_only_if_it_has_a_name() -> None:
    filtered = pd.DataFrame({"word": ["a", "b"], "n": [1, 2]})[lambda frame: frame["n"] > 1]
    assert as_table(filtered, "count").to_pylist() == [{"word": "b", "n": 2}]  # type: ignore[union-attr]
    summed = pd.DataFrame({"word": ["a", "a"], "n": [1, 2]}).groupby("word").sum()
    assert as_table(summed, "count").to_pylist() == [{"n": 3, "word": "a"}]  # type: ignore[union-attr]
