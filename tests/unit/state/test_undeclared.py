"""State that nobody declared is seen when it changes, and told once with the line to write; constants and caches are left alone."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid import KeyedOperator, Operator, state
from perseid.errors import PerseidWarning
from perseid.state.operator_state import fresh
from perseid.state.undeclared import MOST_BYTES, UndeclaredState
from perseid.testing import OperatorHarness


class Told(Operator):
    """An operator without output."""

    def process(self, rows: pa.Table) -> None:
        self.work(rows.num_rows)

    def work(self, n: int) -> None: ...


class OnTheClass(Told):
    counts: dict[str, int] = {}

    def work(self, n: int) -> None:
        self.counts["a"] = n


class Assigned(Told):
    def work(self, n: int) -> None:
        self.n = getattr(self, "n", 0) + n


class SetInInit(Told):
    def __init__(self) -> None:
        self.seen = 0.0

    def work(self, n: int) -> None:
        self.seen += n


class ChangedInPlace(Told):
    def __init__(self) -> None:
        self.words: Counter[str] = Counter(a=1, b=2)

    def work(self, n: int) -> None:
        self.words["a"] += n


class ArrayInPlace(Told):
    def __init__(self) -> None:
        self.sums = np.zeros(4)

    def work(self, n: int) -> None:
        self.sums[2] += n


class Chance(Told):
    def __init__(self) -> None:
        self.chance = np.random.default_rng(7)

    def work(self, n: int) -> None:
        self.chance.random()


class ByKey(KeyedOperator):
    n: int = state(default=0)
    last: list[Any] = []

    def process_key(self, key: Any, rows: pa.Table) -> None:
        self.n += 1
        self.last.append(key)


def warnings_of(operator: Operator, epochs: int = 5) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        harness = OperatorHarness(operator, key="word", shards=2)
        for _ in range(epochs):
            harness.epoch([{"word": "a"}, {"word": "b"}, {"word": "c"}])
    return [str(w.message) for w in caught if issubclass(w.category, PerseidWarning)]


@pytest.mark.parametrize(
    ("operator", "line"),
    [
        (OnTheClass(), "counts: dict = state(default_factory=dict)"),
        (Assigned(), "n: int = state(default=0)"),
        (SetInInit(), "seen: float = state(default=0.0)"),
        (ChangedInPlace(), "words: Counter = state(default_factory=Counter)"),
        (ArrayInPlace(), "sums: ndarray = state(default_factory=lambda: …)"),
        (Chance(), "chance: Generator = state(default_factory=lambda: …)"),
        (ByKey(), "last: list = state(default_factory=list)"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Operator) else "",
)
def test_an_attribute_that_changes_is_told_with_the_line_to_write(operator: Operator, line: str) -> None:
    found = warnings_of(operator)
    assert found and len({text.split("' ")[1] for text in found}) == 1, found
    assert all(
        f"operator 'operator': the attribute '{line.partition(':')[0]}'" in text and line in text for text in found
    )
    assert len(found) == len(set(found))


class Proper(Told):
    """All that is allowed: declared fields, constants of all kinds, scratch."""

    total: int = state(default=0)
    NAMES = {"a": 1, "b": 2}
    LIMITS = [1, 2, 3]
    _shared: dict[str, int] = {}

    def __init__(self, size: int) -> None:
        self.size = size
        self.words = {"a", "b", "some more words"}
        self.table = np.arange(MOST_BYTES)
        self.function = lambda n: n + 1
        self._model: Any = None

    @functools.cached_property
    def squares(self) -> list[int]:
        return [n * n for n in range(self.size)]

    def work(self, n: int) -> None:
        self._model = object()
        self._shared["a"] = n
        self.total += self.function(len(self.squares))


def test_declared_fields_constants_and_caches_are_not_told() -> None:
    assert warnings_of(Proper(9), epochs=40) == []


def test_a_change_that_comes_late_is_seen() -> None:
    operator = SetInInit()
    watch, shard = UndeclaredState("late", operator), fresh(operator)
    assert not any(watch.after_epoch(shard) for _ in range(40))
    shard.seen = 1.0
    assert sum(len(watch.after_epoch(shard)) for _ in range(60)) == 1
