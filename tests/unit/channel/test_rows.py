"""Rows are put in order by their place, and given to the input they belong to."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from perseid.channel.rows import INPUT, ORDER, in_order, input_column, split_inputs


@given(st.lists(st.lists(st.integers(0, 1_000), unique=True, max_size=8), max_size=6))
def test_runs_in_any_order_come_out_by_place(runs: list[list[int]]) -> None:
    places = [(i << 33) + p for i, run in enumerate(runs) for p in sorted(run)]
    shuffled = [p for i in sorted(range(len(runs)), key=lambda i: -i) for p in places if p >> 33 == i]
    table = pa.table({ORDER: pa.array(shuffled, pa.int64()), "v": pa.array(shuffled, pa.int64())})
    assert in_order(table)["v"].to_pylist() == places


@given(st.permutations(list(range(12))))
def test_any_permutation_is_put_in_order(places: list[int]) -> None:
    table = pa.table({ORDER: pa.array(places, pa.int64()), "v": pa.array(places, pa.int64())})
    assert in_order(table)["v"].to_pylist() == sorted(places)


def test_rows_of_several_inputs_are_told_apart() -> None:
    left = pa.array([{"a": 1}, None, {"a": 2}], pa.struct({"a": pa.int64()}))
    right = pa.array([None, {"b": "x"}, None], pa.struct({"b": pa.string()}))
    table = pa.table({INPUT: pa.array([0, 1, 0], pa.int32()), input_column(0): left, input_column(1): right})
    split = split_inputs(table, ("left", "right"))
    assert split["left"].to_pylist() == [{"a": 1}, {"a": 2}]
    assert split["right"].to_pylist() == [{"b": "x"}]


def test_no_rows_of_several_inputs_are_empty_tables_with_their_columns() -> None:
    left, right = pa.struct({"a": pa.int64()}), pa.struct({"b": pa.string()})
    empty = pa.schema([(INPUT, pa.int32()), (input_column(0), left), (input_column(1), right)])
    split = split_inputs(empty.empty_table(), ("left", "right"))
    assert split["left"].schema.names == ["a"] and split["right"].num_rows == 0
