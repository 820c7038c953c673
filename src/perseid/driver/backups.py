"""Snapshots kept by other hosts, seen from the driver: tells hosts to fetch them, and knows who has what (S2, ``backup_state``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from perseid.checkpoint.lifecycle import SavedShard
from perseid.driver.hosts import Hosts
from perseid.driver.journal_writer import JournalWriter
from perseid.engine import notices
from perseid.engine.messages import Address, BackedUp, KeepBackup, ReleaseBackup
from perseid.graph.topology import Topology
from perseid.recovery.backups import BackupPolicy
from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import HostId, OperatorName, ShardId


class HostBackups:
    """All backups of one run. Any thread may call it."""

    def __init__(
        self, topology: Topology, hosts: Hosts, journal_writer: JournalWriter, routing: Callable[[], RoutingTable]
    ) -> None:
        self._policy, self._hosts, self._journal_writer, self._routing = (
            BackupPolicy(topology),
            hosts,
            journal_writer,
            routing,
        )
        self._lock = threading.Lock()

    def committed(self, snapshots: Iterable[SavedShard]) -> None:
        """A checkpoint is durable: have its snapshots kept elsewhere, too."""
        addresses = self._hosts.addresses
        paths = {ShardId(OperatorName(s.operator), s.index): s.path for s in snapshots}
        machines = {host: address.machine for host, address in addresses.items()}
        with self._lock:
            plans = self._policy.committed(paths, self._routing(), machines)
        for plan in plans:
            self._hosts.send(plan.to, KeepBackup(plan.path, addresses[plan.source]))
            if plan.released is not None:
                host, path = plan.released
                self._hosts.send(host, ReleaseBackup(path))

    def told(self, host: HostId, message: BackedUp) -> None:
        """A host has a copy."""
        with self._lock:
            self._policy.stored(host, message.path)
        self._journal_writer.notice(notices.BackedUp(host, message.path, message.bytes))

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
        return self._hosts.addresses.get(host) if host is not None else None
