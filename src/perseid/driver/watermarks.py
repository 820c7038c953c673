"""Watermarks: the newest event time an operator saw before an epoch, less its delay; over several inputs the smallest.

An input that had no rows yet holds the watermark back, until it counts as idle (``event_time(…, idle_after=…)``). Which inputs are
idle in an epoch is decided when it is admitted, and is in the ledger with it, as the event times are; so an epoch run again sees the
watermark it saw the first time. A watermark never goes back: where idle inputs may come back, the ledger keeps the watermark, too.
In the last epoch of an input that ends it is the end of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perseid.driver.reports import Report
from perseid.graph.graph import Graph
from perseid.graph.nodes import SourceNode, StatefulNode
from perseid.operators.event_time import END_OF_TIME_MS
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted
from perseid.vocabulary import Epoch, OperatorName, ShardId, SourceName, UnitName

Timed = Mapping[str, Sequence[str]]
"""By operator: its inputs that have the event-time column."""


def event_time_key(operator: str, input_name: str) -> OperatorName:
    """Under which name the ledger keeps the event times of one input of an operator."""
    return OperatorName(f"{operator}.{input_name}")


def watermark_key(operator: str) -> OperatorName:
    """Under which name the ledger keeps the watermark of an operator, where it must not be forgotten. No input has that name."""
    return event_time_key(operator, "")


def watermark_ms(
    node: StatefulNode,
    seen: Mapping[OperatorName, int],
    inputs: Sequence[str],
    idle: Iterable[OperatorName] = (),
) -> int | None:
    """The watermark of an operator in an epoch, from the newest event times of all epochs before it.

    If all inputs are idle, the newest of all event times counts: none of them has anything to wait for.
    """
    if node.event_time is None:
        return None
    before = seen.get(watermark_key(node.name))
    away = set(idle)
    keys = [event_time_key(node.name, name) for name in inputs]
    active = [key for key in keys if key not in away]
    found = [seen[key] for key in (active or keys) if key in seen]
    if not found or (active and len(found) < len(active)):
        return before
    newest = min(found) if active else max(found)
    now = newest - node.event_time.delay.ms
    return now if before is None else max(now, before)


def event_times(reports: Mapping[ShardId, Report]) -> dict[OperatorName, int]:
    """The newest event times of an epoch, over all shards, as the ledger keeps them."""
    newest: dict[OperatorName, int] = {}
    for shard, report in reports.items():
        for name, at_ms in report.event_times_ms.items():
            key = event_time_key(shard.operator, name)
            newest[key] = max(at_ms, newest.get(key, at_ms))
    return newest


def inputs_of_sources(graph: Graph, timed: Timed) -> dict[SourceName, tuple[OperatorName, ...]]:
    """By source: the timed inputs of operators whose rows are of this source alone, so that they tell how far it is."""
    found: dict[SourceName, tuple[OperatorName, ...]] = {}
    for node in graph.operators:
        for stream, name in zip(node.inputs, node.input_names, strict=True):
            above = _sources_above(graph, stream)
            if name in timed.get(node.name, ()) and len(above) == 1:
                (source,) = above
                found[source] = (*found.get(source, ()), event_time_key(node.name, name))
    return found


def _sources_above(graph: Graph, stream: str) -> set[SourceName]:
    node = graph.node(stream)
    if isinstance(node, SourceNode):
        return {SourceName(node.name)}
    return set().union(*(_sources_above(graph, above) for above in node.inputs))


class EventTimes:
    """The newest event times of all epochs: those in the ledger, and those of the last ones, which are still on their way into it."""

    def __init__(self, graph: Graph, ledger: Ledger, timed: Timed) -> None:
        self._graph, self._ledger, self._timed = graph, ledger, timed
        self._recent: dict[tuple[UnitName, Epoch], dict[OperatorName, int]] = {}
        self._began_ms: int | None = None
        self._had_rows_ms: dict[OperatorName, int] = {}  # the time of the last epoch in which an input had rows
        self._finished_ms: dict[str, int] = {}  # the time of the last epoch of a unit

    def finished(self, unit: UnitName, admitted: Admitted, reports: Mapping[ShardId, Report]) -> None:
        """A unit is done with an epoch."""
        times = event_times(reports)
        for key in times:
            self._had_rows_ms[key] = admitted.time_ms
        self._finished_ms[unit] = admitted.time_ms
        for node in self._graph.operators:
            if node.unit == unit and node.event_time is not None and (admitted.last or node.event_time.idle_after):
                mark = self.watermark_ms(OperatorName(node.name), admitted.epoch)
                if mark is not None:
                    times[watermark_key(node.name)] = mark
        self._recent[(unit, admitted.epoch)] = times
        for done in [key for key in list(self._recent) if key[1] <= self._ledger.committed(key[0])]:
            del self._recent[done]

    def of_epoch(self, unit: UnitName, epoch: Epoch) -> dict[OperatorName, int]:
        """What the ledger is to keep of it."""
        return self._recent.get((unit, epoch), {})

    def reset(self) -> None:
        """The application goes back: what was not written down is computed again."""
        self._recent.clear()

    def watermark_ms(self, operator: OperatorName, epoch: Epoch) -> int | None:
        node = self._graph.node(operator)
        assert isinstance(node, StatefulNode)
        if node.event_time is None:
            return None
        admitted = self._ledger.admitted(epoch)
        assert admitted is not None, f"epoch {epoch} is not in the ledger"
        if admitted.last:
            return END_OF_TIME_MS
        return watermark_ms(node, self._before(epoch), self._timed.get(node.name, ()), admitted.idle)

    def next_watermarks_ms(self, idle: Iterable[OperatorName] = ()) -> dict[str, int]:
        """Of all operators, in the epoch after the last. None after the end: timers that are set there do not make another epoch."""
        if self._ledger.ended:
            return {}
        seen = self._before(Epoch(self._ledger.last_admitted + 1))
        marks = {n.name: watermark_ms(n, seen, self._timed.get(n.name, ()), idle) for n in self._graph.operators}
        return {name: mark for name, mark in marks.items() if mark is not None}

    def idle(self, now_ms: int, *, quiet: bool) -> tuple[OperatorName, ...]:
        """Inputs that had no rows for as long as their operator says. While epochs run (not ``quiet``), they may have rows on their way."""
        if self._began_ms is None:
            self._began_ms = now_ms
        found = []
        for node in self._graph.operators:
            if node.event_time is None or node.event_time.idle_after is None:
                continue
            until_ms = now_ms if quiet else self._finished_ms.get(node.unit, self._began_ms)
            for name in self._timed.get(node.name, ()):
                key = event_time_key(node.name, name)
                if until_ms - self._had_rows_ms.get(key, self._began_ms) >= node.event_time.idle_after.ms:
                    found.append(key)
        return tuple(sorted(found))

    def _before(self, epoch: Epoch) -> dict[OperatorName, int]:
        seen = dict(self._ledger.event_times_ms(Epoch(epoch - 1)))
        for (_, number), times in list(self._recent.items()):
            for name, at_ms in times.items() if number < epoch else ():
                seen[name] = max(at_ms, seen.get(name, at_ms))
        return seen
