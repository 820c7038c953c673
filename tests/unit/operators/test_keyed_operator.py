"""Operators written for one key."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from perseid import Context, KeyedOperator, every, state
from perseid.errors import OperatorFailed
from perseid.operators.grouping import NAN
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch, state_bytes
from perseid.vocabulary import Epoch, OperatorName, ShardId


class Count(KeyedOperator):
    n: int = state(default=0)
    seen: list[int] = state(default_factory=list)

    def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
        self.n += rows.num_rows
        self.seen.extend(rows.column("v").to_pylist())
        return [{"key": key, "n": self.n, "seen": list(self.seen)}]


class Silent(KeyedOperator):
    seen: list[int] = state(default_factory=list)

    def process_key(self, key: Any, rows: pa.Table) -> None:
        self.seen.extend(rows.column("v").to_pylist())


class Expiring(Count):
    ttl = every(seconds=10)


def run(
    shard: Any, keys: list[Any], *, time_ms: int = 0, key: Any = ("k",), **columns: list[Any]
) -> list[dict[str, Any]]:
    table = pa.table({"k": keys, "v": list(range(len(keys)))} | columns)
    context = Context(epoch=Epoch(1), time_ms=time_ms, shard=ShardId(OperatorName("count"), 0), key=key)
    output = run_epoch(shard, {"rows": table}, context)
    return [] if output is None else output.to_pylist()


def test_every_key_has_its_own_fields_and_rows_in_order() -> None:
    shard = fresh(Count())
    assert run(shard, ["b", "a", "b", "b", "a"]) == [
        {"key": "b", "n": 3, "seen": [0, 2, 3]},
        {"key": "a", "n": 2, "seen": [1, 4]},
    ]
    assert run(shard, ["a"]) == [{"key": "a", "n": 3, "seen": [1, 4, 0]}]


def test_several_key_columns_make_a_tuple() -> None:
    shard = fresh(Silent())
    run(shard, ["x", "y", "x", "x"], key=("k", "day"), day=[1, 1, 2, 1])
    assert shard._keyed.values == {("x", 1): ([0, 3],), ("y", 1): ([1],), ("x", 2): ([2],)}
    assert list(shard._keyed.values) == [("x", 1), ("y", 1), ("x", 2)]


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2, 1],
        [True, False, True],
        [1.5, 2.5, 1.5],
        [b"x", b"y", b"x"],
        [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), datetime.date(2026, 1, 1)],
        ["a", None, "a"],
    ],
)
def test_keys_of_many_types_are_python_scalars(keys: list[Any]) -> None:
    shard = fresh(Count())
    run(shard, keys)
    assert {key: values[0] for key, values in shard._keyed.values.items()} == {keys[0]: 2, keys[1]: 1}


def test_nan_and_zero_are_one_key_each_also_after_a_restore() -> None:
    shard = fresh(Count())
    run(shard, [float("nan"), 0.0, -0.0, float("nan")])
    again = fresh(Count())
    restore(again, decode(encode(capture(shard))))
    run(again, [float("nan"), -0.0])
    assert len(again._keyed.values) == 2
    assert again._keyed.values[NAN][0] == 3
    assert again._keyed.values[0.0][0] == 3


def test_chunked_and_dictionary_columns_are_grouped_alike() -> None:
    shard = fresh(Count())
    one = pa.table({"k": ["a", "b"], "v": [0, 1]})
    rows = pa.concat_tables([one, one])
    context = Context(epoch=Epoch(1), time_ms=0, key=("k",))
    output = run_epoch(shard, {"rows": rows}, context)
    assert output is not None
    assert [row["n"] for row in output.to_pylist()] == [2, 2]
    encoded = rows.set_column(0, "k", rows.column("k").dictionary_encode())
    output = run_epoch(shard, {"rows": encoded}, Context(epoch=Epoch(2), time_ms=0, key=("k",)))
    assert output is not None
    assert [row["n"] for row in output.to_pylist()] == [4, 4]


def test_many_keys_are_grouped_as_few_are() -> None:
    """More than 65,536 keys take another way to sort."""
    count = 70_000
    shard = fresh(Count())
    found = run(shard, [n % count for n in range(2 * count)])
    assert [row["key"] for row in found] == list(range(count))
    assert all(row["seen"] == [row["key"], row["key"] + count] for row in found)


class Forgetful(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
        self.n += rows.num_rows
        self.context.timers.at_processing_time(key, 50)
        if self.n >= 3:
            self.context.forget()
        return [{"key": key, "n": self.n}]

    def on_key_timer(self, key: Any, timer: Any) -> list[dict[str, Any]]:
        return [{"key": key, "n": -self.n}]


def test_forgetting_drops_the_keys_state_and_timers() -> None:
    shard = fresh(Forgetful())
    assert run(shard, ["a", "a", "a", "b"]) == [{"key": "a", "n": 3}, {"key": "b", "n": 1}]
    assert run(shard, [], time_ms=60) == [{"key": "b", "n": -1}]
    assert run(shard, ["a"], time_ms=0) == [{"key": "a", "n": 1}]


class LastWord(KeyedOperator):
    def process_key(self, key: Any, rows: pa.Table) -> None:
        self.context.timers.at_processing_time(key, 10, name="first")
        self.context.timers.at_processing_time(key, 20, name="second")

    def on_key_timer(self, key: Any, timer: Any) -> list[dict[str, Any]]:
        self.context.forget()
        return [{"key": key, "timer": timer.name}]


def test_a_forgotten_key_has_no_further_timers_in_the_same_epoch() -> None:
    shard = fresh(LastWord())
    run(shard, ["a"])
    assert run(shard, [], time_ms=30) == [{"key": "a", "timer": "first"}]


def test_a_key_idle_for_the_time_to_live_starts_again() -> None:
    shard = fresh(Expiring())
    run(shard, ["a", "b"], time_ms=0)
    run(shard, ["b"], time_ms=5_000)
    assert [row["n"] for row in run(shard, ["a", "b"], time_ms=10_000)] == [1, 3]
    shard._keyed.check()


def test_the_time_to_live_survives_a_snapshot() -> None:
    shard = fresh(Expiring())
    run(shard, ["a"], time_ms=1_000)
    again = fresh(Expiring())
    restore(again, decode(encode(capture(shard))))
    assert run(again, ["x"], time_ms=10_999)
    assert "a" in again._keyed.values
    run(again, ["x"], time_ms=11_000)
    assert "a" not in again._keyed.values


def test_a_time_to_live_added_later_begins_at_the_restore() -> None:
    shard = fresh(Count())
    run(shard, ["a"], time_ms=1_000)
    again = fresh(Expiring())
    restore(again, decode(encode(capture(shard))))
    run(again, [], time_ms=50_000)
    assert "a" in again._keyed.values
    run(again, [], time_ms=60_000)
    assert "a" not in again._keyed.values


def test_time_that_runs_backwards_forgets_nothing_too_late_or_too_early() -> None:
    shard = fresh(Expiring())
    run(shard, ["a"], time_ms=100_000)
    run(shard, ["b"], time_ms=50_000)
    shard._keyed.check()
    run(shard, [], time_ms=109_999)
    assert set(shard._keyed.values) == {"a", "b"}
    run(shard, [], time_ms=110_000)
    assert not shard._keyed.values


class Reminder(KeyedOperator):
    ttl = every(seconds=10)
    n: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> None:
        self.n += rows.num_rows
        self.context.timers.at_processing_time(key, 25_000)

    def on_key_timer(self, key: Any, timer: Any) -> list[dict[str, Any]]:
        return [{"key": key, "n": self.n}]


def test_a_key_with_a_timer_to_come_is_not_forgotten() -> None:
    shard = fresh(Reminder())
    run(shard, ["a", "a"])
    assert run(shard, [], time_ms=15_000) == []
    assert run(shard, [], time_ms=25_000) == [{"key": "a", "n": 2}]
    run(shard, [], time_ms=35_000)
    assert not shard._keyed.values


class Generator(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> Iterator[dict[str, Any]]:
        for _ in range(rows.num_rows):
            self.n += 1
            yield {"key": key, "n": self.n}


def test_a_generator_works_on_its_own_keys_fields() -> None:
    shard = fresh(Generator())
    assert [row["n"] for row in run(shard, ["a", "a", "b"])] == [1, 2, 1]
    assert [row["n"] for row in run(shard, ["b", "a"])] == [2, 3]


class Join(KeyedOperator):
    left_rows: int = state(default=0)

    def process_key(self, key: Any, left: pa.Table, right: pa.Table) -> list[dict[str, Any]]:
        self.left_rows += left.num_rows
        return [{"key": key, "left": self.left_rows, "right": right.column("w").to_pylist()}]


def test_several_inputs_are_grouped_by_their_own_key_columns() -> None:
    shard = fresh(Join())
    inputs = {"left": pa.table({"id": ["a", "b", "a"]}), "right": pa.table({"order": ["c", "a"], "w": [1, 2]})}
    key = {"left": ("id",), "right": ("order",)}
    output = run_epoch(shard, inputs, Context(epoch=Epoch(1), time_ms=0, key=key))
    assert output is not None
    assert output.to_pylist() == [
        {"key": "a", "left": 2, "right": [2]},
        {"key": "b", "left": 1, "right": []},
        {"key": "c", "left": 0, "right": [1]},
    ]


class Fails(KeyedOperator):
    def process_key(self, key: Any, rows: pa.Table) -> None:
        if key == "bad":
            raise ValueError("no")


def test_a_failure_names_the_key() -> None:
    with pytest.raises(
        OperatorFailed, match="operator 'count', shard 0, epoch 1, key 'bad': process raised ValueError: no"
    ):
        run(fresh(Fails()), ["good", "bad"])


def test_a_key_that_cannot_be_one() -> None:
    with pytest.raises(OperatorFailed, match="key column 'k' has type list"):
        run(fresh(Count()), [[1], [2]])
    with pytest.raises(OperatorFailed, match=r"key \('word',\) is not among the columns \['k', 'v'\]"):
        run(fresh(Count()), ["a"], key=("word",))


def test_types_of_key_columns_are_kept_for_splitting() -> None:
    shard = fresh(Count())
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "v": [0, 1]})
    run_epoch(shard, {"rows": rows}, Context(epoch=Epoch(1), time_ms=0, key=("k",)))
    assert decode(encode(capture(shard)))["keyed"]["key_types"] == ("int32",)


def test_the_size_grows_with_the_number_of_keys() -> None:
    shard = fresh(Count())
    assert state_bytes(shard) == 0
    run(shard, list(range(1000)))
    small = state_bytes(shard)
    run(shard, list(range(10_000)))
    assert 5 < state_bytes(shard) / small < 20


def test_fields_in_another_order_are_restored_by_name() -> None:
    class Other(KeyedOperator):
        seen: list[int] = state(default_factory=list)
        n: int = state(default=0)
        process_key = Count.process_key

    shard, other = fresh(Count()), fresh(Other())
    run(shard, ["a", "a"])
    restore(other, capture(shard))
    assert run(other, ["a"]) == [{"key": "a", "n": 3, "seen": [0, 1, 0]}]
