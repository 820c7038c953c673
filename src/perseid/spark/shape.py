"""The topology of a graph: what its machines need to know of it."""

from __future__ import annotations

from perseid.graph.graph import Graph, Unit
from perseid.graph.nodes import SourceNode, StatefulNode
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.vocabulary import OperatorName, SourceName, StreamName, UnitName


def topology_of(graph: Graph) -> Topology:
    """Units, shards and the streams between units."""
    streams = [_stream(graph, name, UnitName(unit.name)) for unit in graph.units for name in unit.inputs]
    return Topology(tuple(_shape(graph, unit) for unit in graph.units), tuple(streams))


def _stream(graph: Graph, name: str, consumer: UnitName) -> StreamShape:
    producer = graph.node(name).unit
    made_of = _made_of(graph, name, producer)
    return StreamShape(
        StreamName(name),
        UnitName(producer),
        consumer,
        graph.preservation(name),
        answers=frozenset(OperatorName(n) for n in made_of if graph.node(n).unit == producer),
        through=frozenset(StreamName(n) for n in made_of if graph.node(n).unit != producer),
    )


def _made_of(graph: Graph, name: str, unit: str) -> frozenset[str]:
    """What a stream can be computed from again: the nearest operators above it, and the streams that come in from other units."""
    node = graph.node(name)
    if isinstance(node, StatefulNode) or node.unit != unit:
        return frozenset({name})
    return frozenset().union(*(_made_of(graph, above, unit) for above in node.inputs))


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
