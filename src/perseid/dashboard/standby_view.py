"""Standby as the page shows it: every pair with its phase, how far the copy is behind, and what happened. Pure."""

from __future__ import annotations

from typing import Any

from perseid.dashboard.picture import Pair, Picture

LISTED = 60


def standby(picture: Picture) -> dict[str, Any]:
    """Nothing where no operator has a standby."""
    return {
        "modes": picture.standby_modes | {node.name: node.standby for node in picture.nodes if node.standby},
        "pairs": [_pair(picture, pair) for _, pair in sorted(picture.pairs.items())],
        "events": [
            {"at_ms": told.at_ms, "text": told.text, "tone": told.tone} for told in reversed(picture.standby_events)
        ][:LISTED],
    }


def of_host(picture: Picture, host: int | None) -> dict[str, Any]:
    """Where the shards of a host have their copy, and who answers for them."""
    pair = picture.pairs.get(host) if host is not None else None
    if pair is None or pair.copy is None:
        return {}
    return {"copy": pair.copy, "pair": pair.phase, "answering": pair.answering}


def _pair(picture: Picture, pair: Pair) -> dict[str, Any]:
    return {
        "primary": pair.primary, "copy": pair.copy, "phase": pair.phase, "since_ms": pair.since_ms,
        "answering": pair.answering, "same_fate": pair.same_fate, "reason": pair.reason,
        "shards": sorted(shard.name for shard in picture.shards.values() if shard.host == pair.primary),
        "epoch": pair.epoch, "behind": None if pair.epoch is None else max(0, picture.epoch - pair.epoch),
        "age_ms": None if pair.refreshed_ms is None else picture.at_ms - pair.refreshed_ms,
        "bytes": pair.bytes, "ms": pair.ms, "full": pair.full, "refreshes": pair.refreshes, "switches": pair.switches,
        "curve": [[at_ms / 1000, behind] for at_ms, behind in pair.behind],
    }  # fmt: skip
