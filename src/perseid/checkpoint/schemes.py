"""Checkpoint schemes: small policy objects without I/O that say *where* and *how* a checkpoint cuts the streams.

``source``    M3, MS-src: one token leaves the sources and trickles down; every unit snapshots the same epoch,
              synchronously, one after the other in the order in which the token visits them.
``parallel``  M4, MS-src+ap: all units are told at once; 1-hop tokens; snapshots are forked and run in parallel while the
              units go on; epochs between a unit's output token and its input tokens are saved with the checkpoint.

Invariant: the same cut epochs, read back, continue every stream without a gap and without a repeated epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perseid.duration import Duration, every
from perseid.errors import SettingsError

SchemeName = Literal["source", "parallel"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A checkpoint scheme with a fixed period."""

    name: SchemeName
    period: Duration = field(default_factory=lambda: every(seconds=10))

    @property
    def synchronous(self) -> bool:
        """Does a unit stop until its snapshots are durable?"""
        return self.name == "source"

    def due(self, now_ms: int, last_ms: int) -> bool:
        """Is it time for the next checkpoint, the last one having started at ``last_ms``?"""
        return now_ms - last_ms >= self.period.ms


def _period(period: Duration | float | None) -> Duration:
    if period is None:
        return every(seconds=10)
    if isinstance(period, Duration):
        return period
    if isinstance(period, int | float) and not isinstance(period, bool):
        return every(seconds=period)
    raise SettingsError(f"checkpoint period: expected every(seconds=...) or a number of seconds, got {period!r}")


def parallel(period: Duration | float | None = None) -> Scheme:
    """Asynchronous checkpoints of all units at once (M4), by default every 10 s.

    >>> parallel(every(seconds=30)).period
    Duration(seconds=30)
    """
    return Scheme("parallel", _period(period))


def source(period: Duration | float | None = None) -> Scheme:
    """Synchronous checkpoints, unit by unit behind a token that leaves the sources (M3), by default every 10 s."""
    return Scheme("source", _period(period))
