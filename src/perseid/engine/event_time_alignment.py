"""Which sources wait, so that none runs far ahead of another in event time. Pure: no I/O here.

Epochs take rows by number, so a small source of a join would be read to its end while a large one has just begun. Here a source waits
while it is more than ``ahead_ms`` ahead of the slowest source that has rows.

Invariant: of the sources that have rows, at least one does not wait. And nobody waits for a source that has none, whose event time is not
known, or whose event time has not moved for ``PATIENCE`` epochs although its rows were taken (they may all be filtered out).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from perseid.vocabulary import OperatorName, SourceName

PATIENCE = 8


class EventTimeAlignment:
    """Knows how far each source is, from the newest event times that operators saw of it."""

    def __init__(self, ahead_ms: int, inputs: Mapping[SourceName, Sequence[OperatorName]]) -> None:
        self._ahead_ms = ahead_ms
        self._inputs = inputs  # the inputs of operators that have rows of this source alone
        self._newest_ms: dict[SourceName, int] = {}
        self._unmoved: dict[SourceName, int] = dict.fromkeys(inputs, 0)  # epochs with its rows, but no newer event time

    def seen(
        self, taken: Collection[SourceName], newest_ms: Mapping[OperatorName, int], told: Collection[OperatorName]
    ) -> None:
        """An epoch is done: it took rows of some sources, and these inputs told the newest event times, if they had any."""
        for source, inputs in self._inputs.items():
            mine = [name for name in inputs if name in told]
            if not mine:
                continue
            newest = max((newest_ms[name] for name in mine if name in newest_ms), default=None)
            if newest is not None and newest > self._newest_ms.get(source, newest - 1):
                self._newest_ms[source] = newest
                self._unmoved[source] = 0
            elif source in taken:
                self._unmoved[source] += 1

    def waiting(self, with_rows: Collection[SourceName]) -> frozenset[SourceName]:
        """Those among the sources with rows that must not be read in the next epoch."""
        known = {source: self._newest_ms[source] for source in with_rows if source in self._newest_ms}
        moving = [at_ms for source, at_ms in known.items() if self._unmoved[source] < PATIENCE]
        if not moving:
            return frozenset()
        limit_ms = min(moving) + self._ahead_ms
        return frozenset(source for source, at_ms in known.items() if at_ms > limit_ms)
