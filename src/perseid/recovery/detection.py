"""Failure detection (M7): heartbeats, the word of neighbours, a host's own report.

A host is dead when its connection broke, when it missed ``misses`` heartbeats, or when it says that it cannot go on (for
instance because storage is out of its reach). Neighbours above it (the tasks that send it epochs) report what they saw;
their word makes it suspect, and a suspect has only ``suspect_misses`` heartbeats left to prove itself.

A host that alone cannot reach storage, again and again, is given up, too: its shards are better off elsewhere. Where every
host has that trouble it is the storage's, and moving shards would not help.

A host beats from a thread of its own, also while it restores or saves shards; but pickle holds the interpreter, and with it the
heart, for as long as the state is large. So silence at work is given more time, by the size of the state (``patience``). Should that
not be enough, it is doubled every time until a checkpoint is completed: no state is so large that its hosts are given up for ever.

Silence counts only while somebody listens: a controller that did not run itself for a while (its process was paused, its machine slept,
its clock jumped) heard nobody, and that is nobody's fault but its own.

Invariant: a host is reported dead once, whatever number of observers saw it: one failure, one recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.vocabulary import HostId

WORK_PATIENCE_MS = 5_000
WORK_BYTES_PER_MS = 8_000  # pickle reads objects at 8 MB/s and more
UNKNOWN_PATIENCE_MS = 60_000
LENIENCY_LIMIT = 64
NOBODY: Mapping[HostId, int] = {}


def patience_ms(state_bytes: int | None) -> int:
    """How much longer than usual a host may be silent that restores or saves so much state; None: nobody knows how much."""
    return UNKNOWN_PATIENCE_MS if state_bytes is None else WORK_PATIENCE_MS + state_bytes // WORK_BYTES_PER_MS


class Work(NamedTuple):
    """What a host was told to do, since when, and how much silence is allowed for it."""

    since_ms: int
    patience_ms: int


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
    stuck_ms: int = 600_000  # a host whose heart beats but whose work does not end is given up, too
    seen_ms: dict[HostId, int] = field(default_factory=dict)  # of hosts that are alive
    suspects: set[HostId] = field(default_factory=set)
    busy: dict[HostId, Work] = field(default_factory=dict)  # the oldest work first
    leniency: int = 1  # times the patience with a host at work
    listened_ms: int | None = None  # when somebody was last heard, or listened for
    troubles: int = 3  # reports in a row of its own trouble, and nobody else's, after which a host is given up
    troubled: dict[HostId, int] = field(
        default_factory=dict
    )  # reports of own trouble since the last success of anybody

    def host_registered(self, host: HostId, now_ms: int) -> None:
        self._listen(now_ms)
        self.seen_ms[host] = now_ms

    def heartbeat_arrived(self, host: HostId, now_ms: int) -> None:
        self._listen(now_ms)
        if host in self.seen_ms:
            self.seen_ms[host] = now_ms
            self.suspects.discard(host)

    def work_began(self, host: HostId, now_ms: int, state_bytes: int | None) -> None:
        """The host was told to do something that may keep its heart from beating, with so much state."""
        if host in self.seen_ms:
            self.busy.pop(host, None)
            self.busy[host] = Work(now_ms, patience_ms(state_bytes))

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
        return (self._died(host, reason, now_ms),) if alone and self.troubled[host] >= self.troubles else ()

    def trouble_ended(self) -> None:
        """A checkpoint was completed: everybody could write, and did so in time."""
        self.troubled.clear()
        self.leniency = 1

    def lost(self, host: HostId, reason: str, now_ms: int) -> tuple[Death, ...]:
        """Its connection broke, or it gave itself up."""
        if host not in self.seen_ms:
            return ()
        return (self._died(host, reason, now_ms),)

    def tick(self, now_ms: int, patience_ms: Mapping[HostId, int] = NOBODY) -> tuple[Death, ...]:
        """Who has been silent for too long? Some are waited for longer, since others stand in for them."""
        self._listen(now_ms)
        oldest = next(iter(self.busy.values()), None)
        stuck = oldest is not None and now_ms - oldest.since_ms > self.stuck_ms
        if not stuck and now_ms - min(self.seen_ms.values(), default=now_ms) <= self.heartbeat_ms * self.suspect_misses:
            return ()  # nobody: asked again and again, for thousands of hosts
        deaths, at_work = [], False
        for host, seen in list(self.seen_ms.items()):
            limit = self.heartbeat_ms * (self.suspect_misses if host in self.suspects else self.misses)
            work = self.busy.get(host)
            if work is not None:
                limit += work.patience_ms * self.leniency
            if now_ms - seen > max(limit, patience_ms.get(host, 0)):
                deaths.append(self._died(host, f"silent for {now_ms - seen} ms", now_ms))
                at_work |= work is not None
            elif work is not None and now_ms - work.since_ms > self.stuck_ms + work.patience_ms:
                deaths.append(self._died(host, f"at work for {now_ms - work.since_ms} ms", now_ms))
        if at_work:
            self.leniency = min(2 * self.leniency, LENIENCY_LIMIT)
        return tuple(deaths)

    def heartbeats_arrived(self, now_ms: int, *, silent: Set[HostId]) -> None:
        """Those of all hosts but these, at once."""
        self._listen(now_ms)
        still = {host: seen for host in silent if (seen := self.seen_ms.get(host)) is not None}
        self.seen_ms = {**dict.fromkeys(self.seen_ms, now_ms), **still}
        self.suspects &= silent

    def _listen(self, now_ms: int) -> None:
        """A long time in which nobody listened counts as one heartbeat."""
        passed_ms = 0 if self.listened_ms is None else now_ms - self.listened_ms
        self.listened_ms = now_ms
        if passed_ms > self.heartbeat_ms * self.suspect_misses:
            away_ms = passed_ms - self.heartbeat_ms
            self.seen_ms = {host: seen + away_ms for host, seen in self.seen_ms.items()}
            self.busy = {host: work._replace(since_ms=work.since_ms + away_ms) for host, work in self.busy.items()}

    def _died(self, host: HostId, reason: str, now_ms: int) -> Death:
        seen = self.seen_ms.pop(host)
        self.suspects.discard(host)
        self.busy.pop(host, None)
        self.troubled.pop(host, None)
        return Death(host, reason, now_ms - seen)

    def check(self) -> None:
        assert self.suspects <= self.seen_ms.keys()
        assert self.busy.keys() <= self.seen_ms.keys()
        assert self.troubled.keys() <= self.seen_ms.keys()
