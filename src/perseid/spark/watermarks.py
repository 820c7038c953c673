"""Watermarks: the newest event time an operator saw before an epoch, less its delay; over several inputs the smallest.

They come from the ledger, so that an epoch run again sees the watermark it saw the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perseid.graph.nodes import StatefulNode
from perseid.spark.reports import Report
from perseid.vocabulary import OperatorName, ShardId


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
