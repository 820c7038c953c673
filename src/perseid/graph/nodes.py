"""The nodes of the graph: frozen data about sources, transforms, stateful operators, unions and sinks.

Every node but a sink is the beginning of one stream, which has the node's name. ``inputs`` are the names of the nodes
whose streams it reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.vocabulary import Epoch

if TYPE_CHECKING:
    from perseid.checkpoint.schemes import Scheme
    from perseid.sinks.sink import Sink
    from perseid.sources.source import Source
    from perseid.standby.modes import Mode, Standby

ROWS = "rows"
"""The name of the input of an operator that has only one."""


class EpochInfo(NamedTuple):
    """What a transform may know of the epoch it works on: ``function(df, epoch)``."""

    number: Epoch
    time_ms: int  # processing time of the epoch, the same in every replay: use it instead of current_timestamp


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Where rows come from."""

    name: str
    unit: str
    source: Source
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransformNode:
    """A stateless operator: a function of a DataFrame."""

    name: str
    unit: str
    inputs: tuple[str, ...]
    function: Callable[..., Any]

    @property
    def takes_epoch(self) -> bool:
        """Whether the function is ``function(df, epoch)`` rather than ``function(df)``."""
        return takes_epoch(self.function)


@dataclass(frozen=True, slots=True)
class StatefulNode:
    """A stateful operator: a prototype of a Python class, of which every shard is a copy."""

    name: str
    unit: str
    inputs: tuple[str, ...]
    input_names: tuple[str, ...]  # what process() calls them, in the order of inputs; ("rows",) if there is one
    operator: Operator
    key: Mapping[str, tuple[str, ...]]  # key columns by input name
    output: (
        str | None
    )  # Spark's way to write a schema: "word string, n long"; None: the operator tells it from its inputs
    shards: int = 1
    event_time: EventTime | None = None
    combine: Mapping[str, str] | None = None  # SQL aggregates by column, per key, before rows go to Python
    checkpoint: Scheme | Literal["application"] = "application"  # how its unit is checkpointed
    standby: Standby | Mode = "none"  # what takes over when a host of its shards is slow or dead


@dataclass(frozen=True, slots=True)
class UnionNode:
    """Several streams of the same columns as one."""

    name: str
    unit: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Where rows go to."""

    name: str
    unit: str
    inputs: tuple[str, ...]
    sink: Sink


Node: TypeAlias = SourceNode | TransformNode | StatefulNode | UnionNode | SinkNode


@dataclass(frozen=True, slots=True)
class Declared:
    """A node as the user wrote it, with what was wrong about its inputs; the graph's validation reports it."""

    node: Node
    mistakes: tuple[str, ...] = field(default=())


def takes_epoch(function: Callable[..., Any]) -> bool:
    """Two parameters that must be given, or one called ``epoch``."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    positional = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) < 2:
        return False
    return positional[1].default is positional[1].empty or positional[1].name == "epoch"
