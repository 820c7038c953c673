"""State of a processor whose next version declares its variables otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor

from perseid.errors import OperatorFailed
from perseid.processor.operator import spark_processor
from perseid.testing import OperatorHarness

N, NAME = T.StructField("n", T.IntegerType()), T.StructField("name", T.StringType())
NARROW, WIDE = (
    T.StructType([N, NAME]),
    T.StructType([NAME, T.StructField("n", T.LongType()), T.StructField("new", T.LongType())]),
)


class Holds(StatefulProcessor):
    """Has one variable and says what is in it."""

    def __init__(self, declare: Callable[[Any], Any], write: Callable[[Any], Any] = lambda variable: None):
        self._declare, self._write = declare, write

    def init(self, handle: Any) -> None:
        self.variable = self._declare(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        self._write(self.variable)
        ways = [way for way in ("get", "iterator") if hasattr(self.variable, way)]
        found = getattr(self.variable, ways[0])() if ways else None
        yield Row(said=repr(list(found) if isinstance(found, Iterator) else found))


def said_after(first: Holds, second: Holds) -> str:
    """What the second says about the state that the first left."""

    def made(processor: Holds) -> OperatorHarness:
        operator = spark_processor(processor, time_mode="ProcessingTime")
        return OperatorHarness(operator, key="id", schema="id string", output="said string", replay=False)

    earlier, later = made(first), made(second)
    earlier.epoch([{"id": "a"}], at_ms=1_000)
    later.restore(earlier.snapshot())
    (row,) = later.epoch([{"id": "a"}], at_ms=1_001)
    return str(row["said"])


def test_columns_are_found_by_name_and_new_ones_are_null() -> None:
    first = Holds(lambda h: h.getValueState("v", NARROW), lambda v: v.update((5, "five")))
    assert said_after(first, Holds(lambda h: h.getValueState("v", WIDE))) == "('five', 5, None)"
    just_n = T.StructType([T.StructField("n", T.DoubleType())])
    assert said_after(first, Holds(lambda h: h.getValueState("v", just_n))) == "(5.0,)"


def test_lists_and_maps_are_converted_too_and_keep_their_time_to_live() -> None:
    listed = Holds(lambda h: h.getListState("l", NARROW, 100), lambda v: v.put([(1, "a"), (2, "b")]))
    assert said_after(listed, Holds(lambda h: h.getListState("l", WIDE, 100))) == "[('a', 1, None), ('b', 2, None)]"
    key = T.StructType([NAME])
    mapped = Holds(lambda h: h.getMapState("m", key, NARROW), lambda v: v.updateValue(("k",), (1, "a")))
    assert said_after(mapped, Holds(lambda h: h.getMapState("m", key, WIDE))) == "[(('k',), ('a', 1, None))]"


def test_a_variable_that_is_deleted_first_begins_anew() -> None:
    def anew(handle: Any) -> Any:
        handle.deleteIfExists("v")
        return handle.getListState("v", WIDE)

    first = Holds(lambda h: h.getValueState("v", NARROW), lambda v: v.update((5, "five")))
    assert said_after(first, Holds(anew)) == "[]"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (lambda h: h.getListState("v", NARROW), r"INVALID_VARIABLE_TYPE_CHANGE\] Cannot change v to ListState"),
        (lambda h: h.getValueState("v", NARROW, 100), "SCHEMA_EVOLUTION.*a time to live was added"),
        (
            lambda h: h.getValueState("v", T.StructType([T.StructField("name", T.LongType())])),
            "column 'name' was string",
        ),
        (
            lambda h: h.getValueState("v", T.StructType([T.StructField("n", T.ShortType())])),
            "Schema evolution is not possible for state variable v: column 'n' was int and cannot become smallint",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused(second: Callable[[Any], Any], why: str) -> None:
    first = Holds(lambda h: h.getValueState("v", NARROW), lambda v: v.update((5, "five")))
    with pytest.raises(OperatorFailed, match=why):
        said_after(first, Holds(second))
