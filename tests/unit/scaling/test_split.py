"""Split points follow the load."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.scaling.split import heaviest, split_slots
from perseid.vocabulary import SLOTS

weights = st.lists(st.floats(0, 100), min_size=SLOTS, max_size=SLOTS)


@given(st.integers(1, 20), weights)
def test_ranges_cover_the_slots_and_are_never_worse_than_an_even_cut(shards: int, load: list[float]) -> None:
    found = split_slots(shards, load)
    RoutingTable.initial({"o": numbered(found)}).check()  # type: ignore[dict-item]
    assert len(found) == shards
    assert heaviest(found, load) <= heaviest(even_slots(shards), load) * (1 + 1e-9)


def test_load_that_is_nearly_even_is_cut_evenly() -> None:
    draw = random.Random(1)
    assert split_slots(4, [1 + draw.random() / 10 for _ in range(SLOTS)]) == even_slots(4)
    assert split_slots(4) == split_slots(4, [0.0] * SLOTS) == even_slots(4)


def test_skewed_keys_are_cut_where_the_load_is() -> None:
    load = [1.0 / (n + 1) for n in range(SLOTS)]  # Zipf over the slots
    found = split_slots(4, load)
    assert heaviest(found, load) < 0.55 * heaviest(even_slots(4), load)


def test_one_hot_slot_gets_a_shard_of_its_own() -> None:
    load = [0.1] * SLOTS
    load[100] = 20.0
    found = split_slots(4, load)
    assert (100, 101) in found
