"""Routing state (S1): key slot → shard → host, as one versioned, immutable table.

The controller owns it. Whatever moves a shard (recovery) or divides an operator's slots anew (scale out and scale in) is a new
version of the table, made between two epochs. A request carries the version it was planned under, and hosts refuse older ones: that is what
keeps a task that outlived its job, or a host that slept through a move, from doing harm.

Invariant: the shards of an operator cover the slots 0 … SLOTS-1 without gap or overlap.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from perseid.errors import ScaleFailed
from perseid.vocabulary import SLOTS, HostId, OperatorName, ShardId, SlotRange, Version

Shards = tuple[tuple[int, SlotRange], ...]
"""How an operator's slots are divided among its shards: their numbers and slots, in the order of the slots."""


@dataclass(frozen=True, slots=True)
class Route:
    """One shard: which slots it answers for (half open), where it lives, and which other hosts could answer for it."""

    shard: ShardId
    slots: SlotRange
    host: HostId | None
    standbys: tuple[HostId, ...] = ()
    patience_ms: int = 0  # after so much silence of one place the next is asked, too; 0: at once

    @property
    def places(self) -> tuple[HostId, ...]:
        """Where the shard may be asked: at its host, then at its standbys."""
        return self.standbys if self.host is None else (self.host, *self.standbys)


def even_slots(shards: int) -> tuple[SlotRange, ...]:
    """Cut the slots into ``shards`` ranges whose sizes differ by at most one.

    >>> even_slots(3)
    ((0, 86), (86, 171), (171, 256))
    """
    bounds = [-(-SLOTS * i // shards) for i in range(shards + 1)]
    return tuple((bounds[i], bounds[i + 1]) for i in range(shards))


def numbered(slots: Sequence[SlotRange], first: int = 0) -> Shards:
    """Shards for these ranges of slots, numbered from ``first`` on."""
    return tuple(enumerate(slots, start=first))


def _routes(operator: OperatorName, shards: Shards) -> dict[ShardId, Route]:
    return {ShardId(operator, i): Route(ShardId(operator, i), slots, None) for i, slots in shards}


@dataclass(frozen=True)
class RoutingTable:
    """Where every shard is. A change makes a new table with a higher version."""

    version: Version
    routes: Mapping[ShardId, Route]

    @classmethod
    def initial(cls, shards: Mapping[OperatorName, Shards]) -> RoutingTable:
        """No shard has a host yet."""
        return cls(Version(1), {s: r for operator, mine in shards.items() for s, r in _routes(operator, mine).items()})

    def shards(self, operator: OperatorName) -> Shards:
        """How the operator's slots are divided now."""
        return tuple((route.shard.index, route.slots) for route in self.of(operator))

    def shards_of(self, operators: Iterable[OperatorName]) -> list[ShardId]:
        """All shards of these operators."""
        return [route.shard for operator in operators for route in self.of(operator)]

    def moved(self, hosts: Mapping[ShardId, HostId | None]) -> RoutingTable:
        """The next version, with these shards on these hosts, without standbys."""
        moved = {s: replace(self.routes[s], host=host, standbys=(), patience_ms=0) for s, host in hosts.items()}
        return RoutingTable(Version(self.version + 1), {**self.routes, **moved})

    def guarded(
        self, shards: Iterable[ShardId], host: HostId, standbys: Sequence[HostId], patience_ms: int = 0
    ) -> RoutingTable:
        """The next version, with these shards on this host and others as standbys."""
        others = tuple([other for other in standbys if other != host])
        guarded = {
            s: replace(self.routes[s], host=host, standbys=others, patience_ms=patience_ms if others else 0)
            for s in shards
            if s in self.routes
        }
        return RoutingTable(Version(self.version + 1), {**self.routes, **guarded})

    def with_shards_of(self, operator: OperatorName, other: RoutingTable) -> RoutingTable:
        """This table with an operator's shards of another one, which was made of this one or of one before it."""
        if self.version == other.version:
            return other
        kept = {shard: route for shard, route in self.routes.items() if shard.operator != operator}
        return RoutingTable(Version(self.version + 1), {**kept, **{route.shard: route for route in other.of(operator)}})

    def host_of(self, shard: ShardId) -> HostId | None:
        """The host of a shard; None while it has none."""
        return self.routes[shard].host

    def shards_on(self, host: HostId) -> tuple[ShardId, ...]:
        """All shards of a host."""
        return self._by_host.get(host, ())

    @property
    def hosts(self) -> Set[HostId | None]:
        """All that hold a shard; None, if a shard has no host."""
        return self._by_host.keys()

    def of(self, operator: OperatorName) -> tuple[Route, ...]:
        """The routes of one operator, in the order of their slots: Spark's partition i is the i-th of them."""
        return self._by_operator.get(operator, ())

    def guarded_by(self, host: HostId) -> tuple[ShardId, ...]:
        """All shards that have the host as a standby."""
        return tuple([shard for shard, route in self.routes.items() if host in route.standbys])

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
        return {operator: tuple(sorted(routes, key=attrgetter("slots"))) for operator, routes in found.items()}

    def check(self) -> None:
        """Assert that every slot of every operator has exactly one shard."""
        assert self._mistake is None, self._mistake

    @cached_property
    def _mistake(self) -> str | None:
        for route in self.routes.values():
            if len(set(route.places)) < len(route.places):
                return f"{route.shard} has one host twice: {route.places}"
        for operator in self._by_operator:
            bounds = [r.slots for r in self.of(operator)]
            if bounds[0][0] != 0 or bounds[-1][1] != SLOTS:
                return f"operator {operator!r} does not cover the slots"
            if any(a[1] != b[0] for a, b in pairwise(bounds)):
                return f"{operator!r}: gap or overlap"
        return None


def new_shards(table: RoutingTable, operator: OperatorName, slots: Sequence[SlotRange], highest: int) -> Shards:
    """Shards for these slots, with numbers above the highest ever given to one of the operator: not even an attempt that was given up
    had them, for input that its shards kept may still lie about."""
    return numbered(slots, 1 + max(highest, *(index for index, _ in table.shards(operator))))


def partition_routing_state(
    table: RoutingTable,
    replaced: Collection[ShardId],
    shards: Shards,
    hosts: Mapping[ShardId, HostId | None] | None = None,
) -> RoutingTable:
    """The next version, with other shards in place of some of one operator's (S2): more of them, fewer, or as many with other slots.

    The new ones have numbers that none has, and cover just the slots of those they replace; without ``hosts`` they have none yet.
    """
    operators = {shard.operator for shard in replaced}
    covered = _joined(table.routes[shard].slots for shard in replaced if shard in table.routes)
    fresh = {} if len(operators) != 1 else _routes(operators.pop(), shards)
    kept = {shard: route for shard, route in table.routes.items() if shard not in replaced}
    if not fresh or fresh.keys() & table.routes.keys() or _joined(slots for _, slots in shards) != covered:
        raise ScaleFailed(
            f"shards {', '.join(map(str, sorted(replaced)))} hold the slots {covered}: expected shards of one operator, and"
            f" new ones with other numbers and the same slots, got {shards}"
        )
    mine = {s: replace(route, host=(hosts or {}).get(s)) for s, route in fresh.items()}
    return RoutingTable(Version(table.version + 1), {**kept, **mine})


def _joined(ranges: Iterable[SlotRange]) -> list[SlotRange]:
    """Ranges that touch as one; overlapping ones stay apart, so that they equal nothing that is right."""
    found: list[SlotRange] = []
    for first, last in sorted(ranges):
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


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
