"""What shards report of the epochs they applied: rows, event times, timers, sizes. Reports come over the hosts' control connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from perseid.engine.messages import Report as Report
from perseid.engine.reports import NoReport, ReportBook
from perseid.engine.unit_job import REPORT_LIMIT_MS
from perseid.vocabulary import Epoch, ShardId

LOOK_S = 0.1  # how often somebody who waits for reports looks whether he still has to


class Reports:
    """The newest report of every shard, and those who wait for one (``engine.reports``). Any thread may call it."""

    def __init__(self) -> None:
        self._book: ReportBook[Report] = ReportBook()
        self._changed = threading.Condition()

    @property
    def latest(self) -> Mapping[ShardId, Report]:
        return self._book.latest

    def arrived(self, report: Report) -> None:
        report = replace(report, heard_s=time.monotonic())
        with self._changed:
            self._book.arrived(report.shard, report)
            self._changed.notify_all()

    def forget(self, shards: Iterable[ShardId]) -> None:
        with self._changed:
            self._book.forget(shards)

    def keep_only(self, shards: Collection[ShardId]) -> None:
        with self._changed:
            self._book.keep_only(shards)

    def timer_due(self, now_ms: int, watermarks_ms: Mapping[str, int]) -> bool:
        with self._changed:
            return self._book.timer_due(now_ms, watermarks_ms)

    def of_epoch(
        self,
        shards: Iterable[ShardId],
        epoch: Epoch,
        timeout_s: float = REPORT_LIMIT_MS / 1000,
        check: Callable[[], None] = lambda: None,
    ) -> Mapping[ShardId, Report]:
        """The reports of these shards on this epoch: proof that every one of them took part. ``check`` raises if nobody wants them
        any more: a host that is lost does not report."""
        wanted = set(shards)
        missing = self.missing(wanted, epoch, timeout_s, check)
        if missing:
            raise NoReport(epoch, missing, timeout_s)
        with self._changed:
            return self._book.of(wanted)

    def missing(
        self, shards: Collection[ShardId], epoch: Epoch, timeout_s: float, check: Callable[[], None] = lambda: None
    ) -> list[ShardId]:
        """Those of these shards that have not reported this epoch within so long."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                missing = self._book.missing(shards, epoch)
                left_s = deadline - time.monotonic()
                if not missing or left_s <= 0:
                    return missing
                check()
                self._changed.wait(min(LOOK_S, left_s))
