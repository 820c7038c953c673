"""What shards and the controller say to each other about state sizes (M5c, M5d). Frozen; times are those of epochs.

Outside alert mode shards stay silent: they answer when asked, and tell of one thing unasked, that they have more than
halved. While watched (the paper's alert mode) they also tell of every turn, with the rate of change after it.
Times are the admission times of epochs, which come from one clock: sizes of different hosts can be added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.checkpoint.notices import Notice
from perseid.vocabulary import HostId, ShardId


class SizePoint(NamedTuple):
    """How large a state was after the epoch of this time. Every shard makes one after every epoch."""

    at_ms: int
    bytes: int


class Observed(NamedTuple):
    """What one shard saw of its own size since it was last asked for this (M5b). Every shard makes one when it is asked."""

    lowest: int
    mean: float
    samples: int
    points: tuple[SizePoint, ...]  # its turning points, between the first and the last size seen

    @property
    def dynamic(self) -> bool:
        """Does its size change significantly: is the minimum less than half of the average?"""
        return self.samples > 0 and self.lowest < self.mean / 2

    @property
    def interval_ms(self) -> float:
        """From one size to the next, on average."""
        if self.samples < 2 or not self.points:
            return 0.0
        return (self.points[-1].at_ms - self.points[0].at_ms) / (self.samples - 1)


class ShardSize(NamedTuple):
    """One shard's answer."""

    shard: ShardId
    bytes: int
    rate: float  # the paper's instantaneous change rate (ICR), in bytes per second
    observed: Observed | None = None


# -- from shards ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SizesReported:
    """Event: a host answers for its shards."""

    host: HostId
    query: int
    sizes: tuple[ShardSize, ...]


@dataclass(frozen=True, slots=True)
class SizeHalved:
    """Event: at a turning point, a shard saw that it had fallen by more than half; or it is as small as it ever becomes."""

    shard: ShardId
    before: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SizeTurned:
    """Event: a watched shard's size began to grow, to shrink, or to stay."""

    shard: ShardId
    bytes: int
    rate: float


SizeReport = SizesReported | SizeHalved | SizeTurned


# -- to shards, and to people --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskSizes:
    """Command: these shards (None: all) answer. ``watch``: from then on they also tell of every turn.

    ``observed``: they answer with what they saw since they were asked so before, and begin a new observation.
    ``lows``: how small each became before; from then on a shard that is as small again tells so at once.
    """

    query: int
    shards: frozenset[ShardId] | None = None
    watch: bool = False
    observed: bool = False
    lows: Mapping[ShardId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Quieten:
    """Command: all shards stop telling of turns. ``anew``: and begin a new observation, without an answer."""

    anew: bool = False


SizeCommand = AskSizes | Quieten | Notice
