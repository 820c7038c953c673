"""Standby in the picture: which host has a copy on which, how far the copy is behind, who of the two answers (H1 to H5).

A pair is known by its primary. The engine has a pair for every unit and standby of a host's shards, and tells of each; their copies are on
one host, and here they are one pair. What becomes of pairs is told in their own list and, where somebody else answers, as an incident.

Invariant: a pair's primary is alive, or its copy answers, or is about to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perseid.cli.journal_text import sentence, tone
from perseid.dashboard.picture import Pair, Picture, Told
from perseid.dashboard.stories import Stories

Record = Mapping[str, Any]


RECENT, SAME_MS = 6, 3_000
"""Of so many events, those that came so close upon each other and say the same are told once."""


class StandbyModel:
    """Takes in what the journal tells of copies."""

    def __init__(self, picture: Picture, stories: Stories) -> None:
        self._picture, self._stories = picture, stories
        self._given_up: dict[int, int] = {}  # a host → the one that was promoted
        self.take: dict[str, Callable[[Record, int], None]] = {
            "copy_wanted": self._wanted, "copy_deploying": self._deploying, "copy_deployed": self._deployed,
            "copy_refreshed": self._refreshed, "copy_lost": self._lost, "switched": self._switched, "swapped": self._swapped,
            "rolled_back": self._rolled_back, "given_up": self._gave_up, "standby_changed": self._changed,
        }  # fmt: skip

    def host_gone(self, host: int) -> None:
        """A primary without a copy is recovered as all others are; where there is one, it is told who takes over."""
        pair = self._picture.pairs.get(host)
        if pair is not None and pair.phase in ("unguarded", "deploying"):
            del self._picture.pairs[host]

    def recovered(self) -> None:
        """The usual recovery has brought everything back: whoever is not alive is no primary any more."""
        picture = self._picture
        picture.pairs = {primary: pair for primary, pair in picture.pairs.items() if primary in picture.hosts}

    def committed(self, epoch: int, at_ms: int) -> None:
        """So far behind was each copy."""
        for pair in self._picture.pairs.values():
            if pair.epoch is not None:
                pair.behind.append((at_ms, max(0, epoch - pair.epoch)))

    def _pair(self, record: Record, at_ms: int, phase: str = "") -> Pair:
        primary = int(record["primary"])
        pair = self._picture.pairs.setdefault(primary, Pair(primary, at_ms))
        if "copy" in record:
            pair.copy = int(record["copy"])
        if phase and pair.phase != phase:
            pair.phase, pair.since_ms, pair.reason = phase, at_ms, ""
        return pair

    def _tell(self, record: Record, at_ms: int) -> None:
        told, events = Told(at_ms, sentence(record), tone(record)), self._picture.standby_events
        if any(before.text == told.text and at_ms - before.at_ms < SAME_MS for before in list(events)[-RECENT:]):
            return
        events.append(told)
        self._stories.tell(at_ms, told.text, told.tone)

    def _tell_switch(self, record: Record, at_ms: int) -> None:
        self._tell(record, at_ms)
        self._picture.last_switch = Told(at_ms, sentence(record), tone(record))

    def _wanted(self, record: Record, at_ms: int) -> None:
        pair = self._pair(record, at_ms, "unguarded")
        pair.copy, pair.epoch, pair.reason = None, None, str(record["reason"])
        self._tell(record, at_ms)

    def _deploying(self, record: Record, at_ms: int) -> None:
        pair = self._pair(record, at_ms, "deploying")
        pair.epoch, pair.same_fate = None, str(record["same_fate"] or "")
        self._tell(record, at_ms)

    def _deployed(self, record: Record, at_ms: int) -> None:
        pair = self._pair(record, at_ms, "guarded")
        pair.epoch, pair.refreshed_ms, pair.bytes = int(record["epoch"]), at_ms, int(record["bytes"])
        self._tell(record, at_ms)

    def _refreshed(self, record: Record, at_ms: int) -> None:
        known = self._picture.pairs.get(int(record["primary"]))
        pair = self._pair(record, at_ms, "" if known is not None and known.phase == "switched" else "guarded")
        pair.epoch, pair.refreshed_ms = max(int(record["epoch"]), pair.epoch or 0), at_ms
        pair.bytes, pair.ms, pair.full = int(record["bytes"]), float(record["ms"]), bool(record["full"])
        pair.refreshes += 1
        self._picture.totals.refresh_bytes += pair.bytes

    def _lost(self, record: Record, at_ms: int) -> None:
        pair = self._pair(record, at_ms, "unguarded")
        pair.copy, pair.epoch, pair.reason = None, None, str(record["reason"])
        self._stories.copy_lost(record)
        self._tell(record, at_ms)

    def _switched(self, record: Record, at_ms: int) -> None:
        known = self._picture.pairs.get(int(record["primary"]))
        if known is not None and known.phase == "switched" and known.copy == int(record["copy"]):
            known.epoch = min(known.epoch or 0, int(record["epoch"]))
            return
        pair = self._pair(record, at_ms, "switched")
        pair.epoch, pair.reason = int(record["epoch"]), str(record["reason"])
        pair.switches += 1
        self._picture.totals.switches += 1
        self._stories.switched(record, at_ms)
        self._tell_switch(record, at_ms)

    def _swapped(self, record: Record, at_ms: int) -> None:
        pairs, primary, copy = self._picture.pairs, int(record["primary"]), int(record["copy"])
        known = pairs.get(primary)
        if known is None or known.copy != copy:
            return
        del pairs[primary]
        pairs[copy] = Pair(copy, at_ms, "guarded", primary, reason=str(record["reason"]))
        for shard in self._picture.shards.values():
            if shard.host == primary:
                shard.host = copy
        self._tell(record, at_ms)

    def _rolled_back(self, record: Record, at_ms: int) -> None:
        known = self._picture.pairs.get(int(record["primary"]))
        if known is not None and known.phase != "switched":
            return
        self._pair(record, at_ms, "guarded")
        self._picture.totals.roll_backs += 1
        self._tell_switch(record, at_ms)
        self._stories.rolled_back(record, at_ms)

    def _gave_up(self, record: Record, at_ms: int) -> None:
        picture, host, promoted = self._picture, int(record["host"]), int(record["promoted"])
        if self._given_up.get(host) == promoted:
            return
        self._given_up[host] = promoted
        picture.pairs.pop(host, None)
        picture.pairs[promoted] = Pair(promoted, at_ms, reason="its copy is still to be made")
        for shard in picture.shards.values():
            if shard.host in (host, None):
                shard.host = promoted
        picture.totals.promotions += 1
        self._stories.given_up(record, at_ms)
        self._tell_switch(record, at_ms)

    def _changed(self, record: Record, at_ms: int) -> None:
        self._picture.standby_modes[str(record["operator"])] = str(record["mode"])
        self._tell(record, at_ms)
