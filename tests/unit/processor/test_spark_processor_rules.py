"""Spark's rules for a processor: phases, errors, time to live, late rows, values as Spark stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor

from perseid import App, event_time, every, sinks, sources
from perseid.errors import GraphError, OperatorFailed
from perseid.processor.operator import spark_processor
from perseid.processor.stored import StoredForm
from perseid.testing import OperatorHarness

NUMBER = T.StructType([T.StructField("n", T.LongType())])


class Calls(StatefulProcessor):
    """A processor made of functions, which notes the order in which it is called."""

    order: list[str] = []

    def __init__(self, init: Callable[..., Any], rows: Callable[..., Any], timer: Callable[..., Any] | None = None):
        self._init, self._rows, self._timer = init, rows, timer

    def init(self, handle: Any) -> None:
        self.handle = handle
        Calls.order.append("init")
        self.state = self._init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        Calls.order.append(f"rows of {key}")
        return iter(self._rows(self, key, list(rows), timerValues) or [])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        Calls.order.append(f"timer of {key}")
        return iter(self._timer(self, key, timerValues) if self._timer else [])

    def close(self) -> None:
        Calls.order.append("close")


def harness(
    processor: StatefulProcessor, time_mode: Any = "None", pandas: bool = False, **more: Any
) -> OperatorHarness:
    operator = spark_processor(processor, time_mode=time_mode, pandas=pandas)
    schema = more.pop("schema", "id string, n long")
    return OperatorHarness(operator, key="id", schema=schema, output="id string, n long", **more)


def a_value(handle: Any) -> Any:
    return handle.getValueState("n", NUMBER)


def test_every_epoch_has_a_fresh_copy_that_is_closed_at_the_end() -> None:
    Calls.order.clear()
    ran = harness(Calls(a_value, lambda self, key, rows, now: self.handle.registerTimer(5)), "ProcessingTime")
    ran.epoch([{"id": "a", "n": 1}, {"id": "b", "n": 1}], at_ms=1)
    ran.epoch(at_ms=10)
    assert Calls.order == [
        *("init", "rows of ('a',)", "rows of ('b',)", "close"),
        *("init", "timer of ('a',)", "timer of ('b',)", "close"),
    ]


def test_keys_come_in_their_order_null_first() -> None:
    Calls.order.clear()
    harness(Calls(a_value, lambda *_: None)).epoch([{"id": key, "n": 1} for key in ("b", None, "é", "a", "b", "Z")])
    assert [said for said in Calls.order if "rows" in said] == [
        f"rows of {(key,)}" for key in (None, "Z", "a", "b", "é")
    ]


@pytest.mark.parametrize(
    ("init", "rows", "said"),
    [
        (
            a_value,
            lambda self, *_: self.handle.registerTimer(1),
            "operation=register_timer with invalid timeMode=NoTime",
        ),
        (
            a_value,
            lambda self, *_: list(self.handle.listTimers()),
            "operation=list_timers with invalid timeMode=NoTime",
        ),
        (
            a_value,
            lambda self, *_: a_value(self.handle),
            "operation=get_value_state with invalid handle state=INITIALIZED",
        ),
        (a_value, lambda self, *_: self.state.update((1, 2)), "1 fields are required while 2 values are provided"),
        (lambda h: (a_value(h), a_value(h)), lambda *_: None, "Value state n already exists"),
        (lambda h: h.getValueState("n", NUMBER, 10), lambda *_: None, "Cannot use TTL for state=n in timeMode=NoTime"),
        (lambda h: h.getListState("n", NUMBER), lambda self, *_: self.state.put([]), "Cannot write empty list values"),
    ],
)
def test_what_spark_refuses_is_refused_in_its_words(init: Any, rows: Any, said: str) -> None:
    with pytest.raises(OperatorFailed, match=said):
        harness(Calls(init, rows)).epoch([{"id": "a", "n": 1}])


def test_what_is_no_processor_is_refused() -> None:
    with pytest.raises(GraphError, match="expected an object of a subclass of"):
        spark_processor(object())  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected one of None, ProcessingTime, EventTime"):
        spark_processor(Calls(a_value, lambda *_: None), time_mode="sometimes")  # type: ignore[arg-type]


def test_event_time_without_a_column_to_take_it_from_is_refused_before_the_start() -> None:
    app = App("app")
    rows = app.source("rows", sources.generator({"id": "id"}))
    with pytest.raises(GraphError, match="Calls has time_mode='EventTime' and would never see a watermark"):
        processor = spark_processor(Calls(a_value, lambda *_: None), time_mode="EventTime")
        rows.stateful("x", processor, key="id", output="id long").sink("out", sinks.noop())
        app.run()


def test_what_the_handle_does_not_have_is_named() -> None:
    with pytest.raises(
        OperatorFailed, match=r"StatefulProcessorHandle\.getQueryInfo: Perseid's handle has getValueState"
    ):
        harness(Calls(lambda handle: handle.getQueryInfo(), lambda *_: None)).epoch([{"id": "a", "n": 1}])


def test_values_live_as_long_as_they_may_and_are_removed_afterwards() -> None:
    def count(self: Any, key: Any, rows: list[Row], now: Any) -> list[Row]:
        before = self.state.get()
        self.state.update(((before[0] if before else 0) + len(rows),))
        return [Row(id=key[0], n=self.state.get()[0])]

    ran = harness(Calls(lambda h: h.getValueState("n", NUMBER, 100), count), "ProcessingTime", replay=True)
    assert ran.epoch([{"id": "a", "n": 1}], at_ms=1_000) == [{"id": "a", "n": 1}]
    assert ran.epoch([{"id": "a", "n": 1}], at_ms=1_050) == [{"id": "a", "n": 2}]
    assert ran.epoch([{"id": "a", "n": 1}], at_ms=1_149) == [{"id": "a", "n": 3}]  # each update lives anew
    assert ran.epoch([{"id": "a", "n": 1}], at_ms=1_249) == [{"id": "a", "n": 1}]
    ran.epoch(at_ms=1_350)
    assert ran.state["records"] == {}


def test_elements_of_a_list_expire_one_by_one() -> None:
    def append(self: Any, key: Any, rows: list[Row], now: Any) -> list[Row]:
        self.state.appendValue((rows[0].n,))
        return [Row(id=key[0], n=sum(n for (n,) in self.state.get()))]

    ran = harness(Calls(lambda h: h.getListState("n", NUMBER, 100), append), "ProcessingTime", replay=True)
    assert ran.epoch([{"id": "a", "n": 1}], at_ms=1_000) == [{"id": "a", "n": 1}]
    assert ran.epoch([{"id": "a", "n": 10}], at_ms=1_060) == [{"id": "a", "n": 11}]
    assert ran.epoch([{"id": "a", "n": 100}], at_ms=1_110) == [{"id": "a", "n": 110}]


def test_late_rows_are_those_up_to_the_watermark_of_the_epoch_before() -> None:
    def count(self: Any, key: Any, rows: list[Row], now: Any) -> list[Row]:
        return [Row(id=key[0], n=now.getCurrentWatermarkInMs() * 100 + len(rows))]

    ran = harness(Calls(a_value, count), "EventTime", event_time=event_time("n", delay=every(seconds=0.01)))
    assert ran.epoch([{"id": "a", "n": 30}]) == [{"id": "a", "n": 1}]
    assert ran.epoch([{"id": "a", "n": 5}]) == [{"id": "a", "n": 2001}]  # before the watermark, but not the one before
    assert ran.epoch([{"id": "a", "n": 20}, {"id": "a", "n": 21}]) == [{"id": "a", "n": 2001}]
    assert ran.late_rows == 1


def test_rows_by_name_with_nulls_where_a_name_is_missing() -> None:
    ran = harness(Calls(a_value, lambda self, key, rows, now: [Row(n=1, more=2), Row(id="x")]))
    assert ran.epoch([{"id": "a", "n": 1}]) == [{"id": None, "n": 1}, {"id": "x", "n": None}]


class Reuses(StatefulProcessor):
    """Returns one object again and again, with other values in it."""

    def __init__(self, given: Any, change: Callable[[Any, str], None]) -> None:
        self.given, self.change = given, change

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        self.change(self.given, key[0])
        yield self.given


@pytest.mark.parametrize(
    ("given", "change", "output"),
    [
        (pd.DataFrame({"id": ["-"]}), lambda frame, key: frame.__setitem__("id", [key]), "id string"),
        (pd.DataFrame({"id": ["-"]}), lambda frame, key: frame.id.to_numpy().__setitem__(0, key), "id string"),
        (Row(id=["-"]), lambda row, key: row.id.__setitem__(0, key), pa.schema([("id", pa.list_(pa.string()))])),
    ],
)
def test_what_is_returned_is_taken_as_it_is_then(given: Any, change: Any, output: Any) -> None:
    operator = spark_processor(Reuses(given, change), pandas=isinstance(given, pd.DataFrame))
    harness = OperatorHarness(operator, key="id", schema="id string", output=output)
    came = [row["id"] for row in harness.epoch([{"id": "a"}, {"id": "b"}])]
    assert came in (["a", "b"], [["a"], ["b"]])


def test_pandas_frames_in_and_out() -> None:
    class Sums(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", NUMBER)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            for frame in rows:
                frame["n"] += 0  # its own to change
                before = self.total.get()
                self.total.update((frame["n"].sum() + (before[0] if before else 0),))
            yield pd.DataFrame({"n": [self.total.get()[0]], "id": key})

    ran = harness(Sums(), pandas=True, replay=True)
    assert ran.epoch([{"id": "a", "n": 1}, {"id": "b", "n": 5}, {"id": "a", "n": 2}]) == [
        {"id": "a", "n": 3},
        {"id": "b", "n": 5},
    ]
    assert ran.epoch([{"id": "a", "n": 4}]) == [{"id": "a", "n": 7}]


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        (T.LongType(), np.int64(5), 5),
        (T.IntegerType(), 2**31, -(2**31)),
        (T.LongType(), 1.5, None),
        (T.DoubleType(), 1, None),
        (T.DoubleType(), np.float64(1.5), 1.5),
        (T.DecimalType(10, 2), Decimal("1.005"), Decimal("1.01")),
        (T.DecimalType(10, 2), 1, None),
        (T.StringType(), 7, "7"),
        (T.StringType(), True, "true"),
        (T.ArrayType(T.LongType()), (1, np.int32(2)), [1, 2]),
        (T.StructType([T.StructField("a", T.LongType())]), {"a": 3}, Row(a=3)),
    ],
)
def test_values_have_the_form_that_spark_would_have_stored(kind: T.DataType, given: Any, stored: Any) -> None:
    form = StoredForm(T.StructType([T.StructField("x", kind)]))
    assert form.store((given,), "Error") == (stored,)


def test_what_is_read_can_be_changed_without_changing_the_state() -> None:
    form = StoredForm(T.StructType([T.StructField("x", T.ArrayType(T.LongType()))]))
    stored = form.store(([1],), "Error")
    form.read(stored)[0].append(2)
    assert form.read(stored) == ([1],)
