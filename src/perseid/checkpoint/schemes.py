"""Checkpoint schemes: small policy objects without I/O that say *where*, *how* and *when* a checkpoint cuts the streams.

``source``    M3, MS-src: one token leaves the sources and trickles down; every unit snapshots the same epoch,
              synchronously, one after the other in the order in which the token visits them.
``parallel``  M4, MS-src+ap: all units are told at once; 1-hop tokens; snapshots are forked and run in parallel while the
              units go on; epochs between a unit's output token and its input tokens are saved with the checkpoint.
``adaptive``  M5, MS-src+ap+aa: as ``parallel``, at the moment in every period when the state is small.
``baseline``  M2: every unit alone, synchronously, with input preservation. For comparison.
``oracle``    as ``parallel``, at the smallest states of a recorded run. For comparison.
``upstream_backup``, ``source_replay``  no checkpoints at all: what was lost is made again of its input (S8). For comparison.

Each is a class of its own. An application has one; a unit may have another where the application's allows it (``UnitSchemes``).

Invariant: the same cut epochs, read back, continue every stream without a gap and without a repeated epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from perseid.checkpoint.adaptive import PROFILE_PERIODS, Adaptive
from perseid.checkpoint.baseline import Independent
from perseid.checkpoint.oracle import Oracle, Recording
from perseid.checkpoint.policy import FixedPeriod, Never, Policy
from perseid.duration import Duration, every
from perseid.errors import SettingsError
from perseid.graph.topology import Topology
from perseid.vocabulary import Keeping, ShardId, UnitName

SchemeName = Literal["source", "parallel", "adaptive", "baseline", "oracle", "upstream_backup", "source_replay"]

_NEVER = every(hours=24 * 365)


@runtime_checkable
class Scheme(Protocol):
    """A checkpoint scheme: where, how and when checkpoints are taken. The functions of ``perseid.checkpoints`` make one."""

    @property
    def name(self) -> SchemeName:
        """What it is called in ``perseid.checkpoints``."""
        ...

    @property
    def period(self) -> Duration:
        """From one checkpoint to the next."""
        ...

    @property
    def synchronous(self) -> bool:
        """Does a unit stop until its snapshots are durable?"""
        ...

    @property
    def individual(self) -> bool:
        """Is every unit checkpointed alone?"""
        ...

    @property
    def replays_sources(self) -> bool:
        """Is nothing kept but the sources, so that every loss takes the whole application back?"""
        ...

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        """What decides when, in one run; ``own`` are the schemes of units that have one of their own."""
        ...

    def preserved(self, topology: Topology) -> Topology:
        """The topology with its streams kept as the scheme needs it."""
        ...

    def refuses(self, own: Scheme) -> str | None:
        """Why a unit cannot have this scheme of its own where the application has this one; None if it can."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Periodic:
    """What schemes have in common that name a period and take checkpoints of all units together."""

    name: ClassVar[SchemeName]
    synchronous: ClassVar[bool] = False
    individual: ClassVar[bool] = False
    replays_sources: ClassVar[bool] = False

    period: Duration
    given: bool = field(compare=False)  # did the user say so, or is it the default?

    def __repr__(self) -> str:
        return f"{self.name}({self.period!r})"

    def preserved(self, topology: Topology) -> Topology:
        return topology

    def refuses(self, own: Scheme) -> str | None:
        if not isinstance(own, SourceScheme | ParallelScheme):
            return f"where the application has {self.name}, a unit can have parallel() or source()"
        if own.given and own.period != self.period:
            return f"all units are checkpointed together, every {self.period}: leave the period out"
        return None


@dataclass(frozen=True, slots=True, repr=False)
class SourceScheme(Periodic):
    """MS-src (M3)."""

    name: ClassVar[SchemeName] = "source"
    synchronous: ClassVar[bool] = True

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        return FixedPeriod(self.period.ms, now_ms)


@dataclass(frozen=True, slots=True, repr=False)
class ParallelScheme(Periodic):
    """MS-src+ap (M4)."""

    name: ClassVar[SchemeName] = "parallel"

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        return FixedPeriod(self.period.ms, now_ms)


@dataclass(frozen=True, slots=True, repr=False)
class AdaptiveScheme(Periodic):
    """MS-src+ap+aa (M5)."""

    name: ClassVar[SchemeName] = "adaptive"

    profile_periods: int = PROFILE_PERIODS

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        return Adaptive(self.period.ms, shards, now_ms, self.profile_periods)


@dataclass(frozen=True, slots=True, repr=False)
class OracleScheme(Periodic):
    """As parallel, at the smallest states of a recorded run."""

    name: ClassVar[SchemeName] = "oracle"

    recording: Recording

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        return Oracle.made(self.recording, self.period.ms, now_ms)


@dataclass(frozen=True, slots=True, repr=False)
class BaselineScheme(Periodic):
    """Every unit alone and synchronously, with input preservation (M2): units may have periods of their own."""

    name: ClassVar[SchemeName] = "baseline"
    synchronous: ClassVar[bool] = True
    individual: ClassVar[bool] = True

    seed: int = 0

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        periods_ms = {u.name: own.get(u.name, self).period.ms for u in topology.units}
        return Independent.made(periods_ms, self.seed, now_ms)

    def preserved(self, topology: Topology) -> Topology:
        return _kept(topology, "buffered")

    def refuses(self, own: Scheme) -> str | None:
        if isinstance(own, BaselineScheme):
            return None
        return "where the application has baseline, a unit can have baseline() with another period"


