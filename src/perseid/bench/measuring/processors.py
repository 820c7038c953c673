"""The ``StatefulProcessor`` classes that both sides run: a count, a session in a list, a timer for each key; with rows and with frames.

They are written as Spark's documentation writes them, and know nothing of who runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

SESSION = 40
"""A session ends with so many values or more: every fourth epoch, where a key has ten rows in each."""


class Processor(StatefulProcessor):
    """One that says which time mode it wants."""

    time_mode: Literal["None", "ProcessingTime"] = "None"


class Rows:
    """What a processor of ``transformWithState`` does with its input and output."""

    def count(self, rows: Iterator[Any]) -> int:
        return sum(1 for _ in rows)

    def values(self, rows: Iterator[Any]) -> list[int]:
        return [row.value for row in rows]

    def result(self, key: Any, n: int) -> Iterator[Any]:
        yield Row(key=key, n=n)


class Frames:
    """The same of ``transformWithStateInPandas``."""

    def count(self, rows: Iterator[Any]) -> int:
        return sum(len(frame) for frame in rows)

    def values(self, rows: Iterator[Any]) -> list[int]:
        return [value for frame in rows for value in frame["value"].tolist()]

    def result(self, key: Any, n: int) -> Iterator[Any]:
        import pandas as pd

        yield pd.DataFrame({"key": [key], "n": [n]})


class CountRows(Rows, Processor):
    """How often a key was seen."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        before = self._count.get()
        n = (before[0] if before is not None else 0) + self.count(rows)
        self._count.update((n,))
        yield from self.result(key[0], n)


class CountFrames(Frames, CountRows):
    """The count, pandas API."""


class SessionRows(Rows, Processor):
    """Collects a key's values until there are enough for a session."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._values = handle.getListState("values", "value long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        came = self.values(rows)
        n = sum(1 for _ in self._values.get()) + len(came)
        if n < SESSION:
            self._values.appendList([(value,) for value in came])
        else:
            self._values.clear()
            yield from self.result(key[0], n)


class SessionFrames(Frames, SessionRows):
    """The session, pandas API."""


class TimerRows(CountRows):
    """Counts a key's rows until a timer fires, which the first of them sets: the next epoch."""

    time_mode = "ProcessingTime"

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        before = self._count.get()
        if before is None:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        self._count.update(((before[0] if before is not None else 0) + self.count(rows),))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        counted = self._count.get()
        self._count.clear()
        yield from self.result(key[0], counted[0] if counted is not None else 0)


class TimerFrames(Frames, TimerRows):
    """The timers, pandas API."""
