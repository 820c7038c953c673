"""Estimates of a shard's size: paid for by its work, and honest about what they cannot see (M5a)."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from perseid import KeyedOperator, Operator, state
from perseid.state.operator_state import fresh
from perseid.state.size_estimate import SHARE, SizeEstimate
from perseid.state.sizes import unknown_part


class Plain(Operator):
    rows: list[bytes] = state(default_factory=list)

    def process(self, rows: pa.Table) -> None:
        pass


class Clock:
    """Every look at it costs ``step_s``."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def operator(**fields: Any) -> Any:
    cls = type("Made", (Plain,), fields)
    for name, field in fields.items():
        field.__set_name__(cls, name)
    return fresh(cls())


@pytest.mark.parametrize("cost_s", [1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("epoch_s", [0.001, 0.1, 2.0])
def test_estimates_cost_less_than_a_hundredth_of_the_work(cost_s: float, epoch_s: float) -> None:
    estimate = SizeEstimate("o", operator(), clock_s=Clock(cost_s))
    for _ in range(20_000):
        estimate.after_epoch(epoch_s)
    assert estimate.estimates >= 1
    assert estimate.spent_s <= 0.01 * estimate.worked_s + cost_s, "the first one is on credit"


def test_a_cheap_estimate_is_made_after_every_epoch() -> None:
    estimate = SizeEstimate("o", operator(), clock_s=Clock(1e-5))
    sizes = [estimate.after_epoch(0.05) for _ in range(100)]
    assert None not in sizes


def test_a_dear_estimate_is_made_less_often_and_the_last_one_stands() -> None:
    shard = operator()
    estimate = SizeEstimate("o", shard, clock_s=Clock(0.01))
    first = estimate.after_epoch(0.1)
    shard.rows = [b"x" * 1000] * 1000
    later = [estimate.after_epoch(0.1) for _ in range(100)]
    assert later[0] is None and estimate.bytes != first
    made = [size for size in later if size is not None]
    assert len(made) == pytest.approx(100 * SHARE * 0.1 / 0.01, abs=2)


def test_a_size_function_that_raises_is_reported_once_and_sampled_instead() -> None:
    def length(value: Any) -> int:
        raise ValueError("no idea")

    told: set[str] = set()
    field = state(default_factory=lambda: [b"x" * 1000] * 1000, length=length, element_size=7)
    estimates = [SizeEstimate("join", operator(left=field), told=told) for _ in range(2)]
    for estimate in (*estimates, *estimates):
        assert estimate.now() > 900_000
    warnings = [w for estimate in estimates for w in estimate.warnings()]
    assert warnings == [
        "operator 'join': the size of state field 'left' is not known: its length= raised ValueError: no idea;"
        " its size is sampled instead"
    ]


class NoLength:
    def __init__(self) -> None:
        self.data = b"x" * 5000


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ({"element_size": 8}, "has no len(): give length=, too"),
        ({"length": lambda value: 5}, "has no elements to look at: give element_size=, too"),
        ({"length": lambda value: -1, "element_size": 8}, "length= returned -1, expected a number"),
        ({"length": lambda value: 3, "element_size": lambda value: "big"}, "element_size= returned 'big'"),
    ],
)
def test_hints_that_do_not_suffice_are_told_with_what_is_missing(hints: dict[str, Any], said: str) -> None:
    estimate = SizeEstimate("o", operator(tree=state(default_factory=NoLength, **hints)))
    assert estimate.now() > 5000, "sampled instead"
    (warning,) = estimate.warnings()
    assert "state field 'tree'" in warning and said in warning


def test_a_structure_that_does_not_show_what_it_holds_is_named() -> None:
    estimate = SizeEstimate("o", operator(locks=state(default_factory=lambda: {"a": threading.Lock()})))
    estimate.now()
    (warning,) = estimate.warnings()
    assert "state field 'locks'" in warning and "lock does not show how much it holds" in warning
    assert "length= and element_size=" in warning
    estimate.now()
    assert estimate.warnings() == []


def test_hints_make_it_known() -> None:
    field = state(default_factory=threading.Lock, length=lambda lock: 10, element_size=100)
    estimate = SizeEstimate("o", operator(lock=field))
    assert 1000 <= estimate.now() < 1500
    assert estimate.warnings() == []


def test_by_key_too() -> None:
    class PerKey(KeyedOperator):
        items: list[bytes] = state(default_factory=list, length=lambda value: 1 // 0, element_size=3)

        def process_key(self, key: Any, rows: pa.Table) -> None:
            pass

    shard = fresh(PerKey())
    shard._keyed.values = {n: ([b"x" * 100],) for n in range(100)}
    estimate = SizeEstimate("o", shard)
    assert estimate.now() > 100 * 100
    assert len(estimate.warnings()) == 1


class Empty:
    pass


class Exact:
    nbytes = 12_345


@pytest.mark.parametrize("value", [1, "x", [1], {"a": (1, 2)}, Empty(), NoLength(), Exact(), None, {1: {2: {3: [4]}}}])
def test_what_shows_its_size(value: Any) -> None:
    assert unknown_part(value) is None


def test_what_says_its_bytes_is_believed() -> None:
    assert SizeEstimate("o", operator(tensor=state(default_factory=Exact))).now() >= 12_345