@dataclass(frozen=True, slots=True, repr=False)
class Uncheckpointed:
    """What schemes have in common that take no checkpoints: what was lost is made again (S8)."""

    name: ClassVar[SchemeName]
    synchronous: ClassVar[bool] = False
    individual: ClassVar[bool] = False
    period: ClassVar[Duration] = _NEVER

    def __repr__(self) -> str:
        return f"{self.name}()"

    def policy(
        self, topology: Topology, own: Mapping[UnitName, Scheme], shards: frozenset[ShardId], now_ms: int
    ) -> Policy:
        return Never()

    def refuses(self, own: Scheme) -> str | None:
        return f"where the application has {self.name}, there are no checkpoints"


@dataclass(frozen=True, slots=True, repr=False)
class UpstreamBackupScheme(Uncheckpointed):
    """All input of every operator is kept."""

    name: ClassVar[SchemeName] = "upstream_backup"
    replays_sources: ClassVar[bool] = False

    def preserved(self, topology: Topology) -> Topology:
        return _kept(topology, "buffered")


@dataclass(frozen=True, slots=True, repr=False)
class SourceReplayScheme(Uncheckpointed):
    """Nothing is kept."""

    name: ClassVar[SchemeName] = "source_replay"
    replays_sources: ClassVar[bool] = True

    def preserved(self, topology: Topology) -> Topology:
        return _kept(topology, "transient")


KnownScheme = (
    SourceScheme
    | ParallelScheme
    | AdaptiveScheme
    | OracleScheme
    | BaselineScheme
    | UpstreamBackupScheme
    | SourceReplayScheme
)
"""All there are, for whoever writes a scheme down."""


def _kept(topology: Topology, kept: Keeping) -> Topology:
    """With streams kept like this, unless they are durable."""
    streams = (s if s.durable else replace(s, preservation=kept) for s in topology.streams)
    return replace(topology, streams=tuple(streams))


@dataclass(frozen=True, slots=True)
class UnitSchemes:
    """Which scheme every unit is checkpointed by: the application's, or its own."""

    application: Scheme
    own: Mapping[UnitName, Scheme] = field(default_factory=dict)

    def of(self, unit: UnitName) -> Scheme:
        return self.own.get(unit, self.application)

    def policy(self, topology: Topology, shards: frozenset[ShardId], now_ms: int) -> Policy:
        return self.application.policy(topology, self.own, shards, now_ms)


def _period(period: Duration | float | None, default_s: float = 10) -> tuple[Duration, bool]:
    """The period, and whether it was given."""
    if period is None:
        return every(seconds=default_s), False
    if isinstance(period, Duration):
        return period, True
    if isinstance(period, int | float) and not isinstance(period, bool):
        return every(seconds=period), True
    raise SettingsError(f"checkpoint period: expected every(seconds=...) or a number of seconds, got {period!r}")


def parallel(period: Duration | float | None = None) -> Scheme:
    """Asynchronous checkpoints of all units at once (M4), by default every 10 s.

    >>> parallel(every(seconds=30)).period
    every(seconds=30)
    """
    return ParallelScheme(*_period(period))


def source(period: Duration | float | None = None) -> Scheme:
    """Synchronous checkpoints, unit by unit behind a token that leaves the sources (M3), by default every 10 s.

    A unit stops while it is saved. Use ``parallel`` unless hosts must not fork.

    >>> source(every(seconds=30))
    source(every(seconds=30))
    """
    return SourceScheme(*_period(period))


def adaptive(period: Duration | float | None = None, *, profile_periods: int = PROFILE_PERIODS) -> Scheme:
    """One asynchronous checkpoint in every period, when the state is small (M5); periods of 10 s by default.

    Sizes are observed all the time. After every ``profile_periods`` periods it is worked out anew how small the state becomes;
    before the first time, and where no state rises and falls, checkpoints are taken when a period ends, as by ``parallel``.

    >>> adaptive(every(minutes=1)).period
    every(seconds=60)
    """
    if isinstance(profile_periods, bool) or not isinstance(profile_periods, int) or profile_periods < 1:
        raise SettingsError(f"adaptive(profile_periods={profile_periods!r}): expected a whole number of at least 1")
    return AdaptiveScheme(*_period(period), profile_periods)


def baseline(period: Duration | float | None = None, *, seed: int = 0) -> Scheme:
    """For comparison: every unit alone and synchronously, with input preservation (M2), by default every 200 s.

    ``seed`` draws the time of each unit's first checkpoint.
    """
    return BaselineScheme(*_period(period, 200), seed)


def oracle(recording: Any, period: Duration | float | None = None) -> Scheme:
    """For comparison: a checkpoint at the smallest state of each period of a recorded run.

    ``recording`` is what ``comparison.recording(root)`` returns of a run before, or ``(seconds, bytes)`` pairs.

    >>> oracle([(0, 90), (5, 20), (10, 80), (15, 10)], period=10).name
    'oracle'
    """
    return OracleScheme(*_period(period), Recording.of(recording))


def upstream_backup() -> Scheme:
    """For comparison: no checkpoints. The input of every operator is kept, and a lost shard is made again by applying all of it (S8).

    What is kept grows with the stream: this is for the length of a benchmark.
    """
    return UpstreamBackupScheme()


def source_replay() -> Scheme:
    """For comparison: no checkpoints, and nothing is kept. After a loss the whole application begins anew from its sources (S8)."""
    return SourceReplayScheme()
