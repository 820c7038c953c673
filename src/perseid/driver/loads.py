"""What hosts have to do, as the driver sees it: how rows spread over the slots of an operator, and keys that are hot (S5)."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from perseid.engine.messages import LoadMeasured, ShardLoad
from perseid.scaling.bottleneck import HostLoad
from perseid.scaling.routing import RoutingTable
from perseid.scaling.split import split_slots
from perseid.vocabulary import SLOTS, HostId, OperatorName, ShardId, SlotRange

HOT_SHARE = 0.2  # of an operator's rows; and more than a shard's fair share


@dataclass(frozen=True, slots=True)
class HotKey:
    """One key has so much of an operator's rows that no division can spread them."""

    operator: str
    key: str
    share: float


class Loads:
    """The newest word on every shard. Many threads may ask."""

    def __init__(self) -> None:
        self._shards: dict[ShardId, ShardLoad] = {}
        self._known: set[tuple[str, str]] = set()  # hot keys told already
        self._lock = threading.Lock()

    def told(self, measured: LoadMeasured) -> None:
        """A host's report."""
        with self._lock:
            self._shards |= {load.shard: load for load in measured.shards}

    def host_load(self, host: HostId, measured: LoadMeasured) -> HostLoad:
        """The same report, as the bottleneck detector wants it."""
        shares = {load.shard: load.busy_ms / max(1, measured.ms) for load in measured.shards}
        return HostLoad(host, measured.cpu, shares)

    def division(self, routing: RoutingTable, operator: OperatorName, shards: int) -> tuple[SlotRange, ...]:
        """Where to cut: by what was seen, as long as it was seen of every shard there is."""
        seen = self._of(routing, operator)
        weights = [0.0] * SLOTS
        for load in seen or ():
            for slot, rows in load.slots.items():
                weights[slot] += rows
        return split_slots(shards, weights)

    def hot_keys(self, routing: RoutingTable) -> list[HotKey]:
        """Those not told before."""
        found = []
        for operator in {shard.operator for shard in routing.routes}:
            seen = self._of(routing, operator) or []
            total = sum(load.rows for load in seen)
            for load in seen:
                share = load.hot[1] * load.rows / total if load.hot is not None and total else 0.0
                if (
                    load.hot is None
                    or share < max(HOT_SHARE, 1.2 / len(seen))
                    or (operator, load.hot[0]) in self._known
                ):
                    continue
                self._known.add((operator, load.hot[0]))
                found.append(HotKey(operator, load.hot[0], round(share, 3)))
        return found

    def _of(self, routing: RoutingTable, operator: OperatorName) -> list[ShardLoad] | None:
        with self._lock:
            seen = [self._shards.get(route.shard) for route in routing.of(operator)]
        known = [load for load in seen if load is not None]
        return known if len(known) == len(seen) else None
