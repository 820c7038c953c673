"""Which host keeps which shard's backup: upstream, elsewhere, one; and it moves when hosts come and go."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.recovery.backups import BackupPolicy
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.simulation.graphs import chain
from perseid.vocabulary import HostId, ShardId

ONE_UNIT, STACKED, THREE = chain(1, shards=4), chain(1, operators=2, shards=2), chain(3, shards=2)


def routed(topology, hosts) -> RoutingTable:
    """Shards of each operator on the hosts in turn, each operator's on hosts of its own as far as there are any."""
    table = RoutingTable.initial({o: numbered(even_slots(n)) for o, n in topology.operators.items()})
    return table.moved(dict(zip(table.routes, itertools.cycle(hosts))))


def paths(table, checkpoint=1) -> dict[ShardId, str]:
    return {shard: f"checkpoints/{checkpoint}/{shard}" for shard in table.routes}


def test_a_backup_is_kept_by_a_host_of_the_operator_above():
    hosts = [HostId(n) for n in range(1, 5)]
    table = routed(STACKED, hosts)
    upper, lower = sorted(STACKED.operators, key=lambda o: len(next(iter(STACKED.units)).feeders.get(o, ())))
    plans = BackupPolicy(STACKED).committed(paths(table), table, dict.fromkeys(hosts, "m"))
    above = {route.host for route in table.of(upper)}
    assert all(plan.to in above for plan in plans if plan.shard.operator == lower)
    assert all(plan.to != table.host_of(plan.shard) == plan.source for plan in plans)
    assert {plan.shard for plan in plans} == set(table.routes)


def test_another_machine_is_better_than_the_same():
    hosts = [HostId(n) for n in range(1, 7)]
    machines = {host: f"machine-{host % 2}" for host in hosts}
    table = routed(ONE_UNIT, hosts)
    for plan in BackupPolicy(ONE_UNIT).committed(paths(table), table, machines):
        assert machines[plan.to] != machines[plan.source]


def test_with_one_host_there_is_nobody_to_keep_it():
    table = routed(ONE_UNIT, [HostId(1)])
    assert BackupPolicy(ONE_UNIT).committed(paths(table), table, {HostId(1): "m"}) == []


def test_what_a_lost_host_kept_is_had_from_nobody_and_kept_elsewhere_at_the_next_checkpoint():
    hosts = [HostId(1), HostId(2), HostId(3)]
    table, policy = routed(ONE_UNIT, hosts[:1]), BackupPolicy(ONE_UNIT)
    (first, *_) = policy.committed(paths(table), table, dict.fromkeys(hosts, "m"))
    assert policy.holder(first.path) is None  # it is only on its way
    policy.stored(first.to, first.path)
    assert policy.holder(first.path) == first.to
    policy.lost(first.to)
    assert policy.holder(first.path) is None
    left = [host for host in hosts if host != first.to]
    plans = policy.committed(paths(table, 2), table, dict.fromkeys(left, "m"))
    assert {plan.to for plan in plans} == set(left) - {HostId(1)}
    assert all(plan.released is None for plan in plans if plan.shard == first.shard)
    policy.stored(plans[0].to, plans[0].path)
    policy.forgotten("checkpoints/2")
    assert policy.holder(plans[0].path) is None


@given(st.lists(st.sets(st.integers(1, 6), min_size=1), min_size=1, max_size=6))
@settings(deadline=None)
def test_every_shard_has_one_backup_and_the_one_before_is_released_when_it_moves(worlds):
    policy = BackupPolicy(THREE)
    kept: dict[Any, Any] = {}
    for checkpoint, living in enumerate(worlds, 1):
        hosts = [HostId(n) for n in sorted(living)]
        for gone in {host for host, _ in kept.values()} - set(hosts):
            policy.lost(gone)
            kept = {shard: there for shard, there in kept.items() if there[0] != gone}
        table = routed(THREE, hosts)
        plans = policy.committed(paths(table, checkpoint), table, dict.fromkeys(hosts, "m"))
        assert len(plans) == (len(table.routes) if len(hosts) > 1 else 0)
        for plan in plans:
            before = kept.get(plan.shard)
            assert plan.released == (before if before is not None and before[0] != plan.to else None)
            kept[plan.shard] = (plan.to, plan.path)
        if not plans:
            kept.clear()
