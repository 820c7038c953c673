"""What a shard remembers: declared fields, values by key, timers; saved, sized and restored (S1).

And the primitives by which it is managed (S2): each works on values, alone, and is what the engine itself calls.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perseid.state.backup import Backups, backup_state
from perseid.state.buffer import by_key, partition_buffer_state, replay_buffer_state, trim_buffer_state
from perseid.state.fields import StateField, fields_of, state
from perseid.state.partition import merge_state, partition_processing_state
from perseid.state.shard_state import ShardState, checkpoint_state, restore_state
from perseid.state.slots import divided, slot_of
from perseid.state.spilled import Spilled
from perseid.state.timers import Timer, Timers

if TYPE_CHECKING:
    from perseid.scaling.routing import partition_routing_state as partition_routing_state
    from perseid.storage.persisted import persist as persist
    from perseid.storage.persisted import persisted as persisted

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
    "partition_routing_state",
    "persist",
    "persisted",
    "replay_buffer_state",
    "restore_state",
    "slot_of",
    "state",
    "trim_buffer_state",
]

_ABOVE = {  # of packages that stand on this one
    "partition_routing_state": "perseid.scaling.routing",
    "persist": "perseid.storage.persisted",
    "persisted": "perseid.storage.persisted",
}


def __getattr__(name: str) -> Any:
    if name in _ABOVE:
        return getattr(importlib.import_module(_ABOVE[name]), name)
    raise AttributeError(f"module 'perseid.state' has no attribute {name!r}")
