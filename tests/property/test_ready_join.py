"""Join against a plain oracle: any rows of both streams, epochs and times; scaled, saved and restored between epochs."""

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
from perseid.ready import Join
from perseid.testing import OperatorHarness

Row = dict[str, Any]
LEFT = pa.schema({"k": pa.string(), "at": pa.int64(), "n": pa.int64()})
RIGHT = pa.schema({"key": pa.string(), "at": pa.int64(), "m": pa.int64()})
KEY = {"left": "k", "right": "key"}

times = st.integers(0, 20).map(lambda n: n * 100)
rows = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), times), max_size=8)
epochs = st.lists(st.tuples(rows, rows, st.sampled_from(["", "saved", "split"])), max_size=6)
lengths = st.integers(1, 8).map(lambda n: Duration(n / 10))


def harness(how: Any, within: Duration, delay: Duration, shards: int = 1) -> OperatorHarness:
    return OperatorHarness(
        Join(within=within, how=how), key=KEY, inputs={"left": LEFT, "right": RIGHT}, replay=True, shards=shards,
        event_time=perseid.event_time("at", delay=delay),
    )  # fmt: skip


@given(epochs, st.sampled_from(["inner", "left", "outer"]), lengths, lengths, st.sampled_from([1, 3]))
def test_every_pair_comes_out_once_and_what_finds_none_when_its_time_is_over(
    came: list[Any], how: str, within: Duration, delay: Duration, shards: int
) -> None:
    joined = harness(how, within, delay, shards)
    left: list[Row] = []
    right: list[Row] = []
    newest: dict[str, int] = {}
    told: list[Row] = []
    alone: set[tuple[str, int]] = set()
    count = 0
    for new_left, new_right, then in came:
        watermark = min(newest.values()) - delay.ms if len(newest) == 2 else None
        new: dict[str, list[Row]] = {"left": [], "right": []}
        for side, some in (("left", new_left), ("right", new_right)):
            for key, at in some:
                count += 1
                names = ("k", "n") if side == "left" else ("key", "m")
                new[side].append({names[0]: key, "at": at, names[1]: count})
                newest[side] = max(at, newest.get(side, at))
        left += [row for row in new["left"] if watermark is None or row["at"] >= watermark]
        right += [row for row in new["right"] if watermark is None or row["at"] >= watermark]
        found = joined.epoch(left=new["left"], right=new["right"])
        told += found
        alone |= {("left", row["n"]) for row in found if row["m"] is None} | {
            ("right", row["m"]) for row in found if row["n"] is None
        }
        if watermark is not None and how != "inner":
            over = {row["n"] for row in left if row["at"] + within.ms < watermark}
            assert {n for side, n in alone if side == "left"} <= over, "not before its time is over"
        if then == "saved":
            joined.restore(joined.snapshot())
        elif then == "split":
            joined = OperatorHarness.merge(joined.split(3))
    told += joined.finish()
    pairs = [(a, b) for a in left for b in right
             if a["k"] is not None and a["k"] == b["key"] and abs(a["at"] - b["at"]) <= within.ms]  # fmt: skip
    wanted = [{"k": a["k"], "at": a["at"], "n": a["n"], "at_right": b["at"], "m": b["m"]} for a, b in pairs]
    if how != "inner":
        having = {a["n"] for a, _ in pairs}
        wanted += [
            {"k": a["k"], "at": a["at"], "n": a["n"], "at_right": None, "m": None} for a in left if a["n"] not in having
        ]
    if how == "outer":
        having = {b["m"] for _, b in pairs}
        wanted += [
            {"k": b["key"], "at": None, "n": None, "at_right": b["at"], "m": b["m"]}
            for b in right
            if b["m"] not in having
        ]
    assert Counter(tuple(sorted(row.items())) for row in told) == Counter(tuple(sorted(row.items())) for row in wanted)
    assert not joined.timers or all(timer.at_ms > 0 for timer in joined.timers)


def test_a_row_without_a_partner_comes_out_without_rows_by_a_timer() -> None:
    joined = harness("left", every(seconds=1), every(seconds=1))
    joined.epoch(left=[{"k": "a", "at": 1_000, "n": 1}], right=[])
    assert [timer[:3] for timer in joined.timers] == [("a", 2_001, "event")]
    assert joined.epoch(left=[{"k": "b", "at": 9_000, "n": 2}], right=[{"key": "b", "at": 9_000, "m": 3}])[0]["m"] == 3
    assert [row["n"] for row in joined.epoch()] == [1]


def test_rows_go_when_nothing_can_join_them() -> None:
    joined = harness("inner", every(seconds=1), every(seconds=1))
    for n in range(10):
        joined.epoch(left=[{"k": "a", "at": n * 10_000, "n": 1}], right=[{"key": "b", "at": n * 10_000, "m": 1}])
    contents = joined.state["contents"]
    assert [len(rows) for rows in contents.of.values()] == [2, 2]


def test_its_output_is_told_from_the_inputs() -> None:
    joined = harness("outer", every(seconds=1), every(seconds=1))
    told = Join(within=every(seconds=1))._output(
        {"left": LEFT, "right": RIGHT}, {"left": ("k",), "right": ("key",)}, None
    )
    joined.epoch(left=[{"k": "a", "at": 0, "n": 1}], right=[{"key": "b", "at": 0, "m": 1}])
    joined.finish()
    assert joined.output is not None and joined.output.schema == told


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(GraphError, match="expected a duration such as every"):
        Join(within=0)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected one of 'inner', 'left', 'outer'"):
        Join(within=every(seconds=1), how="right")  # type: ignore[arg-type]
    twice = {
        "left": pa.schema({"k": pa.int64(), "n": pa.int64(), "n_right": pa.int64()}),
        "right": pa.schema({"k": pa.int64(), "n": pa.int64()}),
    }
    with pytest.raises(OperatorMistake, match="have the name 'n_right'"):
        Join(within=every(seconds=1))._output(twice, {"left": ("k",), "right": ("k",)}, None)
    with pytest.raises(OperatorMistake, match="the right stream has no event-time column 'at'"):
        Join(within=every(seconds=1))._output(
            {"left": LEFT, "right": pa.schema({"key": pa.string()})}, {"left": ("k",), "right": ("key",)},
            perseid.event_time("at", delay=every(seconds=1)),
        )  # fmt: skip
