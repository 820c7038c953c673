"""Reports: what shards say of the epochs they applied. An epoch is done only with a report of every shard.

Invariant: a shard that was put back, or that is no shard any more, has no report: what it said before is no longer true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from perseid.errors import PerseidError
from perseid.vocabulary import Epoch, ShardId


class NoReport(PerseidError):
    """A shard did not say in time that it has applied an epoch."""

    def __init__(self, epoch: Epoch, missing: Iterable[ShardId], limit_s: float) -> None:
        names = ", ".join(map(str, sorted(missing)))
        super().__init__(f"epoch {epoch}: no report from shards {names} within {limit_s:g} s")


class ShardReport(Protocol):
    """What everybody has to know of a report."""

    @property
    def epoch(self) -> Epoch: ...
    @property
    def next_timer_ms(self) -> int | None: ...
    @property
    def next_event_timer_ms(self) -> int | None: ...


R = TypeVar("R", bound=ShardReport)


@dataclass(slots=True)
class ReportBook(Generic[R]):
    """The newest report of every shard."""

    latest: dict[ShardId, R] = field(default_factory=dict)

    def arrived(self, shard: ShardId, report: R) -> None:
        self.latest[shard] = report

    def forget(self, shards: Iterable[ShardId]) -> None:
        """These shards were put back."""
        for shard in shards:
            self.latest.pop(shard, None)

    def keep_only(self, shards: Collection[ShardId]) -> None:
        """There are no others any more: what those said, above all of timers, must not count."""
        for shard in [shard for shard in self.latest if shard not in shards]:
            del self.latest[shard]

    def missing(self, shards: Iterable[ShardId], epoch: Epoch) -> list[ShardId]:
        """Those of these shards that have not reported this epoch yet."""
        latest = self.latest
        return [s for s in shards if s not in latest or latest[s].epoch < epoch]

    def timer_due(self, now_ms: int, watermarks_ms: Mapping[str, int]) -> bool:
        """Would an epoch without rows do something: has a timer come due?"""
        return any(
            (r.next_timer_ms is not None and r.next_timer_ms <= now_ms)
            or (r.next_event_timer_ms is not None and r.next_event_timer_ms <= watermarks_ms.get(s.operator, -1))
            for s, r in self.latest.items()
        )

    def of(self, shards: Iterable[ShardId]) -> Mapping[ShardId, R]:
        """The reports of these shards, of which none is missing."""
        return {shard: self.latest[shard] for shard in shards}
