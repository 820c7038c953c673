"""The words of the system as types: distinct integers are distinct types.

operator  a node of the graph: stateless (a DataFrame function) or stateful (a Python class)
stream    an edge of the graph
unit      a group of operators scheduled, checkpointed and recovered as one
shard     one slot range of a stateful operator, with its state
host      a long-lived Python process, itself a Spark task, that holds shards
epoch     the slice of every stream that one Spark job of a unit works on; numbered from 1
token     the boundary after an epoch at which a checkpoint is asked for
snapshot  one shard's saved state at an epoch boundary
"""

from __future__ import annotations

from typing import Literal, NamedTuple, NewType

Epoch = NewType("Epoch", int)
Offset = NewType("Offset", int)
Slot = NewType("Slot", int)
HostId = NewType("HostId", int)
CheckpointId = NewType("CheckpointId", int)
Version = NewType("Version", int)  # of the routing table
Attempt = NewType("Attempt", int)  # at running one epoch of one unit
Generation = NewType("Generation", int)  # of the driver: one more for every start on a root
Fence = NewType("Fence", int)  # a driver's number on all it writes to: higher for every later start, also on a new root

UnitName = NewType("UnitName", str)
StreamName = NewType("StreamName", str)
OperatorName = NewType("OperatorName", str)
SourceName = NewType("SourceName", str)
SinkName = NewType("SinkName", str)

Preservation = Literal["transient", "retained", "durable"]
"""What users may say of a stream between units."""
Keeping = Literal["transient", "retained", "buffered", "durable"]
"""How a stream is kept: as users said, or in the buffers of the schemes that Perseid is compared with (M2)."""

SLOTS = 256
"""How many slots the key space is cut into. Fixed for good: snapshots and routing tables speak of slots."""


SlotRange = tuple[int, int]
"""Slots that follow one another: the first, and the one behind the last."""


class ShardId(NamedTuple):
    """One shard of one stateful operator. Its number is its own for good: a shard that takes over from others has a new one."""

    operator: OperatorName
    index: int  # type: ignore[assignment]  # a tuple's own index() is not missed

    def __str__(self) -> str:
        return f"{self.operator}/{self.index}"
