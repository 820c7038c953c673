"""Sizes of state: exact where that is cheap, estimated from a few elements otherwise, never by walking."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from perseid import state
from perseid.state.sizes import REACH, size_of


def test_bytes_and_arrays_are_exact() -> None:
    assert size_of(np.zeros(1000)[10:]) == 990 * 8
    assert size_of(pa.array(np.zeros(1000))) == 8000
    assert size_of(pa.table({"a": np.zeros(1000)})) == 8000
    assert 10_000 <= size_of(b"x" * 10_000) < 10_100
    assert 10_000 <= size_of(bytearray(10_000)) < 10_100


def test_pandas_columns_of_numbers_are_exact() -> None:
    frame = pd.DataFrame({"a": np.zeros(1000), "b": np.zeros(1000)})
    assert 16_000 <= size_of(frame) < 16_500
    assert size_of(pd.Series(["x" * 1000] * 100)) > 100_000


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ["x" * 100] * n,
        lambda n: tuple("x" * 100 for _ in range(n)),
        lambda n: deque("x" * 100 for _ in range(n)),
        lambda n: {str(i).zfill(100) for i in range(n)},
        lambda n: dict.fromkeys(range(n), "x" * 100),
        lambda n: OrderedDict((i, "x" * 100) for i in range(n)),
        lambda n: np.array(["x" * 100] * n, dtype=object),
    ],
)
def test_containers_are_about_their_number_times_their_elements(make: Any) -> None:
    assert 0.8 < size_of(make(10_000)) / (10 * size_of(make(1000))) < 1.25
    assert size_of(make(10_000)) > 10_000 * 100


def test_first_middle_and_last_are_looked_at() -> None:
    for place in (0, 500, 999):
        elements = [b""] * 1000
        elements[place] = b"x" * 30_000
        assert size_of(elements) > 5_000_000, place


def test_the_last_element_of_a_dict_is_looked_at() -> None:
    elements = dict.fromkeys(range(1000), b"")
    elements[999] = b"x" * 30_000
    assert size_of(elements) > 5_000_000


def test_a_dict_is_not_walked() -> None:
    class Watched(dict[int, int]):
        steps = 0

        def items(self) -> Any:
            outer = self

            class Items:
                def __iter__(self) -> Any:
                    for item in dict.items(outer):
                        outer.steps += 1
                        yield item

                def __reversed__(self) -> Any:
                    return reversed(list(dict.items(outer))[-3:])

            return Items()

    watched = Watched({n: n for n in range(100_000)})
    size_of(watched)
    assert 0 < watched.steps <= REACH + 1


def test_more_samples_see_more() -> None:
    elements = [b""] * 900 + [b"x" * 10_000] * 100
    few = size_of(elements, state(default_factory=list, sample=1))
    many = size_of(elements, state(default_factory=list, sample=300))
    assert few < 100_000 < 500_000 < many < 2_000_000


def test_a_fixed_element_size_needs_no_look() -> None:
    assert size_of(range(1000), state(default=0, element_size=40)) == 40_000


def test_a_users_structure_says_its_own_length_and_element_size() -> None:
    class Tree:
        nodes = 50

    field = state(default_factory=Tree, length=lambda tree: tree.nodes, element_size=lambda tree: 10)
    assert size_of(Tree(), field) == 500


@dataclass
class Record:
    name: str
    data: bytes


class Slotted:
    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = b"x" * 1000


def test_attributes_of_objects_count() -> None:
    assert 1000 < size_of(Record("a", b"x" * 1000)) < 2000
    assert 1000 < size_of(Slotted()) < 1500
    assert size_of({n: Record("a", b"x" * 1000) for n in range(1000)}) > 1_000_000


def test_cyclic_data_ends() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert size_of(cycle) > 0


@pytest.mark.parametrize("empty", [[], {}, set(), (), "", b"", None, deque(), np.zeros(0), pa.array([])])
def test_empty_things_have_a_size(empty: Any) -> None:
    assert size_of(empty) >= 0
