"""Streams between units as the driver has them: rows kept on machines, in-flight epochs of a checkpoint, durable ones on the root.

Rows kept on a machine that went down are computed again from the answers hosts keep (``spark.streams``), and so are those of a retained
stream that every consumer had read, when a lost one needs them again.
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
from perseid.vocabulary import Epoch, Keeping, StreamName, UnitName


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
        self, topology: Topology, root: Root, rebuild: Callable[[UnitName, Epoch, RoutingTable | None], Rows]
    ) -> None:
        self._root, self._rebuild = root, rebuild
        self._kinds: dict[StreamName, Keeping] = {s.name: s.preservation for s in topology.streams}
        self._producers = {s.name: s.producer for s in topology.streams}
        self._blocks: dict[tuple[StreamName, Epoch], Block] = {}
        self._saved: dict[tuple[StreamName, Epoch], str] = {}
        self._offered: dict[tuple[StreamName, Epoch], str] = {}  # as saved; for shards that go back alone
        self._sizes: dict[tuple[StreamName, Epoch], int] = {}  # rows of every epoch there was
        self.recomputed = self.recalled = 0

    def put(self, stream: StreamName, epoch: Epoch, digest: str, block: Block) -> None:
        if self._kinds[stream] == "durable":
            self._root.preserved[(stream, epoch)] = (digest, block.rows)
        else:
            self._blocks[(stream, epoch)] = block
            self._sizes[(stream, epoch)] = block.rows.size

    def read(self, stream: StreamName, epoch: Epoch, refreshed: RoutingTable | None = None) -> Rows:
        """An epoch for a consumer. ``refreshed``: rows that must be computed again are asked for under this routing."""
        key = (stream, epoch)
        if self._kinds[stream] == "durable":
            kept = self._root.preserved.get(key)
            if kept is None:
                raise StreamGone(f"stream {stream}: epoch {epoch} is not on the root")
            return kept[1]
        block, path = self._blocks.get(key), self._saved.get(key) or self._offered.get(key)
        if block is not None and not (path is not None and block.machine.wiped_ms > block.made_ms):
            if refreshed is not None:
                block.routing = refreshed
            if block.machine.wiped_ms > block.made_ms:
                block.rows = self._again(stream, epoch, block.routing)
                self.recomputed += 1
            return block.rows
        if path is not None and path in self._root.saved:
            if path in self._root.damaged:
                raise CorruptData(f"stream {stream}: epoch {epoch}, saved as {path}, fails its hash")
            return self._root.saved[path]
        if self._kinds[stream] == "retained":
            self.recalled += 1
            return self._again(stream, epoch, refreshed)
        raise StreamGone(f"stream {stream}: epoch {epoch} is no longer kept")

    def _again(self, stream: StreamName, epoch: Epoch, routing: RoutingTable | None) -> Rows:
        """As hosts answer once more; simulated answers do not say how many rows they are."""
        again = self._rebuild(self._producers[stream], epoch, routing)
        return Rows(again.content, self._sizes[(stream, epoch)])

    def release(self, stream: StreamName, epoch: Epoch) -> None:
        for kept in (self._blocks, self._saved):
            for key in [k for k in kept if k[0] == stream and k[1] <= epoch]:
                del kept[key]

    def offer(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        self._offered = dict(inflight)

    def reset(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        self._blocks.clear()
        self._saved, self._offered = dict(inflight), {}
