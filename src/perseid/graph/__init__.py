"""The application as written: streams, operators, units. Frozen data; building it runs nothing."""

from perseid.graph.builder import GraphBuilder
from perseid.graph.fingerprint import differences
from perseid.graph.graph import Graph, Unit
from perseid.graph.nodes import EpochInfo, Node, SinkNode, SourceNode, StatefulNode, TransformNode, UnionNode
from perseid.graph.stream import Stream

__all__ = [
    "EpochInfo",
    "Graph",
    "GraphBuilder",
    "Node",
    "SinkNode",
    "SourceNode",
    "StatefulNode",
    "Stream",
    "TransformNode",
    "UnionNode",
    "Unit",
    "differences",
]
