"""Event time: late rows and the newest time seen."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from perseid import Context, Operator, event_time, every, state
from perseid.errors import GraphError, OperatorFailed
from perseid.state.operator_state import fresh, run_epoch
from perseid.vocabulary import Epoch


class Collect(Operator):
    seen: list[Any] = state(default_factory=list)

    def process(self, rows: pa.Table) -> None:
        self.seen += rows.column("n").to_pylist()


WHEN = event_time("ts", delay=every(seconds=10))


def run(times: pa.Array, watermark_ms: int | None) -> tuple[list[Any], Context]:
    shard = fresh(Collect())
    context = Context(epoch=Epoch(1), time_ms=0, watermark_ms=watermark_ms, event_time=WHEN)
    run_epoch(shard, {"rows": pa.table({"ts": times, "n": list(range(len(times)))})}, context)
    return shard.seen, context


def test_rows_before_the_watermark_are_dropped_and_counted() -> None:
    seen, context = run(pa.array([999, 1000, 2000, 0]), 1000)
    assert seen == [1, 2]
    assert context.late_rows == 2
    assert context.max_event_time_ms == {"rows": 2000}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_timestamps_of_any_unit_and_zone_are_milliseconds(unit: str, zone: str | None) -> None:
    moments = [datetime.datetime(1970, 1, 1, 0, 0, second) for second in (1, 2, 3)]
    times = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, tz=zone))
    seen, context = run(times, 2000)
    assert seen == [1, 2]
    assert context.max_event_time_ms == {"rows": 3000}


def test_a_row_within_the_watermarks_millisecond_is_compared_exactly() -> None:
    seen, context = run(pa.array([1_999_999, 2_000_000, 2_000_001], pa.timestamp("us")), 2000)
    assert seen == [1, 2]
    assert context.max_event_time_ms == {"rows": 2000}


def test_times_before_1970_are_rounded_down() -> None:
    _, context = run(pa.array([-1], pa.timestamp("us")), None)
    assert context.max_event_time_ms == {"rows": -1}


def test_without_a_watermark_nothing_is_late() -> None:
    seen, context = run(pa.array([5, 1]), None)
    assert (seen, context.late_rows, context.max_event_time_ms) == ([0, 1], 0, {"rows": 5})


def test_a_null_event_time_is_never_late() -> None:
    seen, context = run(pa.array([None, 1, 3000], pa.int64()), 2000)
    assert (seen, context.late_rows) == ([0, 2], 1)
    seen, context = run(pa.array([None], pa.int64()), 2000)
    assert (seen, context.max_event_time_ms) == ([0], {})


def test_no_rows_have_no_event_time() -> None:
    seen, context = run(pa.array([], pa.int64()), 1000)
    assert (seen, context.max_event_time_ms) == ([], {})


def test_inputs_without_the_column_pass() -> None:
    class Two(Operator):
        def process(self, left: pa.Table, right: pa.Table) -> pa.Table:
            return pa.table({"n": [left.num_rows, right.num_rows]})

    context = Context(epoch=Epoch(1), time_ms=0, watermark_ms=10, event_time=WHEN)
    inputs = {"left": pa.table({"ts": [1, 20]}), "right": pa.table({"x": [1]})}
    output = run_epoch(fresh(Two()), inputs, context)
    assert output is not None
    assert output.column("n").to_pylist() == [1, 1]
    assert (context.late_rows, context.max_event_time_ms) == (1, {"left": 20})


def test_a_missing_or_unfit_column_is_named() -> None:
    with pytest.raises(OperatorFailed, match="has type string; expected a timestamp, or a long of milliseconds"):
        run(pa.array(["noon"]), None)
    context = Context(epoch=Epoch(1), time_ms=0, event_time=WHEN)
    with pytest.raises(OperatorFailed, match="expected the event-time column 'ts'"):
        run_epoch(fresh(Collect()), {"rows": pa.table({"n": [1]})}, context)


def test_a_wrong_declaration_is_refused() -> None:
    with pytest.raises(GraphError, match="expected the name of a column"):
        event_time("", delay=every(seconds=1))
    with pytest.raises(GraphError, match="expected a duration"):
        event_time("ts", delay=10)  # type: ignore[arg-type]
