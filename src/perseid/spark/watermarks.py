"""Watermarks: the newest event time an operator saw before an epoch, less its delay; over several inputs the smallest.

They come from the ledger, so that an epoch run again sees the watermark it saw the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perseid.graph.graph import Graph
from perseid.graph.nodes import StatefulNode
from perseid.spark.reports import Report
from perseid.storage.ledger import Ledger
from perseid.vocabulary import Epoch, OperatorName, ShardId, UnitName


def event_time_key(operator: str, input_name: str) -> OperatorName:
    """Under which name the ledger keeps the event times of one input of an operator."""
    return OperatorName(f"{operator}.{input_name}")


def watermark_ms(node: StatefulNode, seen: Mapping[OperatorName, int]) -> int | None:
    """The watermark of an operator in an epoch, from the newest event times of all epochs before it."""
    if node.event_time is None:
        return None
    newest = [seen[key] for name in node.input_names if (key := event_time_key(node.name, name)) in seen]
    return min(newest) - node.event_time.delay.ms if newest else None


def event_times(reports: Mapping[ShardId, Report]) -> dict[OperatorName, int]:
    """The newest event times of an epoch, over all shards, as the ledger keeps them."""
    newest: dict[OperatorName, int] = {}
    for shard, report in reports.items():
        for name, at_ms in report.event_times_ms.items():
            key = event_time_key(shard.operator, name)
            newest[key] = max(at_ms, newest.get(key, at_ms))
    return newest


def all_watermarks_ms(nodes: Iterable[StatefulNode], seen: Mapping[OperatorName, int]) -> dict[str, int]:
    """The watermarks of all operators that have one."""
    return {n.name: mark for n in nodes if (mark := watermark_ms(n, seen)) is not None}


class EventTimes:
    """The newest event times of all epochs: those in the ledger, and those of the last ones, which are still on their way into it."""

    def __init__(self, graph: Graph, ledger: Ledger) -> None:
        self._graph, self._ledger = graph, ledger
        self._recent: dict[tuple[UnitName, Epoch], dict[OperatorName, int]] = {}

    def finished(self, unit: UnitName, epoch: Epoch, reports: Mapping[ShardId, Report]) -> None:
        """A unit is done with an epoch."""
        self._recent[(unit, epoch)] = event_times(reports)
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
        return watermark_ms(node, self._before(epoch))

    def next_watermarks_ms(self) -> dict[str, int]:
        """Of all operators, in the epoch after the last."""
        return all_watermarks_ms(self._graph.operators, self._before(Epoch(self._ledger.last_admitted + 1)))

    def _before(self, epoch: Epoch) -> dict[OperatorName, int]:
        seen = dict(self._ledger.event_times_ms(Epoch(epoch - 1)))
        for (_, number), times in list(self._recent.items()):
            for name, at_ms in times.items() if number < epoch else ():
                seen[name] = max(at_ms, seen.get(name, at_ms))
        return seen
