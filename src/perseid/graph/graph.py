"""The graph: nodes and units in topological order, as frozen data. What the engine runs.

Invariants: every input of a node comes before it; every unit that feeds another comes before it; names are unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from perseid.graph.fingerprint import fingerprint
from perseid.graph.nodes import Node, SinkNode, SourceNode, StatefulNode
from perseid.vocabulary import Preservation


@dataclass(frozen=True, slots=True)
class Unit:
    """Operators that are scheduled, checkpointed and recovered as one."""

    name: str
    nodes: tuple[Node, ...]  # in topological order
    inputs: tuple[str, ...]  # streams of other units that it reads
    outputs: tuple[str, ...]  # its streams that other units read


@dataclass(frozen=True)
class Graph:
    """A valid graph. Made by ``App.graph``."""

    name: str
    nodes: tuple[Node, ...]
    units: tuple[Unit, ...]
    preserved: Mapping[str, Preservation] = field(default_factory=dict)  # as declared with Stream.preserve

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self._by_name[name]

    def unit(self, name: str) -> Unit:
        """The unit of that name."""
        return next(unit for unit in self.units if unit.name == name)

    def consumers(self, name: str) -> tuple[Node, ...]:
        """The nodes that read the stream of that name."""
        return tuple(node for node in self.nodes if name in node.inputs)

    def preservation(self, stream: str) -> Preservation:
        """How a stream is kept where it crosses into another unit."""
        return self.preserved.get(stream, "retained")

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @property
    def operators(self) -> tuple[StatefulNode, ...]:
        """The stateful operators."""
        return tuple(node for node in self.nodes if isinstance(node, StatefulNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What must stay the same for a checkpoint to be of use, as JSON data."""
        return fingerprint(self.nodes, self.units)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}


def units_of(nodes: tuple[Node, ...], order: list[str]) -> tuple[Unit, ...]:
    """The units of nodes in topological order, themselves in the given order."""
    unit_of = {node.name: node.unit for node in nodes}
    crossing = dict.fromkeys((name, node.unit) for node in nodes for name in node.inputs if unit_of[name] != node.unit)
    return tuple(
        Unit(
            unit,
            tuple(node for node in nodes if node.unit == unit),
            tuple(name for name, reader in crossing if reader == unit),
            tuple(dict.fromkeys(name for name, _ in crossing if unit_of[name] == unit)),
        )
        for unit in order
    )
