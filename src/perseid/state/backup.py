"""Who keeps the backup of whom (S2: ``backup_state``; the paper's Algorithm 1).

A shard's state is kept by one of the hosts upstream of it, chosen by hash, so that their load is even and nobody has to
remember the choice. Each host's claim is weighed by a hash of its own (highest wins), not taken modulo their number: where hosts come
and go only the backups of those concerned move, not nearly all.

Invariant: a shard has at most one backup; when its place changes, the old one is released after the new one is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import xxhash

from perseid.vocabulary import HostId, ShardId

State = TypeVar("State")


@dataclass(frozen=True)
class Backups(Generic[State]):
    """What hosts keep for others."""

    held: Mapping[HostId, Mapping[ShardId, State]] = field(default_factory=dict)

    def host_of(self, shard: ShardId) -> HostId | None:
        """The paper's backup(o)."""
        return next((host for host, kept in self.held.items() if shard in kept), None)

    def retrieve(self, shard: ShardId) -> State | None:
        """What was backed up of a shard."""
        host = self.host_of(shard)
        return None if host is None else self.held[host][shard]

    def lost(self, host: HostId) -> Backups[State]:
        """A host died, and with it what it kept."""
        return replace(self, held={h: kept for h, kept in self.held.items() if h != host})

    def released(self, shard: ShardId) -> Backups[State]:
        """Nobody wants a shard's backup any more."""
        held = {h: {s: state for s, state in kept.items() if s != shard} for h, kept in self.held.items()}
        return replace(self, held={h: kept for h, kept in held.items() if kept})

    def check(self) -> None:
        """Assert that no shard has two backups."""
        shards = [shard for kept in self.held.values() for shard in kept]
        assert len(shards) == len(set(shards)), "a shard has two backups"


def backup_state(
    backups: Backups[State], shard: ShardId, state: State, upstream: Iterable[HostId]
) -> tuple[Backups[State], HostId | None]:
    """Keep a shard's state at one of the hosts upstream; whoever kept the one before and is another releases it, and is named.

    Without any host upstream there is no backup, and the one before is released.
    """
    before, host = backups.host_of(shard), backup_host(shard, upstream)
    held = dict(backups.released(shard).held)
    if host is not None:
        held[host] = {**held.get(host, {}), shard: state}
    return Backups(held), before if before != host else None


def backup_host(shard: ShardId, upstream: Iterable[HostId]) -> HostId | None:
    """The one among these hosts that keeps the shard's backup; None if there is none."""
    claims = {host: xxhash.xxh3_64_intdigest(f"{shard}@{host}".encode()) for host in upstream}
    return max(claims, key=lambda host: (claims[host], host), default=None)
