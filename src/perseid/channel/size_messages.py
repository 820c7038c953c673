"""Questions, answers and notices about state sizes as messages between the controller and hosts (M5c, M5d)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perseid.checkpoint.size_reports import (
    AskSizes,
    Observed,
    ShardSize,
    SizeHalved,
    SizePoint,
    SizeReport,
    SizesReported,
    SizeTurned,
)
from perseid.vocabulary import HostId, OperatorName, ShardId

Message = dict[str, Any]


def ask_message(ask: AskSizes) -> Message:
    shards = None if ask.shards is None else [list(shard) for shard in sorted(ask.shards)]
    lows = [[list(shard), low] for shard, low in sorted(ask.lows.items())]
    return {
        "kind": "sizes", "query": ask.query, "shards": shards, "watch": ask.watch, "observed": ask.observed, "lows": lows,
    }  # fmt: skip


def read_ask(message: Mapping[str, Any]) -> AskSizes:
    shards = None if message["shards"] is None else frozenset(_shard(shard) for shard in message["shards"])
    lows = {_shard(shard): low for shard, low in message["lows"]}
    return AskSizes(message["query"], shards, message["watch"], message["observed"], lows)


def answer_message(query: int, sizes: Iterable[ShardSize]) -> Message:
    return {"kind": "sizes", "query": query, "sizes": [_size_message(size) for size in sizes]}


def notice_message(notice: SizeHalved | SizeTurned) -> Message:
    match notice:
        case SizeHalved(shard, before, size):
            return {"kind": "halved", "shard": list(shard), "before": before, "bytes": size}
        case SizeTurned(shard, size, rate):
            return {"kind": "turned", "shard": list(shard), "bytes": size, "rate": rate}


def read_report(host: HostId, message: Mapping[str, Any]) -> SizeReport:
    """What a host said."""
    match message["kind"]:
        case "halved":
            return SizeHalved(_shard(message["shard"]), message["before"], message["bytes"])
        case "turned":
            return SizeTurned(_shard(message["shard"]), message["bytes"], message["rate"])
        case _:
            return SizesReported(host, message["query"], tuple(_size(size) for size in message["sizes"]))


def _size_message(size: ShardSize) -> Message:
    seen = size.observed
    observed = seen and [seen.lowest, seen.mean, seen.samples, [[p.at_ms, p.bytes] for p in seen.points]]
    return {"shard": list(size.shard), "bytes": size.bytes, "rate": size.rate, "observed": observed}


def _size(message: Mapping[str, Any]) -> ShardSize:
    observed = None
    if message["observed"] is not None:
        lowest, mean, samples, points = message["observed"]
        observed = Observed(lowest, mean, samples, tuple(SizePoint(at_ms, size) for at_ms, size in points))
    return ShardSize(_shard(message["shard"]), message["bytes"], message["rate"], observed)


def _shard(name: list[Any]) -> ShardId:
    return ShardId(OperatorName(name[0]), name[1])
