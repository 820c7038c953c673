"""Random programs of state calls give the same on Spark's own tester and on Perseid.

Spark's ``TwsTester`` is the oracle: it shares no code with Perseid. Every row carries a program, a list of calls on the state
variables and timers of its key; the processor runs it and tells what each call returned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from perseid.processor.operator import spark_processor
from perseid.testing import OperatorHarness

NUMBER = StructType([StructField("n", IntegerType())])
WORD = StructType([StructField("w", StringType())])
OUTPUT = "key string, said string"


class Programs(StatefulProcessor):
    """Runs what its rows say."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", NUMBER)
        self.list = handle.getListState("list", NUMBER)
        self.map = handle.getMapState("map", WORD, NUMBER)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            said = [
                self.call(*step, now_ms=timerValues.getCurrentProcessingTimeInMs()) for step in json.loads(row.program)
            ]
            yield Row(key=key[0], said=json.dumps(said))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.list.appendValue((expiredTimerInfo.getExpiryTimeInMs() % 1000,))
        fired = ["fired", expiredTimerInfo.getExpiryTimeInMs(), timerValues.getCurrentProcessingTimeInMs()]
        yield Row(key=key[0], said=json.dumps([*fired, list(self.handle.listTimers())]))

    def call(self, what: str, number: int, *, now_ms: int) -> Any:
        word = ("abc"[number % 3],)
        match what:
            case "value.get":
                return [self.value.exists(), self.value.get()]
            case "value.update":
                return self.value.update((number,))
            case "value.clear":
                return self.value.clear()
            case "list.get":
                return [self.list.exists(), list(self.list.get())]
            case "list.put":
                return self.list.put([(number,), (number + 1,)])
            case "list.append":
                return self.list.appendValue((number,))
            case "list.extend":
                return self.list.appendList([(number,)] * 2)
            case "list.clear":
                return self.list.clear()
            case "map.get":
                return [self.map.containsKey(word), self.map.getValue(word)]
            case "map.update":
                return self.map.updateValue(word, (number,))
            case "map.remove":
                return self.map.removeKey(word)
            case "map.all":
                return [list(self.map.iterator()), list(self.map.keys()), list(self.map.values())]
            case "map.clear":
                return self.map.clear()
            case "timer.set":
                return self.handle.registerTimer(now_ms + 1 + number * 10)
            case "timer.delete":
                return [self.handle.deleteTimer(timer) for timer in list(self.handle.listTimers())[:1]]
            case _:
                return list(self.handle.listTimers())


class ProgramsInPandas(Programs):
    """The same with frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        programs = [Row(program=program) for frame in rows for program in frame["program"]]
        for row in super().handleInputRows(key, iter(programs), timerValues):
            yield pd.DataFrame([row.asDict()])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield pd.DataFrame([row.asDict()])


CALLS = [
    *("value.get", "value.update", "value.clear", "list.get", "list.put", "list.append", "list.extend", "list.clear"),
    *("map.get", "map.update", "map.remove", "map.all", "map.clear", "timer.set", "timer.delete", "timer.list"),
]
programs = st.lists(st.tuples(st.sampled_from(CALLS), st.integers(0, 6)), min_size=1, max_size=5)
epochs = st.lists(st.lists(st.tuples(st.sampled_from("xyz"), programs), max_size=4), min_size=1, max_size=6)


@pytest.mark.parametrize("pandas", [False, True], ids=["row", "pandas"])
@given(epochs=epochs)
def test_every_program_gives_what_sparks_own_tester_gives(epochs: list[list[tuple[str, Any]]], pandas: bool) -> None:
    kind = ProgramsInPandas if pandas else Programs
    ours = OperatorHarness(
        spark_processor(kind(), time_mode="ProcessingTime", pandas=pandas),
        key="key",
        schema="key string, program string",
        output=OUTPUT,
        shards=2,
        replay=True,
    )
    theirs = TwsTester(kind(), timeMode="ProcessingTime")
    theirs._usingPandas = pandas
    for number, rows in enumerate(epochs):
        now_ms = 1_000 + number * 25
        theirs._currentProcessingTimeMs = now_ms  # its setter fires timers first; Spark handles rows first
        said: list[Any] = []
        for key in dict.fromkeys(key for key, _ in rows):
            mine = [Row(key=key, program=json.dumps(program)) for k, program in rows if k == key]
            if pandas:
                said.append(theirs.testInPandas(key, pd.DataFrame([row.asDict() for row in mine])))
            else:
                said.append(theirs.test(key, mine))
        said.append(theirs._handleExpiredTimers())
        expected = [tuple(row) for part in said for row in (part.itertuples(index=False) if pandas else part)]
        came = ours.epoch([{"key": key, "program": json.dumps(program)} for key, program in rows], at_ms=now_ms)
        assert sorted((r["key"], r["said"]) for r in came) == sorted(expected)


def test_a_split_keeps_every_keys_state() -> None:
    whole = OperatorHarness(
        spark_processor(Programs()), key="key", schema="key string, program string", output=OUTPUT, replay=True
    )
    whole.epoch([{"key": k, "program": '[["value.update", 5], ["map.update", 1]]'} for k in "abcdefgh"])
    parts = whole.split(3)
    ask = '[["value.get", 0], ["map.get", 1]]'
    for part in (*parts, OperatorHarness.merge(parts)):
        held = part.state["records"]
        said = {r["key"]: r["said"] for r in part.epoch([{"key": k, "program": ask} for k in held])}
        assert said == dict.fromkeys(held, "[[true, [5]], [true, [1]]]")
    assert sorted(k for part in parts for k in part.state["records"]) == list("abcdefgh")
