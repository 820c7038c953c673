"""The graph as people are shown it: JSON data without functions, for the journal."""

from __future__ import annotations

from typing import Any

from perseid.graph.graph import Graph
from perseid.graph.nodes import Node, SinkNode, SourceNode, StatefulNode, TransformNode, UnionNode


def outline(graph: Graph) -> list[dict[str, Any]]:
    """One entry for each node, in topological order: its name, kind, unit, inputs, and what it is."""
    crossing = {name: graph.preservation(name) for unit in graph.units for name in unit.outputs}
    found = []
    for node in graph.nodes:
        kind, more = _described(node)
        kept = {"preserved": str(crossing[node.name])} if node.name in crossing else {}
        found.append({"name": node.name, "kind": kind, "unit": node.unit, "inputs": list(node.inputs), **more, **kept})
    return found


def _described(node: Node) -> tuple[str, dict[str, Any]]:
    match node:
        case SourceNode():
            return "source", {"what": str(node.source.kind)}
        case TransformNode():
            return "transform", {}
        case UnionNode():
            return "union", {}
        case SinkNode():
            return "sink", {"what": str(node.sink.kind)}
        case StatefulNode():
            columns = list(dict.fromkeys(column for part in node.key.values() for column in part))
            delay = {"delay_ms": node.event_time.delay.ms} if node.event_time is not None else {}
            mode = node.standby if isinstance(node.standby, str) else node.standby.mode
            standby = {"standby": mode} if mode != "none" else {}
            return "operator", {"what": type(node.operator).__qualname__, "key": columns, **delay, **standby}
