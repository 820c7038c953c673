"""The topology of a graph: what its machines need to know of it."""

from __future__ import annotations

from perseid.graph.graph import Graph, Unit
from perseid.graph.nodes import SourceNode, StatefulNode
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.vocabulary import OperatorName, SourceName, StreamName, UnitName


def topology_of(graph: Graph) -> Topology:
    """Units, shards and the streams between units."""
    streams = [
        StreamShape(StreamName(name), UnitName(graph.node(name).unit), UnitName(unit.name), graph.preservation(name))
        for unit in graph.units
        for name in unit.inputs
    ]
    return Topology(tuple(_shape(graph, unit) for unit in graph.units), tuple(streams))


def _shape(graph: Graph, unit: Unit) -> UnitShape:
    stateful = [node for node in unit.nodes if isinstance(node, StatefulNode)]
    return UnitShape(
        name=UnitName(unit.name),
        sources=tuple(SourceName(node.name) for node in unit.nodes if isinstance(node, SourceNode)),
        operators={OperatorName(node.name): node.shards for node in stateful},
        feeders={OperatorName(node.name): feeders_of(graph, node.name) for node in stateful},
    )


def feeders_of(graph: Graph, name: str) -> frozenset[OperatorName]:
    """The stateful operators above a node in its own unit."""
    node = graph.node(name)
    found: set[OperatorName] = set()
    for above in node.inputs:
        if graph.node(above).unit == node.unit:
            if isinstance(graph.node(above), StatefulNode):
                found.add(OperatorName(above))
            found |= feeders_of(graph, above)
    return frozenset(found)
