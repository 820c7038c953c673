"""Which host keeps a second copy of which shard's snapshot (S2, ``backup_state``; the paper's Algorithm 1).

After a checkpoint, a shard's snapshot is kept by a host upstream of it, chosen by hash: one that holds shards of an operator
above, or, below a source, any other; on another machine where there is one. Whoever restores the shard on a machine that has no
copy takes it from there: nearer than a root that is far away, and good where the file on the root is damaged.

Backups are a short cut, never the truth: a checkpoint does not wait for them, and what they hold counts only if its hash is the manifest's.

Invariant: no shard's backup is where the shard itself is, as long as there is another host.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from perseid.graph.topology import Topology
from perseid.scaling.routing import RoutingTable
from perseid.state.backup import Backups, backup_state
from perseid.vocabulary import HostId, OperatorName, ShardId


@dataclass(frozen=True, slots=True)
class BackUp:
    """A host is to fetch a shard's snapshot from another; a third releases the one it kept before."""

    shard: ShardId
    path: str
    source: HostId
    to: HostId
    released: tuple[HostId, str] | None = None  # and the path of what it kept


class BackupPolicy:
    """Decides which host keeps what, and remembers what is there."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._planned: Backups[str] = Backups()  # paths
        self._there: dict[str, HostId] = {}  # by path: who has said that it keeps it

    def committed(
        self, paths: Mapping[ShardId, str], routing: RoutingTable, machines: Mapping[HostId, str]
    ) -> list[BackUp]:
        """A checkpoint has these snapshots. ``machines`` are those of the hosts that live."""
        plans = []
        for shard, path in sorted(paths.items()):
            home = routing.host_of(shard) if shard in routing.routes else None
            if home not in machines or home is None:
                continue
            before, old = self._planned.host_of(shard), self._planned.retrieve(shard)
            upstream = self._upstream(shard.operator, home, routing, machines)
            self._planned, left = backup_state(self._planned, shard, path, upstream)
            to = self._planned.host_of(shard)
            if to is not None and (before, old) != (to, path):
                plans.append(BackUp(shard, path, home, to, (left, old) if left in machines and left and old else None))
        return plans

    def stored(self, host: HostId, path: str) -> None:
        """A host has it."""
        self._there[path] = host

    def lost(self, host: HostId) -> None:
        """A host is gone, and what it kept."""
        self._planned = self._planned.lost(host)
        self._there = {path: where for path, where in self._there.items() if where != host}

    def forgotten(self, folder: str) -> None:
        """A checkpoint was deleted, everywhere."""
        self._there = {path: host for path, host in self._there.items() if not path.startswith(f"{folder}/")}

    def holder(self, path: str) -> HostId | None:
        """Who has a copy of this file."""
        return self._there.get(path)

    def _upstream(
        self, operator: OperatorName, home: HostId, routing: RoutingTable, machines: Mapping[HostId, str]
    ) -> Set[HostId]:
        unit = self._topology.unit(self._topology.unit_of(operator))
        above = set(unit.feeders.get(operator, ()))
        above = above or {o for u in self._topology.upstream(unit.name) for o in self._topology.unit(u).operators}
        holding = {route.host for one in above for route in routing.of(one)} & (machines.keys() - {home})
        others = {host for host in holding if host is not None} or machines.keys() - {home}
        return {host for host in others if machines[host] != machines[home]} or others
