"""State cut by key and put together again is the same state; and the parts go on as the whole would have (S2)."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid import KeyedOperator, Operator, every, state
from perseid.errors import OperatorFailed
from perseid.state.partition import merge_state, obstacles, partition_processing_state
from perseid.state.shard_state import ShardState
from perseid.state.slots import slot_of
from perseid.testing import OperatorHarness
from perseid.vocabulary import SLOTS, Epoch, SlotRange


class Ledger(KeyedOperator):
    """Fields, timers of both kinds, a time to live: all a key can have."""

    ttl = every(milliseconds=400)
    n: int = state(default=0)
    log: list[int] = state(default_factory=list)

    def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
        for value in rows["value"].to_pylist():
            self.n += 1
            self.log.append(value)
            if value % 3 == 0:
                self.context.timers.at_processing_time(key, self.context.time_ms + value, name=str(value))
            if value % 7 == 0:
                self.context.forget()
        return [{"key": str(key), "n": self.n, "log": str(self.log)}]

    def on_key_timer(self, key: Any, timer: Any) -> list[dict[str, Any]]:
        self.n += 100
        return [{"key": str(key), "n": self.n, "log": timer.name}]


class Columns(Operator):
    """Dicts by key of several classes, and a field that says itself how it is cut."""

    sums: dict[int, int] = state(default_factory=dict)
    last: OrderedDict[int, int] = state(default_factory=OrderedDict)
    seen: list[tuple[int, int]] = state(
        default_factory=list,
        split=lambda seen, part: [pair for pair in seen if part.holds(pair[0])],
        merge=lambda parts: [pair for part in parts for pair in part],
    )
    rows: int = state(default=0, split=lambda rows, part: rows if part.index == 0 else 0, merge=sum)

    def process(self, rows: pa.Table) -> pa.Table:
        keys, values = rows["key"].to_numpy(), rows["value"].to_pylist()
        for key, value in zip(keys, values, strict=True):  # NumPy's integers as keys, as vectorised code has them
            self.sums[key] = self.sums.get(key, 0) + value
            self.last[int(key)] = value
            self.seen.append((int(key), value))
            self.context.timers.at_processing_time(int(key), self.context.time_ms + value)
            self.rows += 1
        return pa.table({"key": [int(k) for k in keys], "sum": [int(self.sums[k]) for k in keys]})

    def on_timer(self, timers: Any) -> list[dict[str, int]]:
        return [{"key": timer.key, "sum": -int(self.sums[timer.key])} for timer in timers]


ROWS = st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 300)), max_size=25)
EPOCHS = st.lists(ROWS, max_size=5)


def epoch(harness: OperatorHarness, rows: list[tuple[int, int]], at_ms: int) -> Counter[str]:
    out = harness.epoch({"key": pa.array([k for k, _ in rows], pa.int64()), "value": [v for _, v in rows]}, at_ms=at_ms)
    return Counter(map(str, out))


def mine(rows: list[tuple[int, int]], part: OperatorHarness) -> list[tuple[int, int]]:
    first, last = part._slots
    return [row for row in rows if first <= slot_of(row[0]) < last]


def canonical(harness: OperatorHarness) -> Any:
    timers = Counter(harness.timers)
    found = harness.state
    if "seen" in found:
        found |= {"seen": Counter(found["seen"]), "last": dict(found["last"])}  # the order between keys is not kept
    return found, timers


@pytest.mark.parametrize("operator", [Ledger(), Columns()], ids=["by key", "as a whole"])
@given(before=EPOCHS, after=EPOCHS, parts=st.integers(1, 6))
def test_parts_go_on_as_the_whole_would_and_merge_into_it(
    operator: Operator, before: list[Any], after: list[Any], parts: int
) -> None:
    whole = OperatorHarness(operator, key="key", schema="key long, value long")
    for number, rows in enumerate(before):
        epoch(whole, rows, at_ms=number * 150)
    split = [OperatorHarness.merge([part]) for part in whole.split(parts)]
    assert canonical(OperatorHarness.merge(split)) == canonical(whole)
    for number, rows in enumerate(after, start=len(before)):
        expected = epoch(whole, rows, at_ms=number * 150)
        got = sum((epoch(part, mine(rows, part), at_ms=number * 150) for part in split), Counter())
        assert got == expected
    assert canonical(OperatorHarness.merge(split)) == canonical(whole)


KEYS: dict[str, Any] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "string": st.text(max_size=8),
    "binary": st.binary(max_size=8),
    "bool": st.booleans(),
    "double": st.floats(allow_nan=False),
    "date32[day]": st.dates(),
    "timestamp[us, tz=UTC]": st.datetimes(timezones=st.just(datetime.UTC)),
    "time64[ns]": st.times(),
    "decimal128(9, 2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "decimal128(38, 6)": st.decimals(-(10**31), 10**31, places=6),
}


@given(data=st.data(), kinds=st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3))
def test_every_key_of_every_type_goes_to_the_part_of_its_slot(data: st.DataObject, kinds: list[str]) -> None:
    column = [st.none() | KEYS[kind] for kind in kinds]
    key = column[0] if len(kinds) == 1 else st.tuples(*column)
    values = data.draw(st.dictionaries(key, st.integers(), max_size=30))
    bounds = [0, *sorted(data.draw(st.sets(st.integers(1, SLOTS - 1), max_size=5))), SLOTS]
    ranges = list(itertools.pairwise(bounds))
    captured = {
        "timers": [(key, n, "event", "") for n, key in enumerate(values)],
        "fields": {"sums": values},
        "keyed": None,
    }

    class Sums(Operator):
        sums: dict[Any, int] = state(default_factory=dict)

    parts = partition_processing_state(ShardState(captured, Epoch(7)), Sums, ranges, key_types=kinds)
    for (first, last), part in zip(ranges, parts, strict=True):
        assert part.slots == (first, last) and part.epoch == 7
        for key in part.processing["fields"]["sums"]:
            assert first <= slot_of(*(key if len(kinds) > 1 else (key,)), types=kinds) < last
        assert [timer[0] for timer in part.processing["timers"]] == list(part.processing["fields"]["sums"])
    whole = merge_state(parts, Sums)
    assert whole.slots == (0, SLOTS)
    merged = whole.processing
    assert merged["fields"] == captured["fields"]
    assert sorted(merged["timers"], key=lambda timer: timer[1]) == captured["timers"]


# -- refusals ----------------------------------------------------------------------------------------------------


def captured(*, slots: SlotRange = (0, SLOTS), **fields: Any) -> ShardState:
    return ShardState({"timers": [], "fields": fields, "keyed": None}, Epoch(1), slots)


class Counts(Operator):
    counts: dict[Any, int] = state(default_factory=dict)


HALVES = [(0, 128), (128, 256)]


def test_a_dict_that_is_not_by_key_is_named():
    with pytest.raises(OperatorFailed, match=r"'count': field 'counts' has the key \('a', 3\).*columns are \(string\)"):
        partition_processing_state(captured(counts={("a", 3): 1}), Counts, HALVES, key_types=["string"], name="count")
    with pytest.raises(OperatorFailed, match=r"field 'counts' has the key Counter.*none of the operator's"):
        partition_processing_state(captured(counts={_Hashable(): 1}), Counts, HALVES)


class _Hashable(Counter[str]):
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Counter"


def test_a_key_of_another_shard_is_named():
    stray = next(n for n in range(100) if slot_of(n) >= 128)
    with pytest.raises(
        OperatorFailed, match=f"has the key {stray}, which lies in slot .* holds the slots from 0 to 127"
    ):
        partition_processing_state(captured(slots=(0, 128), counts={stray: 1}), Counts, [(0, 64), (64, 128)])


def test_ranges_that_leave_a_gap_are_refused():
    for ranges in ([(0, 100), (101, 256)], [(0, 130), (128, 256)], [(0, 128)], [], [(0, 128), (128, 128), (128, 256)]):
        with pytest.raises(OperatorFailed, match="without gap or overlap"):
            partition_processing_state(captured(counts={}), Counts, ranges)


def test_a_key_in_two_shards_is_named():
    with pytest.raises(OperatorFailed, match="field 'counts': key 'a' is in shard 1"):
        merge_state([captured(slots=(0, 9), counts={"a": 1}), captured(slots=(9, 99), counts={"a": 2})], Counts)


def test_only_neighbours_of_the_same_epoch_are_merged():
    first, second = captured(slots=(0, 9), counts={}), captured(slots=(9, 99), counts={})
    with pytest.raises(OperatorFailed, match="expected neighbours"):
        merge_state([first, captured(slots=(10, 99), counts={})], Counts)
    with pytest.raises(OperatorFailed, match=r"different epochs: \[1, 2\]"):
        merge_state([first, replace(second, epoch=Epoch(2))], Counts)
    assert merge_state([second, first], Counts).slots == (0, 99)


def test_every_obstacle_is_known_before_anything_is_cut():
    class Mixed(Operator):
        total: int = state(default=0)
        tree: list[int] = state(default_factory=list, split=lambda tree, part: tree)
        fine: dict[str, int] = state(default_factory=dict)

    assert [found.split(" ")[1] for found in obstacles(Mixed)] == ["'total'", "'tree'"]
    assert "has split= but no merge=" in obstacles(Mixed)[1]
    assert obstacles(Ledger()) == obstacles(Columns) == []


def test_arrays_as_values_are_not_copied():
    array = np.arange(3)
    parts = partition_processing_state(captured(counts={"a": array}), Counts, HALVES)
    assert any(part.processing["fields"]["counts"].get("a") is array for part in parts)
