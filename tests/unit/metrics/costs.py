"""What watching costs the driver in an epoch: ``python tests/unit/metrics/costs.py`` prints microseconds of processor time.

One unit, one operator, two shards, as ``JournalWriter`` is told of them by a run: the epoch begins, is admitted, its shards report, it is
committed, the journal is written every ten epochs.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from perseid.driver.journal_writer import JournalWriter
from perseid.driver.reports import Report, Reports
from perseid.engine import commands as do
from perseid.metrics.progress_feed import ProgressFeed
from perseid.metrics.query_progress import QueryProgress
from perseid.scaling.routing import RoutingTable
from perseid.storage.journal import Journal
from perseid.storage.records import Admitted
from perseid.storage.store import Store
from perseid.vocabulary import Attempt, Epoch, Generation, Offset, OperatorName, ShardId, SourceName, UnitName

EPOCHS = 5_000
UNIT, SOURCE = UnitName("main"), SourceName("words")
SHARDS = tuple(ShardId(OperatorName("count"), index) for index in range(2))


def run(folder: Path, *, listeners: int) -> float:
    """Microseconds of processor time an epoch, of all threads."""
    journal = Journal(Store.at(str(folder)), Generation(1), now_ms=lambda: int(time.time() * 1000))
    writer = JournalWriter("words", journal, Reports())
    if listeners:
        writer.feed = ProgressFeed(QueryProgress("words", "root", 1), [lambda progress: None] * listeners)
    began_s = time.process_time()
    for number in range(1, EPOCHS + 1):
        epoch = Epoch(number)
        writer.command(do.RunEpoch(UNIT, epoch, Attempt(1), RoutingTable.initial({}), Epoch(0), Epoch(0)))
        admitted = Admitted(epoch, 1, {SOURCE: (Offset(number - 1), Offset(number))})
        writer.admitted(admitted, {SOURCE: (1_000, 40)}, 1.2)
        reports = {
            shard: Report(
                shard=shard, epoch=epoch, rows_in=500, rows_out=90, state_bytes=80_000, worked_ms=number * 3.1
            )
            for shard in SHARDS
        }
        writer.finished(UNIT, admitted, reports, 1_000, 1)
        if number % 10 == 0:
            writer.flush()
    if writer.feed is not None:
        writer.feed.close()
    writer.close()
    return (time.process_time() - began_s) / EPOCHS * 1e6


if __name__ == "__main__":
    for listeners in (0, 1):
        with tempfile.TemporaryDirectory() as folder:
            best = min(run(Path(folder) / str(attempt), listeners=listeners) for attempt in range(5))
        print(f"{listeners} listeners of progress: {best:.0f} µs an epoch")
