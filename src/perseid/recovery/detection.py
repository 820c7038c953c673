"""Failure detection (M7): heartbeats, the word of neighbours, a host's own report.

A host is dead when its connection broke, when it missed ``misses`` heartbeats, or when it says that it cannot go on (for
instance because storage is out of its reach). Neighbours above it (the tasks that send it epochs) report what they saw;
their word makes it suspect, and a suspect has only ``suspect_misses`` heartbeats left to prove itself.

A host that alone cannot reach storage, again and again, is given up, too: its shards are better off elsewhere. Where every
host has that trouble it is the storage's, and moving shards would not help.

Invariant: a host is reported dead once, whatever number of observers saw it: one failure, one recovery.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.vocabulary import HostId


@dataclass(frozen=True, slots=True)
class Death:
    """A host given up, why, and how long after the last sign of life."""

    host: HostId
    reason: str
    silent_ms: int


@dataclass(slots=True)
class Detector:
    """Decides which hosts are dead. Time arrives with every event."""

    heartbeat_ms: int
    misses: int = 7
    suspect_misses: int = 3
    busy_ms: int = 60_000  # patience with a host that works on something that may hold it up (a restore)
    seen_ms: dict[HostId, int] = field(default_factory=dict)  # of hosts that are alive
    suspects: set[HostId] = field(default_factory=set)
    busy: dict[HostId, int] = field(default_factory=dict)  # since when
    troubles: int = 3  # reports in a row of its own trouble, and nobody else's, after which a host is given up
    troubled: dict[HostId, int] = field(
        default_factory=dict
    )  # reports of own trouble since the last success of anybody

    def host_registered(self, host: HostId, now_ms: int) -> None:
        self.seen_ms[host] = now_ms

    def heartbeat_arrived(self, host: HostId, now_ms: int) -> None:
        if host in self.seen_ms:
            self.seen_ms[host] = now_ms
            self.suspects.discard(host)

    def work_began(self, host: HostId, now_ms: int) -> None:
        """The host was told to do something that may keep it from answering."""
        if host in self.seen_ms:
            self.busy[host] = now_ms

    def work_ended(self, host: HostId, now_ms: int) -> None:
        if self.busy.pop(host, None) is not None:
            self.heartbeat_arrived(host, now_ms)

    def suspected(self, host: HostId) -> None:
        """A neighbour could not reach it."""
        if host in self.seen_ms:
            self.suspects.add(host)

    def trouble_reported(self, host: HostId, reason: str, now_ms: int) -> tuple[Death, ...]:
        """The host itself says that it cannot do its work."""
        if host not in self.seen_ms:
            return ()
        self.troubled[host] = self.troubled.get(host, 0) + 1
        alone = len(self.troubled) == 1 and len(self.seen_ms) > 1
        return (self._bury(host, reason, now_ms),) if alone and self.troubled[host] >= self.troubles else ()

    def trouble_ended(self) -> None:
        """A checkpoint was completed: everybody could write."""
        self.troubled.clear()

    def lost(self, host: HostId, reason: str, now_ms: int) -> tuple[Death, ...]:
        """Its connection broke, or it gave itself up."""
        if host not in self.seen_ms:
            return ()
        return (self._bury(host, reason, now_ms),)

    def tick(self, now_ms: int) -> tuple[Death, ...]:
        """Who has been silent for too long?"""
        deaths = []
        for host, seen in list(self.seen_ms.items()):
            if host in self.busy:
                limit, since = self.busy_ms, self.busy[host]
            else:
                limit = self.heartbeat_ms * (self.suspect_misses if host in self.suspects else self.misses)
                since = seen
            if now_ms - since > limit:
                deaths.append(self._bury(host, f"silent for {now_ms - seen} ms", now_ms))
        return tuple(deaths)

    def paused(self, now_ms: int) -> None:
        """The observer itself was away (not scheduled, suspended): nobody's silence in that time counts."""
        for host in self.seen_ms:
            self.seen_ms[host] = now_ms

    def _bury(self, host: HostId, reason: str, now_ms: int) -> Death:
        seen = self.seen_ms.pop(host)
        self.suspects.discard(host)
        self.busy.pop(host, None)
        self.troubled.pop(host, None)
        return Death(host, reason, now_ms - seen)

    def check(self) -> None:
        assert self.suspects <= self.seen_ms.keys()
        assert self.busy.keys() <= self.seen_ms.keys()
        assert self.troubled.keys() <= self.seen_ms.keys()
