"""What a shard remembers: declared fields, values by key, timers; saved, sized and restored (S1)."""

from perseid.state.fields import StateField, fields_of, state
from perseid.state.slots import slot_of
from perseid.state.timers import Timer, Timers

__all__ = ["StateField", "Timer", "Timers", "fields_of", "slot_of", "state"]
