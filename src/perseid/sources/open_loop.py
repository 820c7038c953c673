"""An open loop: rows arrive at their own rate, whoever waits for them; what nobody takes in time is dropped, and counted (S7, S8).

It stands in front of a replayable source whose offsets are rows. Every slice that is let through is written down with the
rows dropped before it, before an epoch may take it; so a replay lets the same rows through and drops the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from perseid.errors import SettingsError
from perseid.sources.generator import Generator
from perseid.sources.record_log import RecordLog
from perseid.sources.table import TableSource
from perseid.storage.store import Store
from perseid.vocabulary import Offset

logger = logging.getLogger(__name__)


def open_loop(source: Generator | TableSource, *, rate: float, backlog: int) -> OpenLoop:
    """``source`` at ``rate`` rows a second; when more than ``backlog`` rows wait, the oldest of them are dropped.

    >>> edits = open_loop(generator({"n": "id"}), rate=50_000, backlog=100_000)
    """
    if not isinstance(source, Generator | TableSource):
        raise SettingsError(f"open_loop: expected a generator or a table, got {type(source).__name__}")
    if isinstance(source, Generator) and source.rate is not None:
        raise SettingsError(f"open_loop: the generator has a rate of its own ({source.rate:g}); leave it out there")
    if not rate > 0:
        raise SettingsError(f"open_loop: expected a rate above 0 rows a second, got {rate!r}")
    if backlog < 1:
        raise SettingsError(f"open_loop: expected a backlog of 1 row or more, got {backlog!r}")
    return OpenLoop(source, rate, backlog)


@dataclass(eq=False)
class OpenLoop:
    """Made by `open_loop`. An offset is a number of slices let through."""

    source: Generator | TableSource
    rate: float
    backlog: int
    kind: str = field(default="open-loop", init=False)
    _log: RecordLog = field(init=False, repr=False)
    _began: tuple[int, int] | None = field(default=None, init=False, repr=False)  # row and time of the first `end`

    @property
    def dropped(self) -> int:
        """Rows that nobody took in time, since the root was new."""
        return sum(record["dropped"] for record in self._log.records)

    @property
    def passed(self) -> int:
        """Rows that were let through."""
        return sum(record["end"] - record["start"] for record in self._log.records)

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self.source.open(spark, f"{folder}/rows", store)
        self._log = RecordLog.open(store, f"{folder}/log")
        self._began = None

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        if start < len(self._log):
            return Offset(start + 1)
        position = self._position
        if self._began is None:
            self._began = (position, now_ms)
        first, began_ms = self._began
        arrived = self.source.end(
            Offset(position), first + int((now_ms - began_ms) * self.rate / 1000) - position, now_ms
        )
        if arrived <= position:
            return start
        begin = max(position, arrived - self.backlog)
        if begin > position:
            logger.warning("open loop: %d rows waited, %d were dropped", arrived - position, begin - position)
        end = arrived if max_rows is None else min(arrived, begin + max_rows)
        self._log.append([{"start": begin, "end": int(end), "dropped": begin - position}])
        return Offset(start + 1)

    def read(self, start: Offset, end: Offset) -> DataFrame:
        slices = self._log.records[start:end]
        if not slices:
            return self.source.read(Offset(0), Offset(0))
        df = self.source.read(Offset(slices[0]["start"]), Offset(slices[0]["end"]))
        for more in slices[1:]:
            df = df.unionAll(self.source.read(Offset(more["start"]), Offset(more["end"])))
        return df

    def rows(self, start: Offset, end: Offset) -> int | None:
        return sum(int(record["end"]) - int(record["start"]) for record in self._log.records[start:end])

    def finished(self, start: Offset) -> bool:
        return start >= len(self._log) and self.source.finished(Offset(self._position))

    def trim(self, start: Offset) -> None:
        pass  # the log goes on to say what was dropped

    def close(self) -> None:
        self.source.close()

    @property
    def _position(self) -> int:
        return int(self._log.records[-1]["end"]) if len(self._log) else 0
