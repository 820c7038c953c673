"""Perseid: stateful streaming applications on Apache Spark, exactly once, whatever fails.

    import perseid
    from perseid import App, Operator, every, state

    app = App("words")
    ...
    app.run(spark, root="root/", checkpoint=perseid.checkpoints.adaptive(every(seconds=10)))

``perseid.sources``      where rows come from, and what a source of your own implements
``perseid.sinks``        where rows go, and what a sink of your own implements
``perseid.checkpoints``  when and how state is saved
``perseid.scaling``      when operators get more or fewer shards
``perseid.standby``      what takes over when a host is slow or dead
``perseid.agg``          aggregate functions, for ``stream.aggregate``
``perseid.testing``      tests of your own application, with real faults
``perseid.primitives``   the operations on state of which recovery and scaling are made
``perseid.errors``       every exception, in one tree
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from perseid import agg, checkpoints, errors, scaling, standby
from perseid.application import App
from perseid.duration import Duration, every
from perseid.engine.progress import CheckpointStatus, EpochStatus, HostStatus, Progress, StandbyStatus
from perseid.errors import (
    ApplicationFailed,
    ChannelError,
    CheckpointFailed,
    CorruptData,
    Fenced,
    GraphChanged,
    GraphError,
    LeaseHeld,
    MalformedLine,
    NoAnswer,
    NotAuthentic,
    OperatorFailed,
    OperatorMistake,
    PerseidError,
    PerseidWarning,
    RequestFailed,
    RootError,
    ScaleFailed,
    SettingsError,
    SourceChanged,
    StorageFailed,
)
from perseid.graph.nodes import EpochInfo
from perseid.graph.stream import Stream
from perseid.operators.context import Context
from perseid.operators.event_time import END_OF_TIME_MS, EventTime, event_time
from perseid.operators.keyed import KeyedOperator
from perseid.operators.operator import Operator
from perseid.ready.windows import count_window, session, sliding, tumbling
from perseid.state.fields import state
from perseid.state.moved import moved
from perseid.state.shape import migrate
from perseid.state.spilled import Spilled
from perseid.state.timers import Timer

if TYPE_CHECKING:
    from perseid import primitives, sinks, sources, testing
    from perseid.driver.running import Running
    from perseid.driver.scale_requests import Scaled
    from perseid.driver.state_requests import TakenCheckpoint
    from perseid.processor.operator import spark_processor
    from perseid.query.transform import transform_with_state, transform_with_state_in_pandas
    from perseid.spark.session import spark_session

__all__ = [
    "END_OF_TIME_MS",
    "App",
    "ApplicationFailed",
    "ChannelError",
    "CheckpointFailed",
    "CheckpointStatus",
    "Context",
    "CorruptData",
    "Duration",
    "EpochInfo",
    "EpochStatus",
    "EventTime",
    "Fenced",
    "GraphChanged",
    "GraphError",
    "HostStatus",
    "KeyedOperator",
    "LeaseHeld",
    "MalformedLine",
    "NoAnswer",
    "NotAuthentic",
    "Operator",
    "OperatorFailed",
    "OperatorMistake",
    "PerseidError",
    "PerseidWarning",
    "Progress",
    "RequestFailed",
    "RootError",
    "Running",
    "ScaleFailed",
    "Scaled",
    "SettingsError",
    "SourceChanged",
    "Spilled",
    "StandbyStatus",
    "StorageFailed",
    "Stream",
    "TakenCheckpoint",
    "Timer",
    "agg",
    "checkpoints",
    "count_window",
    "errors",
    "event_time",
    "every",
    "migrate",
    "moved",
    "primitives",
    "scaling",
    "session",
    "sinks",
    "sliding",
    "sources",
    "spark_processor",
    "spark_session",
    "standby",
    "state",
    "testing",
    "transform_with_state",
    "transform_with_state_in_pandas",
    "tumbling",
]

if not TYPE_CHECKING:  # a type checker would take any name for granted
    _MODULES = ("primitives", "sinks", "sources", "testing")
    _HOMES = {  # of what imports PySpark, which the simulator and most hosts can do without
        "Running": "perseid.driver.running",
        "Scaled": "perseid.driver.scale_requests",
        "TakenCheckpoint": "perseid.driver.state_requests",
        "spark_processor": "perseid.processor.operator",
        "spark_session": "perseid.spark.session",
        "transform_with_state": "perseid.query.transform",
        "transform_with_state_in_pandas": "perseid.query.transform",
    }

    def __getattr__(name):
        if name in _MODULES:
            return importlib.import_module(f"perseid.{name}")
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'perseid' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
