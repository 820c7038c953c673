"""Snapshots kept by other hosts, seen from the driver: tells hosts to fetch them, and knows who has what (S2, ``backup_state``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from perseid.checkpoint.lifecycle import CompletedCheckpoint, SavedShard
from perseid.engine.messages import Address, BackedUp, Covered, ForgetCheckpoints, KeepBackup, ReleaseBackup, ToHost
from perseid.graph.topology import Topology
from perseid.recovery.backups import BackupPolicy
from perseid.scaling.routing import RoutingTable
from perseid.storage import layout
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId


class HostBackups:
    """All backups of one run. Any thread may call it."""

    def __init__(
        self,
        topology: Topology,
        send: Callable[[HostId, ToHost], None],
        addresses: Callable[[], Mapping[HostId, Address]],
        record: Callable[[HostId, str, int], None],
        routing: Callable[[], RoutingTable],
    ) -> None:
        """``addresses`` are those of the hosts that live; ``record`` notes that a host keeps a file of so many bytes."""
        self._policy = BackupPolicy(topology)
        self._send, self._addresses, self._record, self._routing = send, addresses, record, routing
        self._lock = threading.Lock()

    def committed(self, snapshots: Iterable[SavedShard]) -> None:
        """A checkpoint is durable: have its snapshots kept elsewhere, too."""
        addresses = self._addresses()
        paths = {ShardId(OperatorName(s.operator), s.index): s.path for s in snapshots}
        machines = {host: address.machine for host, address in addresses.items()}
        with self._lock:
            plans = self._policy.committed(paths, self._routing(), machines)
        for plan in plans:
            self._send(plan.to, KeepBackup(plan.path, addresses[plan.source]))
            if plan.released is not None:
                host, path = plan.released
                self._send(host, ReleaseBackup(path))

    def told(self, host: HostId, message: BackedUp) -> None:
        """A host has a copy."""
        with self._lock:
            self._policy.stored(host, message.path)
        self._record(host, message.path, message.bytes)

    def lost(self, host: HostId) -> None:
        with self._lock:
            self._policy.lost(host)

    def forgotten(self, folders: Iterable[str]) -> None:
        with self._lock:
            for folder in folders:
                self._policy.forgotten(folder)

    def address(self, path: str) -> Address | None:
        """Where a copy of a snapshot can be had from."""
        with self._lock:
            host = self._policy.holder(path)
        return self._addresses().get(host) if host is not None else None


@dataclass(frozen=True)
class HostsToldOfCheckpoints:
    """Every host is told of checkpoints; some keep copies of others' snapshots."""

    broadcast: Callable[[ToHost], None]
    backups: HostBackups

    def covered(self, cuts: Mapping[OperatorName, Epoch]) -> None:
        self.broadcast(Covered(cuts))

    def back_up(self, done: CompletedCheckpoint) -> None:
        # under baseline it also names files of earlier ones, which have their copies
        self.backups.committed(s for _, s in sorted(done.shards.items()) if layout.checkpoint_with(s.path) == done.id)

    def forget(self, folders: Iterable[str]) -> None:
        paths = tuple(folders)
        self.broadcast(ForgetCheckpoints(paths))
        self.backups.forgotten(paths)
