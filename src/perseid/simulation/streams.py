"""Streams between units as the driver has them: rows kept on machines, in-flight epochs of a checkpoint, durable ones on the root.

Rows kept on a machine that went down are computed again from the answers hosts keep (``spark.streams``), which is why those are
kept until every consumer is past them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perseid.errors import CorruptData
from perseid.graph.topology import Topology
from perseid.scaling.routing import RoutingTable
from perseid.simulation.root import Root
from perseid.simulation.site import Machine
from perseid.simulation.values import Rows
from perseid.vocabulary import Epoch, Preservation, StreamName, UnitName


class StreamGone(Exception):
    """An epoch is kept nowhere."""


@dataclass(slots=True)
class Block:
    """One epoch of a stream in memory, where, since when, and under which routing it can be computed again."""

    rows: Rows
    machine: Machine
    made_ms: int
    routing: RoutingTable


class Streams:
    """What lies between units now."""

    def __init__(
        self, topology: Topology, root: Root, rebuild: Callable[[UnitName, Epoch, RoutingTable], Rows]
    ) -> None:
        self._root, self._rebuild = root, rebuild
        self._kinds: dict[StreamName, Preservation] = {s.name: s.preservation for s in topology.streams}
        self._producers = {s.name: s.producer for s in topology.streams}
        self._blocks: dict[tuple[StreamName, Epoch], Block] = {}
        self._saved: dict[tuple[StreamName, Epoch], str] = {}
        self.recomputed = 0

    def put(self, stream: StreamName, epoch: Epoch, digest: str, block: Block) -> None:
        if self._kinds[stream] == "durable":
            self._root.preserved[(stream, epoch)] = (digest, block.rows)
        else:
            self._blocks[(stream, epoch)] = block

    def read(self, stream: StreamName, epoch: Epoch, refreshed: RoutingTable | None = None) -> Rows:
        """An epoch for a consumer. ``refreshed``: rows that must be computed again are asked for under this routing."""
        key = (stream, epoch)
        if self._kinds[stream] == "durable":
            kept = self._root.preserved.get(key)
            if kept is None:
                raise StreamGone(f"stream {stream}: epoch {epoch} is not on the root")
            return kept[1]
        block = self._blocks.get(key)
        if block is not None:
            if refreshed is not None:
                block.routing = refreshed
            if block.machine.wiped_ms > block.made_ms:
                again = self._rebuild(self._producers[stream], epoch, block.routing)
                block.rows = Rows(again.content, block.rows.size)
                self.recomputed += 1
            return block.rows
        path = self._saved.get(key)
        if path is not None and path in self._root.saved:
            if path in self._root.damaged:
                raise CorruptData(f"stream {stream}: epoch {epoch}, saved as {path}, fails its hash")
            return self._root.saved[path]
        raise StreamGone(f"stream {stream}: epoch {epoch} is no longer kept")

    def release(self, stream: StreamName, epoch: Epoch) -> None:
        for kept in (self._blocks, self._saved):
            for key in [k for k in kept if k[0] == stream and k[1] <= epoch]:
                del kept[key]

    def reset(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        self._blocks.clear()
        self._saved = dict(inflight)
