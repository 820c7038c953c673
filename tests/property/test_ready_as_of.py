"""As-of join and lookup against plain oracles: any rows of both streams, epochs and times; scaled, saved and restored between epochs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid
from perseid import GraphError, OperatorMistake, every
from perseid.duration import Duration
from perseid.ready import AsOf, Lookup
from perseid.testing import OperatorHarness

Row = dict[str, Any]
LEFT = pa.schema({"k": pa.string(), "at": pa.int64(), "n": pa.int64()})
RIGHT = pa.schema({"key": pa.string(), "at": pa.int64(), "m": pa.int64()})
KEY = {"left": "k", "right": "key"}
INPUTS = {"left": LEFT, "right": RIGHT}

times = st.integers(0, 20).map(lambda n: n * 100)
some = st.lists(st.tuples(st.sampled_from("abc"), times), max_size=8)
epochs = st.lists(st.tuples(some, some, st.sampled_from(["", "saved", "split"])), max_size=6)
lengths = st.integers(1, 8).map(lambda n: Duration(n / 10))


def rows(came: list[tuple[str, int]], key: str, number: str, count: int) -> list[Row]:
    return [{key: k, "at": at, number: count + n} for n, (k, at) in enumerate(came)]


def carried_on(harness: OperatorHarness, then: str) -> OperatorHarness:
    if then == "saved":
        harness.restore(harness.snapshot())
    return OperatorHarness.merge(harness.split(3)) if then == "split" else harness


@given(epochs, st.one_of(st.none(), lengths), lengths, st.sampled_from([1, 3]))
def test_each_row_comes_out_once_with_the_newest_at_its_time(
    came: list[Any], within: Duration | None, delay: Duration, shards: int
) -> None:
    harness = OperatorHarness(
        AsOf(within=within),
        key=KEY,
        inputs=INPUTS,
        replay=True,
        shards=shards,
        event_time=perseid.event_time("at", delay=delay),
    )
    left: list[Row] = []
    right: list[Row] = []
    newest: dict[str, int] = {}
    told: list[Row] = []
    for number, (new_left, new_right, then) in enumerate(came):
        watermark = min(newest.values()) - delay.ms if len(newest) == 2 else None
        new = {"left": rows(new_left, "k", "n", number * 100), "right": rows(new_right, "key", "m", number * 100)}
        for name, listed in new.items():
            for row in listed:
                newest[name] = max(row["at"], newest.get(name, row["at"]))
        left += [row for row in new["left"] if watermark is None or row["at"] >= watermark]
        right += [row for row in new["right"] if watermark is None or row["at"] >= watermark]
        found = harness.epoch(left=new["left"], right=new["right"])
        assert all(watermark is not None and row["at"] < watermark for row in found), "not before its time is over"
        told += found
        harness = carried_on(harness, then)
    told += harness.finish()
    wanted = []
    for row in left:
        fit = [other for other in right if other["key"] == row["k"] and other["at"] <= row["at"]
               and (within is None or row["at"] - other["at"] <= within.ms)]  # fmt: skip
        best = max(fit, key=lambda other: (other["at"], other["m"]), default={"at": None, "m": None})
        wanted.append({**row, "at_right": best["at"], "m": best["m"]})
    assert Counter(tuple(sorted(row.items())) for row in told) == Counter(tuple(sorted(row.items())) for row in wanted)


@given(epochs, st.sampled_from([1, 3]))
def test_a_lookup_gives_what_came_last(came: list[Any], shards: int) -> None:
    harness = OperatorHarness(Lookup(), key=KEY, inputs=INPUTS, replay=True, shards=shards)
    last: dict[str, Row] = {}
    for number, (new_left, new_right, then) in enumerate(came):
        left, right = rows(new_left, "k", "n", number * 100), rows(new_right, "key", "m", number * 100)
        last |= {row["key"]: row for row in right}
        none = {"at": None, "m": None}
        wanted = [
            {**row, "at_right": last.get(row["k"], none)["at"], "m": last.get(row["k"], none)["m"]} for row in left
        ]
        found = harness.epoch(left=left, right=right)
        assert sorted(found, key=lambda row: row["n"]) == wanted
        harness = carried_on(harness, then)


def test_of_rows_that_nobody_needs_only_the_newest_of_each_key_stays() -> None:
    harness = OperatorHarness(
        AsOf(), key=KEY, inputs=INPUTS, event_time=perseid.event_time("at", delay=every(seconds=1))
    )
    for n in range(20):
        harness.epoch(left=[{"k": "a", "at": n * 5_000, "n": n}], right=[{"key": "a", "at": n * 5_000, "m": n}])
    assert {name: len(kept) for name, kept in harness.state["contents"].of.items()} == {"left": 2, "right": 3}


def test_their_output_is_told_from_the_inputs() -> None:
    told = Lookup()._output(INPUTS, {"left": ("k",), "right": ("key",)}, None)
    assert told.names == ["k", "at", "n", "at_right", "m"]
    harness = OperatorHarness(Lookup(), key=KEY, inputs=INPUTS)
    harness.epoch(left=[{"k": "a", "at": 0, "n": 1}], right=[])
    assert harness.output is not None and harness.output.schema == told


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(GraphError, match="expected a duration such as every"):
        AsOf(within=0)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected what to put behind names"):
        Lookup(suffix="")
    with pytest.raises(GraphError, match="it goes by event time"):
        OperatorHarness(AsOf(), key=KEY, inputs=INPUTS)
    with pytest.raises(OperatorMistake, match="the right stream has no event-time column"):
        AsOf()._output(
            {"left": LEFT, "right": pa.schema({"key": pa.string()})}, {"left": ("k",), "right": ("key",)},
            perseid.event_time("at", delay=every(seconds=1)),
        )  # fmt: skip
