"""Stateful operators as users write them: Python classes that see one epoch of one shard at a time."""

from perseid.operators.context import Context
from perseid.operators.event_time import EventTime, event_time
from perseid.operators.keyed import KeyedOperator
from perseid.operators.operator import Operator
from perseid.operators.output import fit
from perseid.state.timers import Timer, Timers

__all__ = ["Context", "EventTime", "KeyedOperator", "Operator", "Timer", "Timers", "event_time", "fit"]
