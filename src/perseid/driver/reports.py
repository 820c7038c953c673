"""What shards report of the epochs they applied: rows, event times, timers, sizes. Reports come over the hosts' control connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from perseid.engine.messages import Report as Report
from perseid.errors import PerseidError
from perseid.vocabulary import Epoch, ShardId

LOOK_S = 0.1  # how often somebody who waits for reports looks whether he still has to


class NoReport(PerseidError):
    """A shard did not say in time that it has applied an epoch."""


@dataclass(slots=True)
class Reports:
    """The newest report of every shard."""

    latest: dict[ShardId, Report] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def arrived(self, report: Report) -> None:
        report = replace(report, heard_s=time.monotonic())
        with self._changed:
            self.latest[report.shard] = report
            self._changed.notify_all()

    def forget(self, shards: Iterable[ShardId]) -> None:
        """These shards were put back; what they said before is no longer true."""
        with self._changed:
            for shard in shards:
                self.latest.pop(shard, None)

    def keep_only(self, shards: Collection[ShardId]) -> None:
        """There are no others any more: what those said, above all of timers, must not count."""
        with self._changed:
            for shard in [shard for shard in self.latest if shard not in shards]:
                del self.latest[shard]

    def of_epoch(
        self,
        shards: Iterable[ShardId],
        epoch: Epoch,
        timeout_s: float = 10.0,
        check: Callable[[], None] = lambda: None,
    ) -> dict[ShardId, Report]:
        """The reports of these shards on this epoch: proof that every one of them took part. ``check`` raises if nobody wants them
        any more: a host that is lost does not report."""
        wanted = set(shards)
        missing = self.missing(wanted, epoch, timeout_s, check)
        if missing:
            names = ", ".join(map(str, sorted(missing)))
            raise NoReport(f"epoch {epoch}: no report from shards {names} within {timeout_s:g} s")
        with self._changed:
            return {shard: self.latest[shard] for shard in wanted}

    def missing(
        self, shards: Collection[ShardId], epoch: Epoch, timeout_s: float, check: Callable[[], None] = lambda: None
    ) -> list[ShardId]:
        """Those of these shards that have not reported this epoch within so long."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                missing = [s for s in shards if s not in self.latest or self.latest[s].epoch < epoch]
                left_s = deadline - time.monotonic()
                if not missing or left_s <= 0:
                    return missing
                check()
                self._changed.wait(min(LOOK_S, left_s))

    def timer_due(self, now_ms: int, watermarks_ms: Mapping[str, int]) -> bool:
        """Would an epoch without rows do something: has a timer come due?"""
        with self._changed:
            return any(
                (r.next_timer_ms is not None and r.next_timer_ms <= now_ms)
                or (r.next_event_timer_ms is not None and r.next_event_timer_ms <= watermarks_ms.get(s.operator, -1))
                for s, r in self.latest.items()
            )
