"""Routing tables and the host pool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, even_slots, numbered, partition_routing_state, place
from perseid.vocabulary import SLOTS, HostId, OperatorName, ShardId


@given(st.integers(1, SLOTS))
def test_even_slots_cover_the_key_space_without_gap(shards: int) -> None:
    RoutingTable.initial({"o": numbered(even_slots(shards))}).check()  # type: ignore[dict-item]
    sizes = [high - low for low, high in even_slots(shards)]
    assert max(sizes) - min(sizes) <= 1


def test_every_change_is_a_new_version() -> None:
    table = RoutingTable.initial({"o": numbered(even_slots(2))})  # type: ignore[dict-item]
    moved = table.moved({ShardId("o", 1): 7})  # type: ignore[dict-item, arg-type]
    assert (table.version, moved.version) == (1, 2)
    assert table.host_of(ShardId("o", 1)) is None and moved.host_of(ShardId("o", 1)) == 7  # type: ignore[arg-type]
    assert moved.shards_on(7) == (("o", 1),)  # type: ignore[arg-type]


def test_a_gap_is_found() -> None:
    table = RoutingTable.initial({"o": numbered(even_slots(2))})  # type: ignore[dict-item]
    broken = {s: r for s, r in table.routes.items() if s.index == 0}
    with pytest.raises(AssertionError, match="cover"):
        RoutingTable(table.version, broken).check()


def test_shards_go_to_spares_first_and_then_where_the_fewest_are() -> None:
    shards = [ShardId("o", i) for i in range(3)]  # type: ignore[arg-type]
    placed = place(shards, {1: 2, 2: 1}, spares=[3])  # type: ignore[dict-item, list-item]
    assert list(placed.values()) == [3, 3, 2]


def test_the_pool_is_refilled_to_its_size() -> None:
    pool = Pool(hosts=2, spares=1)
    assert pool.to_start(alive=1, starting=1) == 1
    assert pool.to_start(alive=3, starting=1) == 0


def test_standbys_come_after_the_host_and_are_never_the_host() -> None:
    shard, other = ShardId(OperatorName("o"), 0), ShardId(OperatorName("o"), 1)
    table = RoutingTable.initial({OperatorName("o"): numbered(even_slots(2))}).moved(
        {shard: HostId(1), other: HostId(1)}
    )
    guarded = table.guarded([shard], HostId(1), (HostId(2), HostId(1)), 100)
    assert guarded.version == table.version + 1
    assert guarded.routes[shard].places == (1, 2) and guarded.routes[shard].patience_ms == 100
    assert guarded.routes[other] == table.routes[other]
    switched = guarded.guarded([shard], HostId(2), (HostId(1),), 100)
    assert switched.routes[shard].places == (2, 1) and switched.host_of(shard) == 2


def test_a_shard_that_is_moved_or_promoted_has_no_standby_any_more() -> None:
    shard = ShardId(OperatorName("o"), 0)
    table = RoutingTable.initial({OperatorName("o"): numbered(even_slots(2))}).moved({shard: HostId(1)})
    guarded = table.guarded([shard], HostId(1), (HostId(2),), 100)
    for alone in (guarded.moved({shard: HostId(2)}), guarded.guarded([shard], HostId(2), (), 100)):
        assert alone.routes[shard].places == (2,) and alone.routes[shard].patience_ms == 0
        alone.check()


def test_a_shard_that_was_divided_meanwhile_is_not_guarded() -> None:
    shard = ShardId(OperatorName("o"), 7)
    table = RoutingTable.initial({OperatorName("o"): numbered(even_slots(2))})
    assert table.guarded([shard], HostId(1), (HostId(2),)).routes == table.routes


def test_the_shards_of_an_operator_are_taken_over_from_a_table_made_before() -> None:
    one, other = OperatorName("one"), OperatorName("other")
    table = RoutingTable.initial({one: numbered(even_slots(1)), other: numbered(even_slots(1))})
    scaled = partition_routing_state(table, [ShardId(one, 0)], numbered(even_slots(2), 1))
    meanwhile = table.moved({ShardId(other, 0): HostId(3)})
    assert meanwhile.with_shards_of(one, scaled) is scaled  # of one version: nothing happened meanwhile
    later = meanwhile.moved({ShardId(other, 0): HostId(4)}).with_shards_of(one, scaled)
    assert len(later.of(one)) == 2 and later.host_of(ShardId(other, 0)) == 4 and later.version > scaled.version
