"""The buffer of a preserved stream: so much in memory, the rest on local disk (M2).

"Each HAU preserves output tuples in an in-memory buffer. The buffer has a limited size in order to curb memory contention. Once
the buffer is full, the buffered data are dumped into the local disk. The buffer size in this implementation is 50MB." Here an
epoch that comes while the buffer is full goes to the local disk of its executors at once: what lies in memory is not
written a second time, and nothing is moved while a consumer may be reading it.

Invariant: memory holds at most the limit and one epoch more, by stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perseid.vocabulary import Epoch

BUFFER_BYTES = 50 << 20

Place = Literal["memory", "disk"]


@dataclass(slots=True)
class PreservedBuffer:
    """Where the epochs of preserved streams lie."""

    limit_bytes: int = BUFFER_BYTES
    in_memory: dict[tuple[str, Epoch], int] = field(default_factory=dict)  # bytes
    on_disk: dict[tuple[str, Epoch], int] = field(default_factory=dict)

    def place(self, stream: str) -> Place:
        """Where the next epoch goes."""
        return "memory" if self.bytes_in_memory(stream) < self.limit_bytes else "disk"

    def bytes_in_memory(self, stream: str) -> int:
        """Bytes of a stream in memory."""
        return sum(size for (name, _), size in self.in_memory.items() if name == stream)

    def put(self, stream: str, epoch: Epoch, place: Place, size: int) -> None:
        self.forget(stream, epoch)
        (self.in_memory if place == "memory" else self.on_disk)[(stream, epoch)] = size

    def forget(self, stream: str, epoch: Epoch) -> None:
        self.in_memory.pop((stream, epoch), None)
        self.on_disk.pop((stream, epoch), None)

    def clear(self) -> None:
        self.in_memory.clear()
        self.on_disk.clear()

    def check(self) -> None:
        """Assert the invariants."""
        for stream in {name for name, _ in self.in_memory}:
            largest = max(size for (name, _), size in self.in_memory.items() if name == stream)
            assert self.bytes_in_memory(stream) < self.limit_bytes + largest
        assert not self.in_memory.keys() & self.on_disk.keys()
