"""The same application with its output elsewhere, and its input ended where it is told: for tests that run it twice.

The graph is otherwise the same one: names, operators, keys, units, and the kinds of its sources and sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from perseid.graph.builder import GraphBuilder
from perseid.graph.nodes import SinkNode, SourceNode

if TYPE_CHECKING:
    from perseid.sinks.sink import Sink
    from perseid.sources.source import Source


Application = TypeVar("Application", bound=GraphBuilder)


def redirected(
    app: Application, sinks: Mapping[str, Sink], source: Callable[[SourceNode], Source] | None = None
) -> Application:
    """A copy of ``app`` whose sinks of these names are others; ``source`` may replace each of its sources."""
    other = type(app)(app.name)
    for declared in app._declared:
        node = declared.node
        if isinstance(node, SinkNode) and node.name in sinks:
            node = replace(node, sink=sinks[node.name])
        elif isinstance(node, SourceNode) and source is not None:
            node = replace(node, source=source(node))
        other._declared.append(replace(declared, node=node))
    other._preservations.extend(app._preservations)
    return other
