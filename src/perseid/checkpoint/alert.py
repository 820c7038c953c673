"""Alert mode: the state is small, and may become smaller still; the moment to checkpoint is when it begins to grow (M5d).

"During alert mode the controller only allows the state size to decrease. Once the state size increases, the controller
initiates a checkpoint immediately." It knows the size and the rate of change of every dynamic shard as they last told it.
Figure 11 of the paper is this machine.

Beyond the paper: a state that is as small as the smallest of the profile will not become smaller; that is the moment, too, and the state
has not grown since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.checkpoint.size_reports import ShardSize, SizeTurned
from perseid.vocabulary import ShardId


class AlertFacts(NamedTuple):
    """What people are told of an alert."""

    bytes: int
    threshold: int
    low: int
    rate: int  # bytes a second


@dataclass(slots=True)
class Alert:
    """From a question to all dynamic shards to the end of alert mode."""

    query: int
    threshold: int  # s_max
    waiting: set[ShardId]  # shards that have not answered yet
    low: int = 0  # how small the state becomes
    sizes: dict[ShardId, int] = field(default_factory=dict)
    rates: dict[ShardId, float] = field(default_factory=dict)
    fresh: bool = True  # nobody told of a turn since all answered: the total is that of one moment
    moment_ms: int | None = None  # since when it is the moment
    told_ms: int = 0  # when a shard last told its size

    def answered(self, answers: Iterable[ShardSize], now_ms: int) -> None:
        for answer in answers:
            if answer.shard in self.waiting:
                self.waiting.discard(answer.shard)
                self.sizes[answer.shard], self.rates[answer.shard] = answer.bytes, answer.rate
        self._look(now_ms)

    def turned(self, event: SizeTurned, now_ms: int) -> None:
        """A shard's size changes otherwise than it did."""
        if event.shard in self.sizes:
            self.fresh = False
            self.sizes[event.shard], self.rates[event.shard] = event.bytes, event.rate
        self._look(now_ms)

    def _look(self, now_ms: int) -> None:
        self.told_ms = now_ms
        if not self.is_moment:
            self.moment_ms = None
        elif self.moment_ms is None:
            self.moment_ms = now_ms

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    @property
    def rate(self) -> float:
        """The aggregated rate of change (ICR)."""
        return sum(self.rates.values())

    def size_at(self, now_ms: int) -> float:
        """How large the state is by now, if it grows on as it did."""
        return self.total + max(0.0, self.rate) * (now_ms - self.told_ms) / 1000

    @property
    def complete(self) -> bool:
        """Has everybody answered?"""
        return not self.waiting

    @property
    def below(self) -> bool:
        """Is the state small enough to be alert? Never known before everybody has answered."""
        return self.complete and self.total <= self.threshold

    @property
    def growing(self) -> bool:
        """The moment: the state is small, and about to grow."""
        return self.below and self.rate > 0

    @property
    def lowest(self) -> bool:
        """Also the moment: the state is as small as it ever becomes."""
        return self.complete and self.fresh and 0 < self.total <= self.low

    @property
    def is_moment(self) -> bool:
        return self.growing or self.lowest

    @property
    def facts(self) -> AlertFacts:
        """For people."""
        return AlertFacts(self.total, self.threshold, self.low, round(self.rate))

    def check(self) -> None:
        """Assert the invariants."""
        assert self.sizes.keys() == self.rates.keys()
        assert not self.waiting & self.sizes.keys()
