"""What a shard remembers: declared fields, values by key, timers; saved, sized and restored (S1).

The operations on it are public in ``perseid.primitives`` (S2); ``perseid.state`` itself is the function that declares a field.
"""

from __future__ import annotations

from perseid.state.backup import Backups, backup_state
from perseid.state.buffer import by_key, partition_buffer_state, replay_buffer_state, trim_buffer_state
from perseid.state.fields import StateField, fields_of, state
from perseid.state.partition import merge_state, partition_processing_state
from perseid.state.shard_state import ShardState, checkpoint_state, restore_state
from perseid.state.slots import divided, slot_of
from perseid.state.spilled import Spilled
from perseid.state.timers import Timer, Timers

__all__ = [
    "Backups",
    "ShardState",
    "Spilled",
    "StateField",
    "Timer",
    "Timers",
    "backup_state",
    "by_key",
    "checkpoint_state",
    "divided",
    "fields_of",
    "merge_state",
    "partition_buffer_state",
    "partition_processing_state",
    "replay_buffer_state",
    "restore_state",
    "slot_of",
    "state",
    "trim_buffer_state",
]
