"""Deduplicate against a plain oracle: any rows, epochs and times; scaled, saved and restored between epochs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perseid
from perseid import GraphError, every
from perseid.duration import Duration
from perseid.ready import Deduplicate
from perseid.testing import OperatorHarness

Row = dict[str, Any]
SCHEMA = pa.schema({"k": pa.int64(), "at": pa.int64(), "n": pa.int64()})

rows = st.fixed_dictionaries({"k": st.integers(0, 3), "at": st.integers(0, 30).map(lambda n: n * 100)})
epochs = st.lists(st.tuples(st.lists(rows, max_size=40), st.sampled_from(["", "saved", "split"])), max_size=6)
times = st.integers(1, 12).map(lambda n: Duration(n / 10))


@given(epochs, st.one_of(st.none(), times), times, st.sampled_from([None, "event", "epoch"]))
def test_repeats_are_dropped(came: list[Any], within: Duration | None, delay: Duration, by: str | None) -> None:
    if within is None:
        by = None
    event_time = perseid.event_time("at", delay=delay) if by == "event" else None
    harness = OperatorHarness(Deduplicate(within), key="k", event_time=event_time, schema=SCHEMA, replay=True)
    until: dict[int, int] = {}
    newest: int | None = None
    count = 0
    for number, (new, then) in enumerate(came):
        new = [{**row, "n": count + at} for at, row in enumerate(new)]
        count += len(new)
        watermark = newest - delay.ms if newest is not None and by == "event" else None
        wanted = []
        for row in new:
            newest = max(row["at"], row["at"] if newest is None else newest)
            at = row["at"] if by == "event" else number * 200
            if (watermark is not None and at < watermark) or at < until.get(row["k"], -1):
                continue
            until[row["k"]] = at + within.ms if within is not None else 10**9
            wanted.append(row)
        assert harness.epoch(new, at_ms=number * 200) == wanted
        if then == "saved":
            harness.restore(harness.snapshot())
        elif then == "split":
            harness = OperatorHarness.merge(harness.split(3))


def test_many_rows_of_one_key_far_apart_in_one_epoch_all_pass() -> None:
    once = OperatorHarness(
        Deduplicate(every(seconds=1)), key="k", event_time=perseid.event_time("at", delay=every(seconds=1))
    )
    told = once.epoch([{"k": 1, "at": n * 500} for n in range(100)])
    assert [row["at"] for row in told] == [n * 1_000 for n in range(50)]


def test_keys_are_forgotten_when_nothing_can_repeat_them() -> None:
    once = OperatorHarness(
        Deduplicate(every(seconds=1)), key="k", event_time=perseid.event_time("at", delay=every(seconds=1))
    )
    for n in range(8):
        once.epoch(pa.table({"k": range(n * 1_000, n * 1_000 + 1_000), "at": [n * 5_000] * 1_000}))
    assert len(once.state["contents"].keys) < 5_000


@pytest.mark.parametrize("within", [0, 5, "1h"])
def test_what_is_no_duration_is_refused(within: Any) -> None:
    with pytest.raises(GraphError, match="expected a duration such as every"):
        Deduplicate(within)
