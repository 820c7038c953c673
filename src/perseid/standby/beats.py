"""Which hosts have missed heartbeats (H6): from the beats of the processes beside them, and from the silence of these.

A beat says how the host was since the one before (``recovery.pulse``): one that was stopped, or ready to run and without a processor,
missed it. A beat that does not come is missed when the next two are due, too: the process that beats may get no processor itself.
Silence counts only while somebody listens.

Invariant: a host is told silent once for every beat missed, up to ``MOST_MISSES``, and heard once when it is well again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perseid.recovery.pulse import Pulse
from perseid.standby.events import HostHeard, HostSilent
from perseid.vocabulary import HostId

MOST_MISSES = 10
SLACK_BEATS = 2  # that come late where machines are busy
LEAST_SLACK_MS = 100


@dataclass(slots=True)
class _Watched:
    beat_ms: int
    heard_ms: int  # the newest beat, of whatever kind
    misses: int = 0


@dataclass(slots=True)
class Beats:
    """Of all hosts that have a heart beside them."""

    hosts: dict[HostId, _Watched] = field(default_factory=dict)
    listened_ms: int | None = None

    def watch(self, host: HostId, beat_ms: int, now_ms: int) -> None:
        """Its heart beats from now on."""
        self.hosts[host] = _Watched(beat_ms, now_ms)

    def gone(self, host: HostId) -> None:
        """Nobody listens to it any more."""
        self.hosts.pop(host, None)

    def arrived(self, host: HostId, pulse: Pulse, now_ms: int) -> tuple[HostSilent | HostHeard, ...]:
        """A beat, which says how the host was."""
        watched = self.hosts.get(host)
        if watched is None:
            return ()
        watched.heard_ms = now_ms
        if not pulse.alive:
            return self._missed(host, watched, "starved" if pulse is Pulse.STARVED else "stopped")
        misses, watched.misses = watched.misses, 0
        return (HostHeard(host),) if misses else ()

    def tick(self, now_ms: int) -> tuple[HostSilent, ...]:
        """Which beats are overdue?"""
        passed_ms = 0 if self.listened_ms is None else now_ms - self.listened_ms
        self.listened_ms = now_ms
        silent: list[HostSilent] = []
        for host, watched in self.hosts.items():
            slack_ms = max(SLACK_BEATS * watched.beat_ms, LEAST_SLACK_MS)
            if passed_ms > slack_ms:  # nobody listened
                watched.heard_ms = max(watched.heard_ms, now_ms - watched.beat_ms)
            elif now_ms - watched.heard_ms > watched.beat_ms * (watched.misses + 1) + slack_ms:
                silent += self._missed(host, watched, "unheard")
        return tuple(silent)

    def _missed(
        self, host: HostId, watched: _Watched, why: Literal["stopped", "starved", "unheard"]
    ) -> tuple[HostSilent, ...]:
        if watched.misses >= MOST_MISSES:
            return ()
        watched.misses += 1
        return (HostSilent(host, watched.misses, why),)
