"""Top-k against a plain oracle: any rows, epochs and windows; scaled, saved and restored between epochs."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid
from perseid import GraphError, OperatorMistake, every
from perseid.ready import TopK
from perseid.testing import OperatorHarness

Row = dict[str, Any]
SCHEMA = pa.schema({"k": pa.string(), "at": pa.int64(), "x": pa.float64(), "w": pa.string(), "n": pa.int64()})
EVENT_TIME = perseid.event_time("at", delay=every(hours=1))  # nothing is late, nothing closes before the end

rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from("abc"),
        "at": st.integers(0, 30).map(lambda n: n * 100),
        "x": st.one_of(st.none(), st.integers(-5, 5).map(float), st.just(math.nan)),
        "w": st.one_of(st.none(), st.text("xyz", max_size=3)),
    }
)
epochs = st.lists(st.tuples(st.lists(rows, max_size=30), st.sampled_from(["", "saved", "split"])), max_size=5)


def best(rows: list[Row], by: str, k: int, largest: bool) -> list[Row]:
    some = [row for row in rows if row[by] is not None and row[by] == row[by]]
    return sorted(some, key=lambda row: row[by], reverse=largest)[:k]  # stable in both directions


@given(epochs, st.sampled_from(["x", "w"]), st.integers(1, 4), st.booleans(), st.sampled_from([None, 1_000]))
def test_the_best_rows_of_each_key(came: list[Any], by: str, k: int, largest: bool, size_ms: int | None) -> None:
    window = None if size_ms is None else perseid.tumbling(milliseconds=size_ms)
    harness = OperatorHarness(
        TopK(k, by, largest=largest, window=window), key="k", event_time=None if window is None else EVENT_TIME, schema=SCHEMA
    )  # fmt: skip
    everything: list[Row] = []
    for new, then in came:
        new = [{**row, "n": len(everything) + at} for at, row in enumerate(new)]
        everything += new
        told = harness.epoch(new)
        if window is None:
            check(told, {(key,): best([r for r in everything if r["k"] == key], by, k, largest)
                         for key in {row["k"] for row in new if row[by] is not None and row[by] == row[by]}})  # fmt: skip
        if then == "saved":
            harness.restore(harness.snapshot())
        elif then == "split":
            harness = OperatorHarness.merge(harness.split(3))
    if size_ms is not None:
        windows: dict[Any, list[Row]] = defaultdict(list)
        for row in everything:
            windows[row["k"], row["at"] // size_ms * size_ms].append(row)
        found = {window: best(some, by, k, largest) for window, some in windows.items()}
        check(harness.finish(), {window: some for window, some in found.items() if some})


def check(told: list[Row], wanted: dict[Any, list[Row]]) -> None:
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in told:
        key = (row["k"], row["window_start"]) if "window_start" in row else (row["k"],)
        found[key].append((row["rank"], row["n"]))
    assert found == {key: [(n + 1, row["n"]) for n, row in enumerate(some)] for key, some in wanted.items()}


def test_its_output_is_told_from_the_input() -> None:
    operator = TopK(2, "x", window=perseid.tumbling(seconds=1), early=True)
    told = operator._output({"rows": SCHEMA}, {"rows": ("k",)}, EVENT_TIME)
    harness = OperatorHarness(operator, key="k", event_time=EVENT_TIME, output=told)
    harness.epoch([{"k": "a", "at": 1, "x": 1.0, "w": None, "n": 1}])
    assert harness.output is not None and harness.output.schema == told
    assert told.names == ["k", "window_start", "window_end", "rank", "at", "x", "w", "n", "result"]


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(GraphError, match="expected a number of rows, 1 or more"):
        TopK(0, "x")
    with pytest.raises(GraphError, match="expected the name of the column to compare"):
        TopK(1, "")
    with pytest.raises(OperatorMistake, match="no column by='z'"):
        TopK(1, "z")._output({"rows": SCHEMA}, {"rows": ("k",)}, None)
    with pytest.raises(OperatorMistake, match="its input has a column 'rank'"):
        TopK(1, "rank")._output({"rows": pa.schema({"k": pa.int64(), "rank": pa.int64()})}, {"rows": ("k",)}, None)
