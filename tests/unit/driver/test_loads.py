"""Split points from what hosts saw, and keys that no division can spread."""

from __future__ import annotations

from perseid.driver.loads import Loads
from perseid.engine.messages import LoadMeasured, ShardLoad
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.vocabulary import HostId, OperatorName, ShardId

O = OperatorName("o")  # noqa: E741
ROUTING = RoutingTable.initial({O: numbered(even_slots(2))})


def report(index: int, slots: dict[int, float], hot: tuple[str, float] | None = None) -> LoadMeasured:
    load = ShardLoad(ShardId(O, index), 2_500, slots, hot, round(sum(slots.values())))
    return LoadMeasured(0.6, 5_000, None, (load,))


def test_skewed_keys_are_divided_where_their_rows_are() -> None:
    loads = Loads()
    loads.told(report(0, {3: 500.0, 4: 500.0, 5: 500.0, 6: 500.0}))
    assert loads.division(ROUTING, O, 4) == even_slots(4), "nothing is known of the other shard yet"
    loads.told(report(1, {200: 1.0}))
    found = loads.division(ROUTING, O, 4)
    assert [last for _, last in found[:3]] == [4, 5, 6]


def test_a_hot_key_is_told_once() -> None:
    loads = Loads()
    loads.told(report(0, {3: 900.0}, ("'ada'", 1.0)))
    loads.told(report(1, {200: 100.0}, ("'bob'", 1.0)))
    (hot,) = loads.hot_keys(ROUTING)
    assert (hot.operator, hot.key, hot.share) == ("o", "'ada'", 0.9)
    assert loads.hot_keys(ROUTING) == []


def test_keys_that_are_spread_are_not_hot() -> None:
    loads = Loads()
    loads.told(report(0, dict.fromkeys(range(128), 5.0), ("1", 0.01)))
    loads.told(report(1, dict.fromkeys(range(128, 256), 5.0), ("2", 0.01)))
    assert loads.hot_keys(ROUTING) == [] and loads.division(ROUTING, O, 4) == even_slots(4)


def test_what_a_host_had_to_do_is_a_share_of_its_time() -> None:
    load = Loads().host_load(HostId(3), report(1, {}))
    assert (load.host, load.cpu, dict(load.shards)) == (3, 0.6, {ShardId(O, 1): 0.5})
