"""A spilled dict is a dict, whatever of it is in memory, also after a snapshot, a restore, a cut and a merge (S2)."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perseid.errors import StorageFailed
from perseid.state import Spilled
from perseid.state.codec import decode, encode
from perseid.state.spill_codec import pack_key, unpack_key

KEYS = (
    st.integers(-30, 30) | st.sampled_from([f"k{n}" for n in range(20)]) | st.tuples(st.integers(0, 3), st.text("ab"))
)
VALUES = (
    st.integers(-(2**70), 2**70)
    | st.text(max_size=30)
    | st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.binary(max_size=40)
    | st.lists(st.integers(), max_size=3)
    | st.tuples(st.integers(), st.lists(st.integers(), max_size=2))
)


def saved(spilled: Spilled[Any, Any]) -> Spilled[Any, Any]:
    found = decode(encode({"it": spilled}))["it"]
    assert isinstance(found, Spilled)
    return found


class AsADict(RuleBasedStateMachine):
    @initialize(limit=st.sampled_from([1, 1_500, 6_000, 1 << 20]))
    def begin(self, limit: int) -> None:
        self.spilled: Spilled[Any, Any] = Spilled(limit)
        self.model: dict[Any, Any] = {}
        self.children: list[tuple[Any, Any, dict[Any, Any]]] = []

    @rule(key=KEYS, value=VALUES)
    def put(self, key: Any, value: Any) -> None:
        self.spilled[key], self.model[key] = copy.deepcopy(value), value

    @rule(entries=st.lists(st.tuples(KEYS, VALUES), max_size=40))
    def put_many(self, entries: list[tuple[Any, Any]]) -> None:
        self.spilled.put_many([key for key, _ in entries], [copy.deepcopy(value) for _, value in entries])
        self.model.update(entries)

    @rule(key=KEYS)
    def get(self, key: Any) -> None:
        assert self.spilled.get(key, "none") == self.model.get(key, "none")
        assert (key in self.spilled) == (key in self.model)

    @rule(keys=st.lists(KEYS, max_size=40))
    def get_many(self, keys: list[Any]) -> None:
        assert self.spilled.get_many(keys, "none") == [self.model.get(key, "none") for key in keys]

    @rule(keys=st.lists(KEYS, max_size=5))
    def change_in_place(self, keys: list[Any]) -> None:
        mine = [self.spilled.get(key) for key in keys]  # all are looked at before any is changed
        for key, value in zip(keys, mine, strict=True):
            if isinstance(value, list):
                value.append(7)
                self.model[key].append(7)

    @rule(key=KEYS)
    def default(self, key: Any) -> None:
        assert self.spilled.setdefault(key, []) == self.model.setdefault(key, [])

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        assert self.spilled.pop(key, "none") == self.model.pop(key, "none")

    @rule()
    def clear(self) -> None:
        self.spilled.clear()
        self.model.clear()

    @rule()
    def end_of_epoch(self) -> None:
        self.spilled.shrink()

    @rule()
    def iterate(self) -> None:
        assert dict(self.spilled.items()) == self.model
        assert [pack_key(key) for key in self.spilled] == [pack_key(key) for key, _ in self.spilled.items()]
        for value in self.spilled.values():
            if isinstance(value, list):
                value.append(1)
        for value in self.model.values():
            if isinstance(value, list):
                value.append(1)

    @rule()
    def restore(self) -> None:
        self.spilled = saved(self.spilled)

    @rule()
    def copied(self) -> None:
        assert copy.deepcopy(self.spilled) == self.model
        assert pickle.loads(pickle.dumps(self.spilled)) == self.model

    @rule(parts=st.integers(1, 4))
    def cut_and_joined(self, parts: int) -> None:
        def part_of(keys: Any) -> list[int]:
            return [hash(pack_key(key)) % parts for key in keys]

        cut = self.spilled.cut(parts, part_of)
        assert sum(map(len, cut)) == len(self.model)
        self.spilled = Spilled.joined(cut)

    @rule()
    def fork(self) -> None:
        """What a forked child sees: the memory of that moment, and the files through views of them."""
        seal = self.spilled.seal()
        hot, *files = encode({"it": self.spilled})
        self.children.append((seal, [bytes(hot), *files], copy.deepcopy(self.model)))

    @rule()
    def child_ends(self) -> None:
        if self.children:
            seal, views, then = self.children.pop(0)
            assert decode(views)["it"] == then
            seal.release()

    @invariant()
    def is_the_same(self) -> None:
        assert len(self.spilled) == len(self.model)
        assert bool(self.spilled) == bool(self.model)
        self.spilled.check()


TestAsADict = AsADict.TestCase
TestAsADict.settings = settings(stateful_step_count=40, deadline=None, report_multiple_bugs=False)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.binary()
        | st.floats(allow_nan=False)
        | st.dates()
        | st.datetimes(timezones=st.just(datetime.UTC))
        | st.decimals(allow_nan=False),
        lambda parts: st.lists(parts.filter(lambda part: not isinstance(part, tuple)), max_size=3).map(tuple),
        max_leaves=4,
    )
)
def test_every_key_of_a_shard_comes_back_as_it_was(key: Any) -> None:
    assert unpack_key(pack_key(key)) == key
    assert type(unpack_key(pack_key(key))) is type(key)


def test_numpy_keys_are_those_of_python() -> None:
    spilled: Spilled[Any, int] = Spilled("1 MB", {np.int64(3): 1, np.str_("a"): 2, (np.int32(1), "b"): 3})
    assert spilled[3] == 1 and spilled["a"] == 2 and spilled[(1, "b")] == 3
    assert spilled.get_many(np.array([3, 4])) == [1, None]
    assert spilled.get_many(pa.chunked_array([["a"], ["x"]]), 0) == [2, 0]


def test_what_cannot_be_the_key_of_a_row_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be spilled: expected a scalar or a tuple of scalars"):
        Spilled[Any, int]("1 MB", {frozenset({1}): 2})


def test_several_times_the_limit_is_on_disk_and_all_of_it_is_there() -> None:
    spilled: Spilled[int, str] = Spilled("256 KB")
    for start in range(0, 20_000, 1_000):
        spilled.put_many(range(start, start + 1_000), [f"{n:0100d}" for n in range(start, start + 1_000)])
        spilled.shrink()
    in_memory = len(spilled._young) + len(spilled._old)
    assert len(spilled) == 20_000 and in_memory < 2_000
    assert spilled.nbytes > 2_000_000
    assert list(spilled) == list(range(20_000))
    assert spilled.get_many([5, 19_999, 20_000]) == [f"{5:0100d}", f"{19_999:0100d}", None]


def test_values_looked_at_stay_until_the_end_of_the_epoch_however_many() -> None:
    spilled: Spilled[int, list[int]] = Spilled("16 KB")
    held = [spilled.setdefault(n, []) for n in range(2_000)]
    for n, value in enumerate(held):
        value.append(n)
    spilled.shrink()
    assert len(spilled._young) + len(spilled._old) < 1_000
    assert all(value == [n] for n, value in spilled.items())


def test_a_full_disk_leaves_entries_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere/at/all")
    spilled: Spilled[int, int] = Spilled(1_000)
    spilled.put_many(range(500), range(500))
    spilled.shrink()
    assert spilled.get_many(range(500)) == list(range(500)) and len(spilled) == 500
    with pytest.raises(StorageFailed, match="make room"):
        list(spilled)


def test_keys_in_two_parts_are_named() -> None:
    with pytest.raises(ValueError, match="key 'a' is in two of them"):
        Spilled.joined([Spilled("1 MB", {"a": 1}), Spilled("1 MB", {"a": 2})])


def test_pages_that_are_not_used_any_more_are_given_back() -> None:
    spilled: Spilled[int, str] = Spilled("64 KB")
    spilled.put_many(range(40_000), ["x" * 100] * 40_000)
    full = spilled.nbytes
    for n in range(39_000):
        del spilled[n]
    for _ in range(30):
        spilled.shrink()
    assert spilled.nbytes < full / 2 and len(spilled) == 1_000


def test_classes_of_a_script_are_written_once_for_all_values() -> None:
    script: dict[str, Any] = {"__name__": "script_of_a_user"}
    exec("class Visit:\n    def __init__(self, n): self.n = n", script)
    visit: Callable[[int], Any] = script["Visit"]
    spilled: Spilled[int, Any] = Spilled("64 KB")
    spilled.put_many(range(5_000), [visit(n) for n in range(5_000)])
    spilled.shrink()
    assert [spilled[n].n for n in (0, 4_999)] == [0, 4_999]
    assert spilled.nbytes < 1_000_000
    assert saved(spilled)[17].n == 17
