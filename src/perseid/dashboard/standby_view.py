"""Standby as the page shows it: every pair with its phase, how far the copy is behind, and what happened. Pure."""

from __future__ import annotations

from typing import Any

from perseid.dashboard.picture import Pair, Picture, Shard

LISTED = 60


def standby(picture: Picture) -> dict[str, Any]:
    """Nothing where no operator has a standby."""
    last = picture.last_switch
    return {
        "modes": modes(picture),
        "pairs": [_pair(picture, pair) for _, pair in sorted(picture.pairs.items())],
        "last_switch": None if last is None else {"at_ms": last.at_ms, "text": last.text, "tone": last.tone},
        "events": [
            {"at_ms": told.at_ms, "text": told.text, "tone": told.tone} for told in reversed(picture.standby_events)
        ][:LISTED],
    }


def modes(picture: Picture) -> dict[str, str]:
    """The standby of operators, as they were made and as it was changed since."""
    return {node.name: node.standby for node in picture.nodes if node.standby} | picture.standby_modes


def has_copy(picture: Picture, operator: str) -> bool:
    """Hosts may have a copy of some of their operators alone. Who reads from the middle of a journal may not know of which."""
    known = modes(picture)
    return known.get(operator, "none") != "none" or all(mode == "none" for mode in known.values())


def of_shard(picture: Picture, shard: Shard) -> dict[str, Any]:
    """Where a shard has its copy, and who answers for it."""
    pair = picture.pairs.get(shard.host) if shard.host is not None else None
    if pair is None or pair.copy is None or not has_copy(picture, shard.operator):
        return {}
    return {"copy": pair.copy, "pair": pair.phase, "answering": pair.answering}


def behind(picture: Picture, pair: Pair) -> int | None:
    """Committed epochs that the copy does not have."""
    return None if pair.epoch is None else max(0, picture.epoch - pair.epoch)


def _pair(picture: Picture, pair: Pair) -> dict[str, Any]:
    return {
        "primary": pair.primary, "copy": pair.copy, "phase": pair.phase, "since_ms": pair.since_ms,
        "answering": pair.answering, "same_fate": pair.same_fate, "reason": pair.reason,
        "shards": sorted(s.name for s in picture.shards.values() if s.host == pair.primary and has_copy(picture, s.operator)),
        "epoch": pair.epoch, "behind": behind(picture, pair),
        "age_ms": None if pair.refreshed_ms is None else picture.at_ms - pair.refreshed_ms,
        "bytes": pair.bytes, "ms": pair.ms, "full": pair.full, "refreshes": pair.refreshes, "switches": pair.switches,
        "curve": [[at_ms / 1000, behind] for at_ms, behind in pair.behind],
    }  # fmt: skip
