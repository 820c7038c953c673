"""A second copy goes where what takes the primary does not take it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from perseid.standby.placement import Place, fate, place_copies
from perseid.vocabulary import HostId


def hosts(*names: str) -> dict[HostId, Place]:
    """Hosts numbered from 1, by machine and executor: ``"m1 e1"``."""
    pairs = (name.split() for name in names)
    return {HostId(i): Place(machine, f"{machine}-{executor}") for i, (machine, executor) in enumerate(pairs, 1)}


ONE_MACHINE = hosts("m1 e1", "m1 e1", "m1 e2")


def ids(*numbers: int) -> frozenset[HostId]:
    return frozenset(map(HostId, numbers))


def test_another_machine_is_better_than_another_executor_than_another_host() -> None:
    places = hosts("m1 e1", "m1 e1", "m1 e2", "m2 e1")
    assert place_copies(ids(1), places).copies == {1: 4}
    del places[HostId(4)]
    without = place_copies(ids(1), places)
    assert (without.copies, without.same_fate, without.degraded) == ({1: 3}, {1: "machine"}, True)
    del places[HostId(3)]
    assert place_copies(ids(1), places).same_fate == {1: "executor"}


def test_a_host_without_shards_comes_first() -> None:
    places = hosts("m1 e1", "m2 e1", "m2 e2")
    assert place_copies(ids(1), places, busy=ids(1, 2)).copies == {1: 3}


def test_a_shared_host_carries_as_many_copies_as_is_said() -> None:
    places = hosts("m1 e1", "m1 e2", "m1 e3", "m2 e1")
    shared = place_copies(ids(1, 2, 3), places, share=3)
    assert shared.copies == {1: 4, 2: 4, 3: 4} and not shared.degraded
    alone = place_copies(ids(1, 2, 3), places)
    assert sorted(alone.copies.values()) == sorted(set(alone.copies.values()))
    assert len(alone.same_fate) == 2


def test_two_hosts_carry_each_others_copies() -> None:
    assert place_copies(ids(1, 2), hosts("m1 e1", "m2 e1")).copies == {1: 2, 2: 1}


def test_others_move_so_that_every_primary_has_a_copy() -> None:
    assert place_copies(ids(1, 2, 3), ONE_MACHINE).unplaced == frozenset()


def test_a_host_alone_is_unguarded() -> None:
    alone = place_copies(ids(1), hosts("m1 e1"))
    assert (alone.copies, alone.unplaced, alone.degraded) == ({}, {1}, True)


def test_a_copy_moves_only_to_a_better_place() -> None:
    places = hosts("m1 e1", "m1 e2", "m2 e1")
    current = {HostId(1): HostId(2)}
    assert place_copies(ids(1), ONE_MACHINE, current={HostId(1): HostId(3)}).copies == {1: 3}
    assert place_copies(ids(1), places, current=current).copies == {1: 3}
    assert place_copies(ids(1), {h: p for h, p in places.items() if h != 3}, current=current).copies == {1: 2}


def test_a_copy_whose_host_is_gone_is_placed_anew() -> None:
    places = hosts("m1 e1", "m2 e1")
    assert place_copies(ids(1), places, current={HostId(1): HostId(9)}).copies == {1: 2}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[HostId, Place], frozenset[HostId], int]:
    names = draw(st.lists(st.sampled_from([f"m{m} e{e}" for m in (1, 2, 3) for e in (1, 2)]), min_size=1, max_size=5))
    places = hosts(*names)
    return places, frozenset(draw(st.sets(st.sampled_from(sorted(places)), min_size=1))), draw(st.integers(1, 2))


def assignments(places: Mapping[HostId, Place], primaries: frozenset[HostId], share: int) -> list[tuple[int, int]]:
    """Of everything that could be done: how many copies, and how many of them on another machine."""
    found = []
    for choice in itertools.product([None, *sorted(places)], repeat=len(primaries)):
        pairs = [(p, c) for p, c in zip(sorted(primaries), choice, strict=True) if c is not None]
        if all(p != c for p, c in pairs) and max(Counter(c for _, c in pairs).values(), default=0) <= share:
            found.append((len(pairs), sum(fate(places[p], places[c]) is None for p, c in pairs)))
    return found


@given(clusters())
def test_no_assignment_has_more_copies_or_more_of_them_on_other_machines(
    cluster: tuple[dict[HostId, Place], frozenset[HostId], int],
) -> None:
    places, primaries, share = cluster
    placed = place_copies(primaries, places, share=share)
    assert all(primary != copy for primary, copy in placed.copies.items())
    assert max(Counter(placed.copies.values()).values(), default=0) <= share
    assert placed.copies.keys() | placed.unplaced == primaries and not placed.copies.keys() & placed.unplaced
    assert placed.same_fate == {p: f for p, c in placed.copies.items() if (f := fate(places[p], places[c])) is not None}
    score = len(placed.copies), len(placed.copies) - len(placed.same_fate)
    assert score == max(assignments(places, primaries, share))


@given(clusters(), clusters())
def test_placed_twice_nothing_moves(
    cluster: tuple[dict[HostId, Place], frozenset[HostId], int],
    before: tuple[dict[HostId, Place], frozenset[HostId], int],
) -> None:
    places, primaries, share = cluster
    old = place_copies(before[1], before[0], share=before[2])
    placed = place_copies(primaries, places, share=share, current=old.copies)
    assert place_copies(primaries, places, share=share, current=placed.copies) == placed
