"""The rows of streams between units in a simulation: kept on a machine, from which they go when it is down (``engine.stream_store``).

As with Spark, rows that went with their machine are computed again when they are read, from the answers of the hosts that were known
when they were made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.engine.stream_store import StreamGone
from perseid.errors import CorruptData
from perseid.scaling.routing import RoutingTable
from perseid.simulation.site import Machine
from perseid.simulation.values import Rows
from perseid.vocabulary import Epoch, Keeping, StreamName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver


@dataclass(slots=True)
class Block:
    """One epoch of a stream: its rows, the routing under which they can be computed again, and the machine that holds them."""

    stream: StreamName
    epoch: Epoch
    rows: Rows | None  # None: nobody has computed them yet
    routing: RoutingTable | None = None  # None: it is a file
    machine: Machine | None = None
    made_ms: int = 0

    @property
    def lost(self) -> bool:
        """Did it go with its machine?"""
        return self.machine is not None and self.machine.wiped_ms > self.made_ms


class SimulatedStreamRows:
    """What ``StreamStore`` does with rows, on simulated machines and the simulated root."""

    def __init__(self, driver: SimulatedDriver, again: Callable[[StreamName, Epoch, RoutingTable], Rows]) -> None:
        self._driver, self._world, self._root, self._again = driver, driver.world, driver.root, again
        self._sizes: dict[tuple[StreamName, Epoch], int] = {}  # rows of every epoch there was
        self.recomputed = self.recalled = 0

    def of(self, block: Block) -> Rows:
        """The rows, for somebody who reads them."""
        if block.rows is None or block.lost:
            assert block.routing is not None
            self.recomputed += block.lost
            again = self._again(
                block.stream, block.epoch, block.routing
            )  # simulated answers do not say how many rows they are
            block.rows = Rows(again.content, self._sizes[block.stream, block.epoch])
            if block.machine is not None:
                self.hold(block)
        return block.rows

    def preserve(self, stream: StreamName, epoch: Epoch, digest: str, rows: Block) -> None:
        self._root.check(self._driver.generation)
        self._root.reach(self._driver.clock.now_ms)
        self._root.preserved[stream, epoch] = (digest, self.of(rows))

    def preserved(self, stream: StreamName, epoch: Epoch) -> Block:
        kept = self._root.preserved.get((stream, epoch))
        if kept is None:
            raise StreamGone(f"stream {stream}: epoch {epoch} is not on the root")
        return Block(stream, epoch, kept[1])

    def keep(self, stream: StreamName, epoch: Epoch, rows: Block, keeping: Keeping) -> Block:
        self._sizes[stream, epoch] = self.of(rows).size
        return self.hold(rows)

    def hold(self, rows: Block) -> Block:
        rows.machine, rows.made_ms = self._world.random.choice(self._world.machines), self._driver.clock.now_ms
        return rows

    def let_go(self, stream: StreamName, epoch: Epoch, rows: Block) -> None:
        rows.machine = None

    def load(self, stream: StreamName, path: str) -> Block:
        rows = self._root.saved.get(path)
        if rows is None or path in self._root.damaged:
            raise CorruptData(f"stream {stream}: an epoch that was saved as {path} is missing or fails its hash")
        return Block(stream, Epoch(0), rows)

    def save(self, rows: Block, path: str) -> int:
        self._root.check(self._driver.generation)
        self._root.reach(self._driver.clock.now_ms)
        self._root.saved[path] = found = self.of(rows)
        return found.size

    def again(self, stream: StreamName, epoch: Epoch, routing: RoutingTable) -> Block:
        self.recalled += 1
        return Block(stream, epoch, None, routing)

    def trim(self, stream: StreamName, epoch: Epoch) -> None:
        self._root.check(self._driver.generation)
        self._root.reach(self._driver.clock.now_ms)
        for key in [k for k in self._root.preserved if k[0] == stream and k[1] <= epoch]:
            del self._root.preserved[key]
        self._world.witness.stream_trimmed(stream, epoch)
