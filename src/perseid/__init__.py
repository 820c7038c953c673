"""Perseid: stateful streaming applications on Apache Spark, exactly once, whatever fails."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perseid.checkpoint.schemes import adaptive, baseline, oracle, parallel, source, source_replay, upstream_backup
from perseid.duration import Duration, every
from perseid.errors import PerseidError
from perseid.graph.app import App
from perseid.graph.nodes import EpochInfo
from perseid.graph.stream import Stream
from perseid.operators.context import Context
from perseid.operators.event_time import EventTime, event_time
from perseid.operators.keyed import KeyedOperator
from perseid.operators.operator import Operator
from perseid.recorded import recording
from perseid.scaling.bottleneck import auto
from perseid.state.fields import state
from perseid.state.timers import Timer

if TYPE_CHECKING:
    from perseid import sinks as sinks
    from perseid import sources as sources
    from perseid.processor.operator import spark_processor as spark_processor

__all__ = [
    "App",
    "Context",
    "Duration",
    "EpochInfo",
    "EventTime",
    "KeyedOperator",
    "Operator",
    "PerseidError",
    "Stream",
    "Timer",
    "adaptive",
    "auto",
    "baseline",
    "event_time",
    "every",
    "oracle",
    "parallel",
    "recording",
    "sinks",
    "source",
    "source_replay",
    "sources",
    "spark_processor",
    "state",
    "upstream_backup",
]

_LAZY = ("sinks", "sources")  # they import PySpark, which the simulator and most hosts can do without


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"perseid.{name}")
    if name == "spark_processor":
        return importlib.import_module("perseid.processor.operator").spark_processor
    raise AttributeError(f"module 'perseid' has no attribute {name!r}")
