"""Where the second copies go: every primary host's shards have theirs on one other host (H5, H7).

A host on another machine is best, for then no machine takes both; else one of another executor; else any other host. Copies stay where
they are unless there is an assignment with more of them, or with more on better places. Hosts without shards come first, then
those that carry the fewest copies.

Invariants: no host carries its own copy, nor more copies than ``share``; a primary stays without a copy only if no
assignment has a place for one more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal

from perseid.vocabulary import HostId

Fate = Literal["executor", "machine"]

_KINDS: tuple[Fate | None, ...] = (None, "machine", "executor")  # what is lost with both hosts: the best place first


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host runs."""

    machine: str
    executor: str  # unique among all machines


@dataclass(frozen=True, slots=True)
class Placement:
    """Which host carries the copy of which primary."""

    copies: Mapping[HostId, HostId]  # by primary
    same_fate: Mapping[HostId, Fate]  # primaries that one loss takes with their copy: what is lost then
    unplaced: frozenset[HostId]  # primaries without a copy: no host has room

    @property
    def degraded(self) -> bool:
        """Is a primary unguarded, or guarded by a copy that may be lost with it?"""
        return bool(self.unplaced or self.same_fate)


def place_copies(
    primaries: Set[HostId],
    places: Mapping[HostId, Place],
    *,
    share: int = 1,
    busy: Set[HostId] | None = None,
    current: Mapping[HostId, HostId] | None = None,
) -> Placement:
    """Decide. ``places`` are all hosts that live, ``busy`` those that hold shards (by default the primaries), ``current``
    says where copies are now. Deterministic."""
    assert primaries <= places.keys() and share >= 1
    search = _Search(places, share, frozenset(primaries if busy is None else busy))
    for allowed in range(1, len(_KINDS) + 1):
        kinds = _KINDS[:allowed]
        search.keep({p: c for p, c in (current or {}).items() if p in primaries}, kinds)
        for primary in sorted(primaries - search.copies.keys()):
            search.place(primary, kinds)
    kept = _Search(places, share, frozenset())
    kept.keep({p: c for p, c in (current or {}).items() if p in primaries}, _KINDS)
    best = max((kept, search), key=_Search.score)  # the first of equals: copies do not move for nothing
    fates = {primary: fate(places[primary], places[copy]) for primary, copy in best.copies.items()}
    return Placement(
        dict(sorted(best.copies.items())),
        {p: f for p, f in sorted(fates.items()) if f is not None},
        frozenset(primaries - best.copies.keys()),
    )


def fate(one: Place, other: Place) -> Fate | None:
    """What, when lost, takes both hosts; the smallest such thing."""
    if one.machine != other.machine:
        return None
    return "executor" if one.executor == other.executor else "machine"


@dataclass(slots=True)
class _Search:
    """An assignment that grows by one primary at a time, and moves others out of the way where it must."""

    places: Mapping[HostId, Place]
    share: int
    busy: frozenset[HostId]
    copies: dict[HostId, HostId] = field(default_factory=dict)
    load: Counter[HostId] = field(default_factory=Counter)

    def keep(self, current: Mapping[HostId, HostId], kinds: tuple[Fate | None, ...]) -> None:
        """Leave copies that are on hosts of these kinds where they are."""
        for primary, copy in sorted(current.items()):
            if primary in self.copies or primary == copy or copy not in self.places or self.load[copy] >= self.share:
                continue
            if fate(self.places[primary], self.places[copy]) in kinds:
                self.copies[primary] = copy
                self.load[copy] += 1

    def score(self) -> tuple[int, int, int]:
        """The more copies there are, and the fewer losses take both, the better."""
        fates = [fate(self.places[primary], self.places[copy]) for primary, copy in self.copies.items()]
        return len(fates), fates.count(None), fates.count("machine")

    def place(self, primary: HostId, kinds: tuple[Fate | None, ...]) -> None:
        """Give a primary a copy on a host of these kinds, if some assignment has room for all placed so far and for it."""
        if sum(self.load.values()) >= self.share * len(self.places):
            return
        came_from: dict[
            HostId, tuple[HostId, HostId]
        ] = {}  # by host reached: who would move there, and from which host
        seen, waiting = {primary}, deque([primary])
        while waiting:
            moving = waiting.popleft()
            for host in self._choices(moving, kinds):
                if host in came_from:
                    continue
                came_from[host] = (moving, self.copies.get(moving, host))
                if self.load[host] < self.share:
                    self._move(host, came_from, primary)
                    return
                settled = sorted(p for p, at in self.copies.items() if at == host and p not in seen)
                seen.update(settled)
                waiting.extend(settled)

    def _choices(self, primary: HostId, kinds: tuple[Fate | None, ...]) -> Iterable[HostId]:
        """Hosts of these kinds: the best kind first, then hosts without shards, then the emptiest."""
        mine = self.places[primary]
        ranked = (
            (kinds.index(shared), host in self.busy, self.load[host], host)
            for host, place in self.places.items()
            if host != primary and (shared := fate(mine, place)) in kinds
        )
        return [host for *_, host in sorted(ranked)]

    def _move(self, host: HostId, came_from: Mapping[HostId, tuple[HostId, HostId]], primary: HostId) -> None:
        """Everybody on the way moves on by one."""
        while True:
            moving, left = came_from[host]
            self.copies[moving] = host
            self.load[host] += 1
            if moving == primary:
                return
            self.load[left] -= 1
            host = left
