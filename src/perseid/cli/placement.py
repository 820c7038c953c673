"""Where shards and their copies are, and who answers for whom, as the journal told last. For ``perseid inspect`` and ``perseid top``."""

from __future__ import annotations

import time
from dataclasses import dataclass

from perseid.cli import figures
from perseid.dashboard import standby_view
from perseid.dashboard.picture import Picture


@dataclass(frozen=True)
class HostFacts:
    """A host, what it holds, and its copy."""

    id: int
    shards: tuple[str, ...]
    copies_of: tuple[int, ...]  # primaries whose copy it has
    copy: int | None = None  # the host that has its copy
    standby: str = ""  # unguarded, deploying, guarded, switched; empty: none is wanted
    answering: int | None = None  # for its shards
    behind: int | None = None  # committed epochs that the copy does not have
    refreshed_ms: int | None = None
    switches: int = 0  # to the copy
    reason: str = ""  # why there is no copy, or why it answers


@dataclass(frozen=True)
class SwitchFacts:
    """How often somebody else answered, and why the last time. Counts what the journal still has."""

    to_copy: int
    back: int
    for_good: int
    last: str  # as a sentence
    last_ms: int

    def __str__(self) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.last_ms / 1000))
        return f"{self.to_copy} to a copy, {self.back} back, {self.for_good} for good; last at {at}: {self.last}"


def hosts(picture: Picture) -> tuple[HostFacts, ...]:
    """Every host that is alive, or that a copy answers for."""
    return tuple(_host(picture, id) for id in sorted(picture.hosts.keys() | picture.pairs.keys()))


def switches(picture: Picture) -> SwitchFacts | None:
    """None where nobody ever answered for somebody else."""
    totals, last = picture.totals, picture.last_switch
    if last is None:
        return None
    return SwitchFacts(totals.switches, totals.roll_backs, totals.promotions, last.text, last.at_ms)


def contents(host: HostFacts) -> str:
    """Its shards, and whose copies it has."""
    copies = [f"copy of host {figures.listed(host.copies_of)}"] if host.copies_of else []
    return " ".join([*host.shards, *copies]) or "spare"


def _host(picture: Picture, id: int) -> HostFacts:
    shards = tuple(sorted((s.name for s in picture.shards.values() if s.host == id), key=_by_number))
    copies_of = tuple(sorted(pair.primary for pair in picture.pairs.values() if pair.copy == id))
    pair = picture.pairs.get(id)
    if pair is None:
        return HostFacts(id, shards, copies_of)
    return HostFacts(
        id, shards, copies_of, pair.copy, pair.phase, pair.answering, standby_view.behind(picture, pair), pair.refreshed_ms,
        pair.switches, pair.reason,
    )  # fmt: skip


def _by_number(shard: str) -> tuple[str, int]:
    operator, _, number = shard.rpartition("/")
    return operator, int(number) if number.isdigit() else 0
