"""Sort against a plain oracle: any rows, epochs and times; scaled, saved and restored between epochs. Split: whose rows are whose."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid
from perseid import App, GraphError, every
from perseid.duration import Duration
from perseid.ready import Sort
from perseid.testing import OperatorHarness

SCHEMA = pa.schema({"k": pa.string(), "at": pa.int64(), "n": pa.int64()})
rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30).map(lambda n: n * 100)), max_size=10)
epochs = st.lists(st.tuples(rows, st.sampled_from(["", "saved", "split"])), max_size=6)


@given(epochs, st.integers(1, 8).map(lambda n: Duration(n / 10)))
def test_rows_come_out_in_order_when_their_time_is_over(came: list[Any], delay: Duration) -> None:
    event_time = perseid.event_time("at", delay=delay)
    harness = OperatorHarness(Sort(), key="k", event_time=event_time, schema=SCHEMA, replay=True)
    newest: int | None = None
    kept: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    count = 0
    for some, then in came:
        watermark = None if newest is None else newest - delay.ms
        new = [{"k": key, "at": at, "n": count + n} for n, (key, at) in enumerate(some)]
        count += len(new)
        newest = max([row["at"] for row in new] + ([] if newest is None else [newest]), default=None)
        kept += [row for row in new if watermark is None or row["at"] >= watermark]
        found = harness.epoch(new)
        assert all(watermark is not None and row["at"] < watermark for row in found)
        told += found
        if then == "saved":
            harness.restore(harness.snapshot())
        elif then == "split":
            harness = OperatorHarness.merge(harness.split(3))
    told += harness.finish()
    assert sorted(row["n"] for row in told) == sorted(row["n"] for row in kept)
    for key in "abc":  # rows of equal time and different keys may change places when a shard is split
        assert [r["n"] for r in told if r["k"] == key] == [
            r["n"] for r in sorted(kept, key=lambda r: r["at"]) if r["k"] == key
        ]
    assert [row["at"] for row in told] == sorted(row["at"] for row in told)


def test_a_row_comes_out_without_rows_by_a_timer() -> None:
    harness = OperatorHarness(Sort(), key="k", event_time=perseid.event_time("at", delay=every(seconds=1)))
    harness.epoch([{"k": "a", "at": 1_000}, {"k": "a", "at": 5_000}])
    assert [timer[:3] for timer in harness.timers] == [("a", 1_001, "event")]
    assert harness.epoch() == [{"k": "a", "at": 1_000}]
    assert [timer[:3] for timer in harness.timers] == [("a", 5_001, "event")]


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(GraphError, match="it sorts by event time"):
        OperatorHarness(Sort(), key="k")
    stream = App("a").source("rows", perseid.sources.generator({"k": "id"}))
    with pytest.raises(GraphError, match="expected conditions by name"):
        stream.split("parts", {})
    with pytest.raises(GraphError, match="expected conditions by name"):
        stream.split("parts", {"large": 5})  # type: ignore[dict-item]
