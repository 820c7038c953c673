"""The operations on state of which recovery and scaling are made (S2). Each works on values, needs no Spark, and is what the engine calls.

    shard = restore_state(Count(), None)                                   # an empty shard
    run_epoch(shard, {"rows": rows}, Context(1, time_ms=0, key=("word",)))   # apply one epoch
    saved = checkpoint_state(shard, 1)                                     # its state as a value
    left, right = partition_processing_state(saved, Count(), divided((0, SLOTS), 2), key_types=["string"])

Processing state is what a shard has computed, buffer state is output that is kept to be sent again, and routing state says which shard
answers for which keys. A key belongs to one of ``SLOTS`` slots (``slot_of``); a shard answers for a range of slots.
"""

from perseid.scaling.routing import RoutingTable, numbered, partition_routing_state
from perseid.state.backup import Backups, backup_state
from perseid.state.buffer import by_key, partition_buffer_state, replay_buffer_state, trim_buffer_state
from perseid.state.operator_state import run_epoch
from perseid.state.partition import merge_state, partition_processing_state
from perseid.state.shard_state import ShardState, checkpoint_state, restore_state
from perseid.state.slots import divided, slot_of
from perseid.storage.persisted import persist, persisted
from perseid.storage.snapshots import SnapshotFile
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, ShardId

__all__ = [
    "SLOTS",
    "Backups",
    "RoutingTable",
    "ShardId",
    "ShardState",
    "SnapshotFile",
    "Store",
    "backup_state",
    "by_key",
    "checkpoint_state",
    "divided",
    "merge_state",
    "numbered",
    "partition_buffer_state",
    "partition_processing_state",
    "partition_routing_state",
    "persist",
    "persisted",
    "replay_buffer_state",
    "restore_state",
    "run_epoch",
    "slot_of",
    "trim_buffer_state",
]
