"""The bottleneck detector on loads that rise, fall, burst and jitter: it follows what stays, and never swings (S5)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from perseid.scaling.bottleneck import AutoScaling, Bottlenecks, HostLoad
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.vocabulary import HostId, OperatorName, ShardId

O = OperatorName("o")  # noqa: E741


def followed(load: Callable[[int], float], rounds: int, *, policy: AutoScaling | None = None, seed: int = 0,
             noise: float = 0.03, delay: int = 1) -> list[int]:  # fmt: skip
    """Rounds of reports of hosts with a shard each; the work is shared, whatever comes. The number of shards, round by round."""
    policy, draw = policy or AutoScaling(), random.Random(seed)
    detector = Bottlenecks(policy, frozenset({O}))
    routing, shards, counts = table(1, 0), 1, []
    due: tuple[int, int] | None = None
    for now in range(rounds):
        if due is not None and now >= due[0]:  # a scale takes a while
            shards, due = due[1], None
            routing = table(shards, routing.version)
        wish = None
        for route in routing.of(O):
            share = min(1.0, max(0.0, load(now) / shards + draw.gauss(0, noise)))
            assert route.host is not None
            found = detector.reported(HostLoad(route.host, share, {route.shard: share}), routing)
            wish = found or wish
        if wish is not None and due is None:
            assert wish.shards <= 2 * shards
            due = (now + delay, wish.shards)
        counts.append(shards)
    return counts


def table(shards: int, version: int) -> RoutingTable:
    first = 100 * (version + 1)
    made = RoutingTable.initial({O: numbered(even_slots(shards), first)})
    made = made.moved({ShardId(O, first + i): HostId(first + i) for i in range(shards)})
    return RoutingTable(version + 1, made.routes)  # type: ignore[arg-type]


def changes(counts: list[int]) -> int:
    return sum(a != b for a, b in pairwise(counts))


@pytest.mark.parametrize("seed", range(20))
def test_a_steady_load_settles_and_stays(seed: int) -> None:
    draw = random.Random(seed)
    steady = draw.uniform(0.1, 9.0)
    counts = followed(lambda _: steady, 400, seed=seed)
    assert changes(counts[100:]) == 0, counts
    assert steady / counts[-1] < 0.75


@pytest.mark.parametrize("seed", range(10))
def test_a_rising_load_is_followed_upwards_only(seed: int) -> None:
    counts = followed(lambda now: now / 40, 400, seed=seed)
    assert counts == sorted(counts) and counts[-1] >= 10 / 0.8


@pytest.mark.parametrize("seed", range(10))
def test_a_falling_load_is_followed_downwards_only(seed: int) -> None:
    counts = followed(lambda now: 8.0 if now < 100 else max(0.2, 8.0 - (now - 100) / 20), 400, seed=seed)
    fallen = counts[110:]
    assert fallen == sorted(fallen, reverse=True) and fallen[-1] <= 2


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("length", [1, 3, 10, 25])
def test_bursts_that_come_again_and_again_end_in_enough_shards_for_them(seed: int, length: int) -> None:
    counts = followed(lambda now: 3.0 if now % 50 < length else 0.3, 4_000, seed=seed)
    assert changes(counts) <= 30, "it does not follow every burst up and down"
    assert changes(counts[2_000:]) <= 2, "and in the end hardly any"


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_not_followed(seed: int) -> None:
    draw = random.Random(seed)
    jitter = [max(0.05, draw.gauss(1.0, 0.35)) for _ in range(1_000)]
    counts = followed(lambda now: jitter[now], 1_000, seed=seed, noise=0.1)
    assert changes(counts) <= 6 and max(counts) <= 5


def test_it_shrinks_to_what_was_enough_all_the_while_not_at_the_last_look() -> None:
    counts = followed(lambda now: 5.0 if now < 60 else (0.3, 0.3, 1.2)[now % 3], 200, noise=0.0)
    assert max(counts) >= 7 and min(counts[60:]) == math.ceil(1.2 / AutoScaling().idle)


def test_a_sine_over_minutes_is_survived_without_chatter() -> None:
    counts = followed(lambda now: 2.0 + 1.8 * math.sin(now / 60), 2_000)
    steps = [b - a for a, b in pairwise(counts) if a != b]
    turns = sum((a > 0) != (b > 0) for a, b in pairwise(steps))
    assert turns <= 11, "it turns when the load does: twice in each of five and a half cycles"


def test_the_operator_that_does_most_on_a_busy_host_is_the_bottleneck() -> None:
    other = OperatorName("p")
    shards = {O: numbered(even_slots(1)), other: numbered(even_slots(1))}
    routing = RoutingTable.initial(shards).moved({ShardId(O, 0): HostId(1), ShardId(other, 0): HostId(1)})
    detector = Bottlenecks(AutoScaling(), frozenset({O, other}))
    load = HostLoad(HostId(1), 0.9, {ShardId(O, 0): 0.2, ShardId(other, 0): 0.65})
    assert detector.reported(load, routing) is None, "one report is none"
    wish = detector.reported(load, routing)
    assert wish is not None and (wish.operator, wish.shards) == (other, 2)


def test_no_more_shards_than_allowed() -> None:
    assert max(followed(lambda _: 50.0, 200, policy=AutoScaling(most=6))) == 6
