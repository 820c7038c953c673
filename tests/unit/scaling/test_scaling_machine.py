"""One scale from step to step, without a controller."""

from __future__ import annotations

import pytest

from perseid.scaling.machine import ScaleRequest, Scaling
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, even_slots, numbered, partition_routing_state
from perseid.vocabulary import ShardId

OLD = RoutingTable.initial({"o": numbered(even_slots(2))}).moved({ShardId("o", 0): 1, ShardId("o", 1): 2})  # type: ignore[dict-item, arg-type]


def scaling() -> Scaling:
    return Scaling(ScaleRequest(1, "o", even_slots(4)), "u", 0)  # type: ignore[arg-type]


def prepared() -> Scaling:
    one = scaling()
    shards = numbered(even_slots(4), 2)
    one.checkpoint_started(7, 9)  # type: ignore[arg-type]
    hosts = {ShardId("o", index): 3 + n % 2 for n, (index, _) in enumerate(shards)}  # type: ignore[arg-type]
    one.prepared_from(10, partition_routing_state(OLD, OLD.routes.keys(), shards, hosts))  # type: ignore[arg-type]
    return one


def test_new_shards_have_numbers_that_none_had_before_and_cover_the_slots() -> None:
    one = prepared()
    assert one.target is not None
    assert [index for index, _ in one.target.shards("o")] == [2, 3, 4, 5]  # type: ignore[arg-type]
    assert one.target.version > OLD.version
    one.check()


def test_it_follows_when_the_last_host_has_prepared_its_shards() -> None:
    one = prepared()
    one.answered(3, {})  # type: ignore[arg-type]
    assert one.phase == "preparing" and one.waiting == {4}
    one.answered(4, {})  # type: ignore[arg-type]
    assert one.phase == "following" and not one.busy


def test_the_unit_is_held_when_the_new_shards_are_near_or_come_no_nearer() -> None:
    one = prepared()
    assert one.near(12) and not one.near(40)  # type: ignore[arg-type]
    one.gap = 30
    assert one.near(40) and not one.near(39)  # type: ignore[arg-type]


def test_only_shards_that_lag_are_behind() -> None:
    one = prepared()
    one.upto = 12  # type: ignore[assignment]
    one.reached[ShardId("o", 3)] = 12  # type: ignore[assignment, index, arg-type]
    assert [shard.index for shard in one.behind] == [2, 4, 5] and one.stands == 10


def test_a_failed_attempt_forgets_all_but_that_it_failed() -> None:
    one = prepared()
    one.failed(1_000)
    assert (one.phase, one.target, one.hosts, one.failures) == ("asked", None, frozenset(), 1)
    first = one.not_before_ms - 1_000
    one.failed(1_000)
    assert one.not_before_ms - 1_000 == 2 * first, "each pause is longer"
    one.check()


def test_only_holding_and_switching_pause_the_unit() -> None:
    one = prepared()
    holds = {}
    for phase in ("preparing", "following", "holding", "switching", "settling"):
        one.phase = phase  # type: ignore[assignment]
        holds[phase] = one.holds
    assert [phase for phase, held in holds.items() if held] == ["holding", "switching"]


@pytest.mark.parametrize(("most", "size", "after"), [(None, 3, 2), (4, 4, 3), (20, 7, 4)])
def test_the_pool_grows_for_new_shards_as_far_as_the_cluster_has_room(most: int | None, size: int, after: int) -> None:
    growing = Pool(2, 1, most).growing(4)
    assert growing.size == size
    settled = growing.settled(4)
    assert (settled.hosts, settled.growth) == (after, 0)
    assert settled.settled(2).hosts == 2, "and it shrinks again"
