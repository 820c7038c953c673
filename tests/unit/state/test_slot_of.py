"""Slots in Python alone; tests/spark compares them with Spark's."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from perseid.errors import GraphError
from perseid.state.slots import slot_of, slots_of


def test_a_slot_never_changes() -> None:
    """Routing tables and snapshots speak of slots: these numbers are for good (checked against Spark)."""
    keys = ("", "a", 0, 1, -1, True, 1.5, b"x", None)
    assert [slot_of(key) for key in keys] == [4, 204, 108, 50, 210, 41, 182, 65, 42]


@pytest.mark.parametrize(
    ("keys", "types"),
    [
        ([0, 1, -1, 2**63 - 1, -(2**63), *range(2000)], None),
        ([0, 1, -1, 2**31 - 1], ["int32"]),
        (["", "a", "ä", *map(str, range(2000))], ["string"]),
        ([1, None, True], None),
        ([("a", 1), ("b", 2)], ["string", "int64"]),
        ([b"x", b""], ["binary"]),
        ([], None),
    ],
)
def test_many_keys_at_once_get_the_slots_they_get_one_by_one(keys: list[Any], types: list[str] | None) -> None:
    one_by_one = [slot_of(*(key if isinstance(key, tuple) else (key,)), types=types) for key in keys]
    assert slots_of(keys, types) == one_by_one


def test_null_leaves_the_hash_as_it_is() -> None:
    assert slot_of("a", None) == slot_of("a") == slot_of(None, "a")


def test_zeros_are_one_key_and_nans_too() -> None:
    assert slot_of(0.0) == slot_of(-0.0)
    assert slot_of(float("nan")) == slot_of(-float("nan"))


def test_small_integers_are_hashed_as_four_bytes_if_the_column_is_small() -> None:
    longs = [slot_of(n) for n in range(50)]
    assert longs != [slot_of(n, types=["int32"]) for n in range(50)]
    assert longs == [slot_of(n, types=["int64"]) for n in range(50)]
    assert slot_of(7, types=["int8"]) == slot_of(7, types=["int32"])


def test_a_moment_is_the_same_in_every_zone() -> None:
    utc = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    assert slot_of(utc) == slot_of(utc.astimezone(datetime.timezone(datetime.timedelta(hours=5))))


@pytest.mark.parametrize("value", [[1], {"a": 1}, datetime.timedelta(1), object()])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(GraphError, match="cast it in a transform"):
        slot_of(value)
