"""Checkpoint schemes: small policy objects without I/O that say *where*, *how* and *when* a checkpoint cuts the streams.

``source``    M3, MS-src: one token leaves the sources and trickles down; every unit snapshots the same epoch,
              synchronously, one after the other in the order in which the token visits them.
``parallel``  M4, MS-src+ap: all units are told at once; 1-hop tokens; snapshots are forked and run in parallel while the
              units go on; epochs between a unit's output token and its input tokens are saved with the checkpoint.
``adaptive``  M5, MS-src+ap+aa: as ``parallel``, at the moment in every period when the state is small.
``baseline``  M2: every unit alone, synchronously, with input preservation. For comparison.
``oracle``    as ``parallel``, at the smallest states of a recorded run. For comparison.
``upstream_backup``, ``source_replay``  no checkpoints at all: what was lost is made again of its input (S8). For comparison.

Invariant: the same cut epochs, read back, continue every stream without a gap and without a repeated epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from perseid.checkpoint.adaptive import PROFILE_PERIODS, Adaptive
from perseid.checkpoint.baseline import Independent
from perseid.checkpoint.oracle import Oracle, Recording
from perseid.checkpoint.policy import FixedPeriod, Never, Policy
from perseid.duration import Duration, every
from perseid.errors import SettingsError
from perseid.graph.topology import Topology
from perseid.vocabulary import Keeping, ShardId

SchemeName = Literal["source", "parallel", "adaptive", "baseline", "oracle", "upstream_backup", "source_replay"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A checkpoint scheme. The functions of ``perseid.checkpoints`` make one."""

    name: SchemeName
    period: Duration = field(default_factory=lambda: every(seconds=10))
    profile_periods: int = PROFILE_PERIODS  # adaptive
    seed: int = 0  # baseline
    recording: Recording | None = None  # oracle

    def __repr__(self) -> str:
        return f"{self.name}({self.period!r})"

    @property
    def synchronous(self) -> bool:
        """Does a unit stop until its snapshots are durable?"""
        return self.name in ("source", "baseline")

    @property
    def individual(self) -> bool:
        """Is every unit checkpointed alone?"""
        return self.name == "baseline"

    @property
    def replays_sources(self) -> bool:
        """Is nothing kept but the sources, so that every loss takes the whole application back?"""
        return self.name == "source_replay"

    def policy(self, topology: Topology, shards: frozenset[ShardId], now_ms: int) -> Policy:
        """What decides when, in one run."""
        match self.name:
            case "adaptive":
                return Adaptive(self.period.ms, shards, now_ms, self.profile_periods)
            case "baseline":
                return Independent.made((u.name for u in topology.units), self.period.ms, self.seed, now_ms)
            case "oracle":
                assert self.recording is not None
                return Oracle.made(self.recording, self.period.ms, now_ms)
            case "upstream_backup" | "source_replay":
                return Never()
            case _:
                return FixedPeriod(self.period.ms, now_ms)

    def preserved(self, topology: Topology) -> Topology:
        """The topology under this scheme: with input preservation every stream is buffered (M2), unless it is durable; where every loss
        takes the application back, none is retained."""
        if not (self.individual or self.name in ("upstream_backup", "source_replay")):
            return topology
        kept: Keeping = "transient" if self.replays_sources else "buffered"
        streams = (s if s.durable else replace(s, preservation=kept) for s in topology.streams)
        return replace(topology, streams=tuple(streams))


_NEVER = every(hours=24 * 365)


def _period(period: Duration | float | None, default_s: float = 10) -> Duration:
    if period is None:
        return every(seconds=default_s)
    if isinstance(period, Duration):
        return period
    if isinstance(period, int | float) and not isinstance(period, bool):
        return every(seconds=period)
    raise SettingsError(f"checkpoint period: expected every(seconds=...) or a number of seconds, got {period!r}")


def parallel(period: Duration | float | None = None) -> Scheme:
    """Asynchronous checkpoints of all units at once (M4), by default every 10 s.

    >>> parallel(every(seconds=30)).period
    every(seconds=30)
    """
    return Scheme("parallel", _period(period))


def source(period: Duration | float | None = None) -> Scheme:
    """Synchronous checkpoints, unit by unit behind a token that leaves the sources (M3), by default every 10 s.

    A unit stops while it is saved. Use ``parallel`` unless hosts must not fork.

    >>> source(every(seconds=30))
    source(every(seconds=30))
    """
    return Scheme("source", _period(period))


def adaptive(period: Duration | float | None = None, *, profile_periods: int = PROFILE_PERIODS) -> Scheme:
    """One asynchronous checkpoint in every period, when the state is small (M5); periods of 10 s by default.

    Sizes are observed all the time. After every ``profile_periods`` periods it is worked out anew how small the state becomes;
    before the first time, and where no state rises and falls, checkpoints are taken when a period ends, as by ``parallel``.

    >>> adaptive(every(minutes=1)).period
    every(seconds=60)
    """
    if isinstance(profile_periods, bool) or not isinstance(profile_periods, int) or profile_periods < 1:
        raise SettingsError(f"adaptive(profile_periods={profile_periods!r}): expected a whole number of at least 1")
    return Scheme("adaptive", _period(period), profile_periods=profile_periods)


def baseline(period: Duration | float | None = None, *, seed: int = 0) -> Scheme:
    """For comparison: every unit alone and synchronously, with input preservation (M2), by default every 200 s.

    ``seed`` draws the time of each unit's first checkpoint.
    """
    return Scheme("baseline", _period(period, 200), seed=seed)


def oracle(recording: Any, period: Duration | float | None = None) -> Scheme:
    """For comparison: a checkpoint at the smallest state of each period of a recorded run.

    ``recording`` is what ``comparison.recording(root)`` returns of a run before, or ``(seconds, bytes)`` pairs.

    >>> oracle([(0, 90), (5, 20), (10, 80), (15, 10)], period=10).name
    'oracle'
    """
    return Scheme("oracle", _period(period), recording=Recording.of(recording))


def upstream_backup() -> Scheme:
    """For comparison: no checkpoints. The input of every operator is kept, and a lost shard is made again by applying all of it (S8).

    What is kept grows with the stream: this is for the length of a benchmark.
    """
    return Scheme("upstream_backup", _NEVER)


def source_replay() -> Scheme:
    """For comparison: no checkpoints, and nothing is kept. After a loss the whole application begins anew from its sources (S8)."""
    return Scheme("source_replay", _NEVER)
