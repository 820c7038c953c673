"""Shards put together from parts of snapshots, and rows picked out by the slots of their keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid import KeyedOperator, Operator, state
from perseid.channel.rows import INPUT, input_column, within
from perseid.engine.messages import PartToRead, ShardToRestore
from perseid.errors import CorruptData, OperatorFailed
from perseid.host.apply import OperatorSpec
from perseid.host.phases import Phases
from perseid.host.restore import read_shards
from perseid.scaling.routing import even_slots
from perseid.state.operator_state import fresh
from perseid.state.partition import partition_processing_state
from perseid.state.shard_state import checkpoint_state
from perseid.state.slots import slot_of
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.persisted import persist
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, Epoch, OperatorName, ShardId

O = OperatorName("o")  # noqa: E741


class Totals(Operator):
    totals: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> None: ...


class Hoard(Operator):
    hoard: list[int] = state(default_factory=list)

    def process(self, rows: pa.Table) -> None: ...


def spec(operator: Operator) -> dict[OperatorName, OperatorSpec]:
    name = OperatorName("o")
    schema = pa.schema([("n", pa.int64())]).serialize().to_pybytes()
    return {name: OperatorSpec(name, operator, {"rows": ("k",)}, ("string",), ("rows",), None, schema, retained=False)}


def saved(store: Store, prototype: Operator, operator: Operator, shards: int) -> list[ShardSnapshot]:
    """Snapshots of the state divided among so many shards."""
    found = []
    whole = checkpoint_state(operator, Epoch(5))
    states = partition_processing_state(whole, prototype, even_slots(shards), key_types=("string",))
    for index, mine in enumerate(states):
        file = persist(mine, ShardId(O, index), store, f"o-{index}")
        found.append(ShardSnapshot(O, index, mine.slots, Epoch(5), file, 0))
    return found


def entries(snapshots: list[ShardSnapshot], shards: int) -> list[ShardToRestore]:
    made = []
    for index, (first, last) in enumerate(even_slots(shards)):
        mine = tuple(
            PartToRead(one, (max(first, one.slots[0]), min(last, one.slots[1])))
            for one in snapshots
            if one.slots[0] < last and first < one.slots[1]
        )
        made.append(ShardToRestore(ShardId(O, 10 + index), (first, last), Epoch(5), mine, Epoch(5)))
    return made


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 4), (4, 2), (3, 5), (1, 7), (7, 1)])
def test_state_divided_anew_is_the_same_state(tmp_path: Path, before: int, after: int) -> None:
    operator = fresh(Totals())
    operator.totals = {f"word-{n}": n for n in range(500)}
    store = Store.at(str(tmp_path))
    parts = saved(store, Totals(), operator, before)
    found = read_shards(store, None, entries(parts, after), spec(Totals()), Phases())
    together: dict[str, int] = {}
    for index, (first, last) in enumerate(even_slots(after)):
        mine = found[ShardId(OperatorName("o"), 10 + index)].processing["fields"]["totals"]
        assert all(first <= slot_of(word) < last for word in mine)
        assert not together.keys() & mine.keys()
        together |= mine
    assert together == operator.totals


def test_state_that_cannot_be_divided_comes_back_whole_and_only_whole(tmp_path: Path) -> None:
    operator = fresh(Hoard())
    operator.hoard = [1, 2, 3]
    store = Store.at(str(tmp_path))
    file = persist(checkpoint_state(operator, Epoch(5)), ShardId(OperatorName("o"), 0), store, "o-0")
    parts = [ShardSnapshot(O, 0, (0, SLOTS), Epoch(5), file, 0)]
    (whole,) = read_shards(store, None, entries(parts, 1), spec(Hoard()), Phases()).values()
    assert whole.processing["fields"]["hoard"] == [1, 2, 3]
    with pytest.raises(OperatorFailed, match="'hoard' is a list"):
        read_shards(store, None, entries(parts, 2), spec(Hoard()), Phases())


def test_a_snapshot_of_something_else_is_refused(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    parts = saved(store, Totals(), fresh(Totals()), 2)
    parts[0] = replace(parts[0], index=7)
    with pytest.raises(CorruptData, match="not of o/7 at epoch 5"):
        read_shards(store, None, entries(parts, 1), spec(Totals()), Phases())


@settings(deadline=None)  # the first conversion imports pandas
@given(st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=40), st.integers(1, SLOTS - 1))
def test_every_row_lies_on_one_side_of_a_cut(keys: list[str | None], cut: int) -> None:
    table = pa.table({"k": pa.array(keys, pa.string()), "n": pa.array(range(len(keys)), pa.int64())})
    sides = [within(table, ("rows",), {"rows": ("k",)}, ("string",), slots) for slots in ((0, cut), (cut, SLOTS))]
    assert sorted(n for side in sides for n in side["n"].to_pylist()) == list(range(len(keys)))
    assert all(slot_of(key) < cut for key in sides[0]["k"].to_pylist())


def test_rows_of_several_inputs_and_key_columns_are_told_apart_by_their_own_keys() -> None:
    left = [{"a": n, "b": f"x{n}"} for n in range(20)]
    right = [{"c": n, "d": f"x{n}", "v": 1.5} for n in range(20)]
    table = pa.table(
        {
            INPUT: pa.array([0] * 20 + [1] * 20, pa.int32()),
            input_column(0): pa.array([*left, *[None] * 20]),
            input_column(1): pa.array([*[None] * 20, *right]),
        }
    )
    key = {"left": ("a", "b"), "right": ("c", "d")}
    mine = within(table, ("left", "right"), key, ("int64", "string"), (0, 100))
    expected = [n for n in range(20) if slot_of(n, f"x{n}") < 100]
    assert [row["a"] for row in mine[input_column(0)].to_pylist() if row] == expected
    assert [row["c"] for row in mine[input_column(1)].to_pylist() if row] == expected


def test_keyed_state_is_divided_with_its_timers(tmp_path: Path) -> None:
    class Visits(KeyedOperator):
        n: int = state(default=0)

    operator = fresh(Visits())
    for n in range(50):
        operator._timers.at_processing_time(f"k{n}", 1_000 + n)
    store = Store.at(str(tmp_path))
    parts = saved(store, Visits(), operator, 1)
    found = read_shards(store, None, entries(parts, 3), spec(Visits()), Phases())
    timers = [timer for one in found.values() for timer in one.processing["timers"]]
    assert len(timers) == 50 and {timer[0] for timer in timers} == {f"k{n}" for n in range(50)}
