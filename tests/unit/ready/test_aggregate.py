"""Aggregates: what comes out of them and in which order, what is refused and how, what is kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import perseid
from perseid import App, GraphError, OperatorFailed, OperatorMistake, agg, every
from perseid.errors import GraphChanged
from perseid.ready import Aggregate, EachRow
from perseid.state.operator_state import fresh
from perseid.testing import OperatorHarness

EVENT_TIME = perseid.event_time("at", delay=every(seconds=1))
TEN = perseid.tumbling(seconds=10)
COUNT = {"n": agg.count()}


def harness(operator: Aggregate, **more: Any) -> OperatorHarness:
    return OperatorHarness(operator, key="k", event_time=operator.event_time(EVENT_TIME), replay=True, **more)


def rows(*times: int, k: str = "a") -> list[dict[str, Any]]:
    return [{"k": k, "at": at} for at in times]


def test_a_window_is_told_once_when_the_watermark_passes_its_end() -> None:
    clicks = harness(Aggregate(COUNT, window=TEN))
    assert clicks.epoch(rows(1_000, 9_999)) == []
    assert clicks.epoch(rows(11_000)) == []
    assert clicks.epoch(rows(12_000)) == [{"k": "a", "window_start": 0, "window_end": 10_000, "n": 2}]
    assert clicks.finish() == [{"k": "a", "window_start": 10_000, "window_end": 20_000, "n": 2}]
    assert clicks.epoch() == []


def test_a_window_is_told_without_rows_by_a_timer() -> None:
    clicks = harness(Aggregate(COUNT, window=TEN))
    clicks.epoch(rows(1_000))
    assert [timer[:3] for timer in clicks.timers] == [("a", 10_000, "event")]
    clicks.epoch(rows(25_000, k="b"))
    assert [row["window_end"] for row in clicks.epoch()] == [10_000]
    assert [timer[:3] for timer in clicks.timers] == [("b", 30_000, "event")]


def test_the_timer_of_a_window_that_is_corrected_fires_when_the_window_closes() -> None:
    clicks = harness(Aggregate(COUNT, window=TEN, late=every(seconds=5)))
    clicks.epoch(rows(1_000, 2_000, 11_000))
    assert clicks.timers[0].at_ms == 5_000, "the watermark of the operator is 5 s behind"
    assert [(row["window_end"], row["n"], row["result"]) for row in clicks.epoch()] == [(10_000, 2, "final")]
    assert [(row["n"], row["result"]) for row in clicks.epoch(rows(9_000))] == [(3, "corrected")]
    assert clicks.epoch(rows(20_000)) == []
    clicks.epoch(rows(9_500))
    assert clicks.late_rows == 1, "its window is gone"


def test_results_come_by_window_and_key_whatever_the_order_of_rows() -> None:
    table = pa.table({"k": ["c", "a", "b", "a", "c"], "at": [1, 11_000, 2, 3, 12_000]})
    one, other = (OperatorHarness(Aggregate(COUNT, window=TEN), key="k", event_time=EVENT_TIME) for _ in range(2))
    one.epoch(table)
    other.epoch(table.take(pa.array([4, 2, 0, 1, 3])))
    told = one.finish()
    assert told == other.finish()
    assert [(row["window_end"], row["k"]) for row in told] == [
        (10_000, "a"), (10_000, "b"), (10_000, "c"), (20_000, "a"), (20_000, "c"),
    ]  # fmt: skip


def test_a_row_without_an_event_time_is_in_no_window_and_is_counted() -> None:
    clicks = harness(Aggregate(COUNT, window=TEN), schema="k string, at long")
    clicks.epoch([{"k": "a", "at": None}, {"k": "a", "at": 5}])
    assert [row["n"] for row in clicks.finish()] == [1]
    assert clicks.late_rows == 1


def test_several_key_columns_and_nan_as_a_key() -> None:
    table = pa.table({"k": ["a", "a", None, None], "f": [math.nan, math.nan, -0.0, 0.0]})
    counts = OperatorHarness(Aggregate(COUNT), key=("k", "f"))
    told = counts.epoch(table)
    assert sorted((str(row["k"]), str(row["f"]), row["n"]) for row in told) == [("None", "0.0", 2), ("a", "nan", 2)]
    assert {row["n"] for row in OperatorHarness.merge(counts.split(4)).epoch(table)} == {4}


def test_the_time_of_a_window_is_of_the_type_of_the_event_time() -> None:
    kind = pa.timestamp("us", "Europe/Berlin")
    table = pa.table({"k": ["a"], "at": pa.array([1_500_000], kind)})
    operator = Aggregate(COUNT, window=TEN)
    clicks = OperatorHarness(operator, key="k", event_time=EVENT_TIME)
    clicks.epoch(table)
    clicks.finish()
    assert clicks.output is not None and clicks.output.schema.field("window_end").type == kind
    assert operator._output({"rows": table.schema}, {"rows": ("k",)}, EVENT_TIME) == clicks.output.schema


def test_output_is_told_from_the_input() -> None:
    values = {
        "n": agg.count(), "i": agg.sum("i"), "f": agg.sum("f"), "d": agg.sum("d"), "m": agg.mean("d"), "lo": agg.min("s"),
        "hi": agg.max("day"), "first": agg.first("i"), "kinds": agg.distinct("s"), "q": agg.quantile("i", 0.5),
        "own": agg.function(len, "s", type=pa.int16()),
    }  # fmt: skip
    schema = pa.schema(
        {"k": pa.string(), "at": pa.int64(), "i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(8, 2), "s": pa.string(),
         "day": pa.date32()}
    )  # fmt: skip
    operator = Aggregate(values, window=TEN, early=True)
    told = operator._output({"rows": schema}, {"rows": ("k",)}, EVENT_TIME)
    assert {field.name: str(field.type) for field in told} == {
        "k": "string", "window_start": "int64", "window_end": "int64", "n": "int64", "i": "int64", "f": "double",
        "d": "decimal128(18, 2)", "m": "double", "lo": "string", "hi": "date32[day]", "first": "int32", "kinds": "int64",
        "q": "double", "own": "int16", "result": "string",
    }  # fmt: skip
    sums = harness(operator, schema=schema)
    sums.epoch(pa.table({name: pa.array([None if name not in ("k", "at") else {"k": "a", "at": 1}[name]], schema.field(name).type)
                         for name in schema.names}))  # fmt: skip
    sums.finish()
    assert sums.output is not None and sums.output.schema == told
    row = sums.output.to_pylist()[0]
    assert (row["n"], row["kinds"], row["own"]) == (1, 0, 0)
    assert all(row[name] is None for name in ("i", "f", "d", "m", "lo", "hi", "first", "q"))


def test_sums_of_large_integers_are_exact() -> None:
    big = 2**53 + 1
    assert (
        OperatorHarness(Aggregate({"s": agg.sum("x")}), key="k").epoch([{"k": 1, "x": big}, {"k": 1, "x": 2}])[0]["s"]
        == big + 2
    )


@pytest.mark.parametrize("window", [None, perseid.count_window(4, slide=2)])
def test_a_sum_that_does_not_fit_a_long_is_refused(window: Any) -> None:
    row, message = {"k": 1, "x": 2**62}, r"sum\('x'\): a sum is too large for a long: cast the column to decimal"
    sums = OperatorHarness(Aggregate({"s": agg.sum("x")}, window=window), key="k")
    with pytest.raises(OperatorFailed, match=message):
        sums.epoch([row, row])
    sums.epoch([row])
    sums.epoch([{"k": 1, "x": -(2**62)}])
    with pytest.raises(OperatorFailed, match=message):
        for _ in range(4):
            sums.epoch([row])


def test_nan_is_no_value_for_min_and_max() -> None:
    values = {"lo": agg.min("x"), "hi": agg.max("x"), "sum": agg.sum("x")}
    told = OperatorHarness(Aggregate(values), key="k").epoch(
        [{"k": 1, "x": math.nan}, {"k": 1, "x": 3.0}, {"k": 2, "x": math.nan}]
    )
    assert [(row["lo"], row["hi"], math.isnan(row["sum"])) for row in told] == [(3.0, 3.0, True), (None, None, True)]


def test_sessions_that_new_rows_join_are_one_with_all_they_had() -> None:
    values = {"n": agg.count(), "kinds": agg.distinct("x"), "median": agg.quantile("x", 0.5)}
    clicks = harness(Aggregate(values, window=perseid.session(gap=every(milliseconds=100))))
    clicks.epoch([{"k": "a", "at": at, "x": x} for at, x in ((0, 1), (150, 2), (1_000, 9))])
    clicks.epoch([{"k": "a", "at": at, "x": x} for at, x in ((80, 5), (900, 9))])
    told = [(row["window_start"], row["window_end"], row["n"], row["kinds"], row["median"]) for row in clicks.finish()]
    assert told == [(0, 250, 3, 3, 2.0), (900, 1_000, 1, 1, 9.0), (1_000, 1_100, 1, 1, 9.0)]


def test_keys_without_an_open_window_are_forgotten() -> None:
    operator = fresh(Aggregate(COUNT, window=TEN))
    clicks = OperatorHarness(operator, key="k", event_time=EVENT_TIME)
    for n in range(12):
        clicks.epoch(pa.table({"k": np.arange(4_000) + n * 4_000, "at": np.full(4_000, n * 10_000)}))
    contents = clicks.state["contents"]
    assert len(contents.keys) < 30_000
    clicks.epoch(pa.table({"k": [47_999], "at": [110_001]}))
    assert {row["k"]: row["n"] for row in clicks.finish()}[47_999] == 2


def test_state_of_other_values_is_refused_after_a_change_of_code() -> None:
    old, new = fresh(Aggregate(COUNT)), fresh(Aggregate({"n": agg.sum("x")}))
    OperatorHarness(Aggregate(COUNT), key="k")
    old.contents = old._empty()
    new.contents = old.contents
    old._check_state()
    with pytest.raises(GraphChanged, match=r"n=count\(\); now it would be of None, n=sum\('x'\)"):
        new._check_state()


def test_a_column_that_changes_its_type_is_refused() -> None:
    sums = OperatorHarness(Aggregate({"s": agg.max("x")}), key="k")
    sums.epoch([{"k": 1, "x": 1}])
    with pytest.raises(OperatorMistake, match="column 'x' was int64"):
        sums.epoch(pa.table({"k": [1], "x": ["one"]}))


def test_what_a_function_of_the_user_returns_must_be_of_its_type() -> None:
    operator = Aggregate(
        {"s": agg.function(lambda values: "text", "x", type=pa.int64())}, window=perseid.count_window(1)
    )
    with pytest.raises(OperatorFailed, match="do not become int64"):
        OperatorHarness(operator, key="k").epoch([{"k": 1, "x": 1}])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: perseid.tumbling(seconds=0), r"tumbling\(\.\.\.\): expected a window of at least a millisecond"),
        (lambda: perseid.tumbling(seconds=-1), "at least a millisecond"),
        (lambda: perseid.sliding(seconds=10, every=every(seconds=20)), "at most the length of the window"),
        (lambda: perseid.sliding(seconds=10, every=5), "expected a duration"),  # type: ignore[arg-type]
        (lambda: perseid.session(gap=5), "expected a duration"),  # type: ignore[arg-type]
        (lambda: perseid.count_window(0), "expected a number of rows, 1 or more"),
        (lambda: perseid.count_window(5, slide=6), "from 1 to 5"),
        (lambda: agg.sum(""), "expected the name of a column"),
        (lambda: agg.quantile("x", 95), "expected a share from 0 to 1"),
        (lambda: agg.function("mean", "x", type=pa.int64()), "expected a function"),  # type: ignore[arg-type]
        (lambda: agg.function(len, "x", type="long"), "expected a type of Arrow"),  # type: ignore[arg-type]
        (lambda: Aggregate({}), "expected aggregates by column"),
        (lambda: Aggregate({"n": "count"}), r"values\['n'\] is 'count': expected one of perseid\.agg: count,"),  # type: ignore[dict-item]
        (lambda: Aggregate({"n": agg.count}), "expected one of perseid.agg"),  # type: ignore[dict-item]
        (lambda: Aggregate(COUNT, window=10), r"expected perseid\.tumbling\(seconds=10\)"),  # type: ignore[arg-type]
        (lambda: Aggregate({"p": agg.quantile("x", 0.5)}), "would grow for good: give it a window="),
        (lambda: EachRow({"kinds": agg.distinct("x")}), "needs all values of a key for every row"),
        (lambda: Aggregate(COUNT, early=True), "expected a window of time"),
        (lambda: Aggregate(COUNT, window=perseid.session(gap=every(seconds=1)), late=every(seconds=1)), "longer delay="),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_where_it_is_written(make: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        make()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"s": agg.sum("word")}, r"values\['s'\]: sum\('word'\): column 'word' has type string; expected a number"),
        ({"s": agg.sum("x")}, r"values\['s'\]: sum\('x'\): no such column; its input has \['word', 'many'\]"),
        ({"s": agg.min("many")}, "a type that has an order"),
        ({"s": agg.distinct("many")}, "no list, map or struct"),
        ({"word": agg.count()}, "two columns of its output have the name 'word'"),
    ],
)  # fmt: skip
def test_columns_that_a_function_cannot_take_are_refused_before_the_start(values: Any, said: str) -> None:
    schema = pa.schema({"word": pa.string(), "many": pa.list_(pa.int64())})
    with pytest.raises(OperatorMistake, match=said):
        Aggregate(values)._output({"rows": schema}, {"rows": ("word",)}, None)


def test_a_window_of_time_without_event_time_is_a_mistake_of_the_graph() -> None:
    app = App("clicks")
    stream = app.source("rows", perseid.sources.generator({"k": "id", "at": "id"}))
    stream.aggregate("n", key="k", values=COUNT, window=TEN)
    with pytest.raises(GraphError, match="operator 'n': a window of time needs an event time"):
        _ = app.graph
