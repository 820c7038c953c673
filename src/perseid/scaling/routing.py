"""Routing state (S1): key slot → shard → host, as one versioned, immutable table.

The controller owns it. Whatever moves a shard (recovery, later scale out or a standby) is a new version of the table, made
between two epochs. A request carries the version it was planned under, and hosts refuse older ones: that is what
keeps a task that outlived its job, or a host that slept through a move, from doing harm.

Invariant: the shards of an operator cover the slots 0 … SLOTS-1 without gap or overlap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from perseid.vocabulary import SLOTS, HostId, OperatorName, ShardId, Version


@dataclass(frozen=True, slots=True)
class Route:
    """One shard: which slots it answers for (half open), and where it lives."""

    shard: ShardId
    slots: tuple[int, int]
    host: HostId | None


def even_slots(shards: int) -> tuple[tuple[int, int], ...]:
    """Cut the slots into ``shards`` ranges whose sizes differ by at most one.

    >>> even_slots(3)
    ((0, 86), (86, 171), (171, 256))
    """
    bounds = [-(-SLOTS * i // shards) for i in range(shards + 1)]
    return tuple((bounds[i], bounds[i + 1]) for i in range(shards))


@dataclass(frozen=True)
class RoutingTable:
    """Where every shard is. A change makes a new table with a higher version."""

    version: Version
    routes: Mapping[ShardId, Route]

    @classmethod
    def initial(cls, shards: Mapping[OperatorName, int]) -> RoutingTable:
        """Every operator's slots cut evenly; no shard has a host yet."""
        routes = {
            ShardId(operator, i): Route(ShardId(operator, i), slots, None)
            for operator, count in shards.items()
            for i, slots in enumerate(even_slots(count))
        }
        return cls(Version(1), routes)

    def moved(self, hosts: Mapping[ShardId, HostId | None]) -> RoutingTable:
        """The next version, with these shards on these hosts."""
        routes = {**self.routes, **{s: replace(self.routes[s], host=h) for s, h in hosts.items()}}
        return RoutingTable(Version(self.version + 1), routes)

    def host_of(self, shard: ShardId) -> HostId | None:
        return self.routes[shard].host

    def shards_on(self, host: HostId) -> tuple[ShardId, ...]:
        return self._by_host.get(host, ())

    @property
    def hosts(self) -> Set[HostId | None]:
        """All that hold a shard; None, if a shard has no host."""
        return self._by_host.keys()

    def of(self, operator: OperatorName) -> tuple[Route, ...]:
        """The routes of one operator, by shard index."""
        return self._by_operator.get(operator, ())

    @cached_property
    def _by_host(self) -> Mapping[HostId | None, tuple[ShardId, ...]]:
        found: dict[HostId | None, list[ShardId]] = {}
        for shard, route in self.routes.items():
            found.setdefault(route.host, []).append(shard)
        return {host: tuple(shards) for host, shards in found.items()}

    @cached_property
    def _by_operator(self) -> Mapping[OperatorName, tuple[Route, ...]]:
        found: dict[OperatorName, list[Route]] = {}
        for shard, route in self.routes.items():
            found.setdefault(shard.operator, []).append(route)
        return {operator: tuple(sorted(routes, key=lambda r: r.shard.index)) for operator, routes in found.items()}

    def slot_table(self, operator: OperatorName) -> list[int]:
        """The shard index of every slot, for Spark to look up."""
        table = [0] * SLOTS
        for route in self.of(operator):
            for slot in range(*route.slots):
                table[slot] = route.shard.index
        return table

    def check(self) -> None:
        assert self._mistake is None, self._mistake

    @cached_property
    def _mistake(self) -> str | None:
        for operator in self._by_operator:
            bounds = sorted(r.slots for r in self.of(operator))
            if bounds[0][0] != 0 or bounds[-1][1] != SLOTS:
                return f"operator {operator!r} does not cover the slots"
            if any(a[1] != b[0] for a, b in pairwise(bounds)):
                return f"{operator!r}: gap or overlap"
        return None


def place(
    shards: Iterable[ShardId], load: Mapping[HostId, int], spares: Iterable[HostId] = ()
) -> dict[ShardId, HostId]:
    """Spread shards over hosts: first over spares, then wherever the fewest shards are. Deterministic."""
    fresh = set(spares)
    emptiest = [(n, h not in fresh, h) for h, n in {**dict.fromkeys(fresh, 0), **load}.items()]
    heapq.heapify(emptiest)
    placed: dict[ShardId, HostId] = {}
    for shard in sorted(shards):
        count, old, host = emptiest[0]
        placed[shard] = host
        heapq.heapreplace(emptiest, (count + 1, old, host))
    return placed
