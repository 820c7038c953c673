"""Every mistake of an application, found before anything starts and named all at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from perseid.errors import GraphError
from perseid.graph.graph import Graph, units_of
from perseid.graph.nodes import Declared, Node, SinkNode, SourceNode, StatefulNode, TransformNode, UnionNode
from perseid.graph.operator_mistakes import operator_mistakes
from perseid.vocabulary import Preservation

if TYPE_CHECKING:
    from perseid.graph.builder import GraphBuilder
    from perseid.graph.stream import Stream

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_WORDS: dict[type, str] = {
    SourceNode: "source", TransformNode: "transform", StatefulNode: "operator", UnionNode: "union", SinkNode: "sink",
}  # fmt: skip


def validated(
    app: GraphBuilder, declared: Sequence[Declared], preservations: Sequence[tuple[Stream, Preservation]]
) -> Graph:
    """The graph, or ``GraphError`` with every mistake."""
    nodes = tuple(entry.node for entry in declared)
    mistakes = [*_name_mistake("application", app.name)]
    for entry in declared:
        mistakes += entry.mistakes
        mistakes += _node_mistakes(entry.node)
    mistakes += _graph_mistakes(nodes)
    mistakes += _preservation_mistakes(app, preservations)
    order, cycle = _unit_order(nodes)
    if cycle:
        mistakes.append(
            f"units {' → '.join(cycle)} feed each other in a circle: a unit runs as one Spark job, so put them in one"
            " unit or cut them so that streams go one way"
        )
    if mistakes:
        raise GraphError(*dict.fromkeys(mistakes))
    preserved = MappingProxyType({stream.name: how for stream, how in preservations})
    return Graph(app.name, nodes, units_of(nodes, order), preserved)


def word_of(node: Node) -> str:
    """What a message calls the node: ``operator 'count'``."""
    return f"{_WORDS[type(node)]} '{node.name}'"


def _name_mistake(what: str, name: Any) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield (
            f"{what} name {name!r}: expected 1 to 100 letters, digits, '-' and '_', as it names a folder under the"
            " checkpoint root"
        )


def _node_mistakes(node: Node) -> Iterator[str]:
    yield from _name_mistake(_WORDS[type(node)], node.name)
    yield from _name_mistake(f"{word_of(node)}: unit", node.unit)
    if isinstance(node, TransformNode):
        function: Any = node.function
        if not callable(function):
            yield f"{word_of(node)}: expected a function of a DataFrame, got a {type(function).__name__}"
    elif isinstance(node, SourceNode):
        yield from _connector_mistakes(word_of(node), node.source, "source", ("open", "end", "read"))
    elif isinstance(node, SinkNode):
        yield from _connector_mistakes(word_of(node), node.sink, "sink", ("open", "holds", "write"))
    elif isinstance(node, StatefulNode):
        yield from (f"{word_of(node)}: {mistake}" for mistake in operator_mistakes(node))


def _connector_mistakes(what: str, thing: Any, kind: str, methods: tuple[str, ...]) -> Iterator[str]:
    if isinstance(thing, type):
        yield f"{what}: expected a {kind}, got the class {thing.__name__}; make an instance: {thing.__name__}(…)"
        return
    missing = [name for name in ("kind", *methods) if not hasattr(thing, name)]
    if missing:
        came = f"a {type(thing).__name__} without {', '.join(missing)}"
        yield f"{what}: expected a {kind} such as those in perseid.{kind}s, got {came}"


def _graph_mistakes(nodes: tuple[Node, ...]) -> Iterator[str]:
    if not any(isinstance(node, SourceNode) for node in nodes):
        yield "there is no source: begin with app.source(name, …)"
    seen: dict[str, Node] = {}
    for node in nodes:
        if node.name in seen:
            first, second = _WORDS[type(seen[node.name])], _WORDS[type(node)]
            yield f"the name '{node.name}' is used twice: by a {first} and by a {second}"
        seen.setdefault(node.name, node)
    read = {name for node in nodes for name in node.inputs}
    for node in nodes:
        for name in node.inputs:
            if name not in seen:
                yield f"{word_of(node)}: its input '{name}' is not a stream of this application: {tuple(seen)}"
            elif isinstance(seen[name], SinkNode):
                yield f"{word_of(node)}: its input '{name}' is a sink, which gives no rows"
        if isinstance(node, StatefulNode) and len(set(node.inputs)) < len(node.inputs):
            yield f"{word_of(node)}: the same stream is given to two inputs: {node.inputs}"
        if not isinstance(node, SinkNode) and node.name not in read:
            yield f"{word_of(node)}: its stream goes nowhere: give it a sink, or leave it out"
    yield from _shared((node.name, node.sink) for node in nodes if isinstance(node, SinkNode))
    yield from _one_folder({node.name: node.sink for node in nodes if isinstance(node, SinkNode)})
    yield from _shared((node.name, node.source) for node in nodes if isinstance(node, SourceNode))


def _shared(things: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """One source or sink object in two places: each keeps what it has read or written, so each needs its own."""
    users: dict[int, tuple[Any, list[str]]] = {}
    for name, thing in things:
        users.setdefault(id(thing), (thing, []))[1].append(name)
    for thing, names in users.values():
        if len(names) > 1:
            yield f"{' and '.join(map(repr, names))} share one {type(thing).__name__} object: make one for each"


def _one_folder(sinks: Mapping[str, Any]) -> Iterator[str]:
    """Two sinks that write epochs into one folder would replace each other's."""
    users: dict[str, list[str]] = {}
    for name, sink in sinks.items():
        if isinstance(path := getattr(sink, "path", None), str):
            users.setdefault(path if "://" in path else os.path.realpath(path), []).append(name)
    for path, names in users.items():
        if len(set(map(id, (sinks[name] for name in names)))) > 1:
            yield f"sinks {' and '.join(map(repr, names))} write to one folder, {path}: give each its own"


def _preservation_mistakes(app: GraphBuilder, preservations: Sequence[tuple[Stream, Preservation]]) -> Iterator[str]:
    told: dict[str, str] = {}
    for stream, how in preservations:
        if how not in get_args(Preservation):
            yield f"stream '{stream.name}': preserve({how!r}): expected one of {get_args(Preservation)}"
        elif told.setdefault(stream.name, how) != how:
            yield f"stream '{stream.name}': preserve() was told both {told[stream.name]!r} and {how!r}"


def _unit_order(nodes: tuple[Node, ...]) -> tuple[list[str], list[str]]:
    """The units in topological order (ties: as declared), and one circle of units if there is one."""
    unit_of = {node.name: node.unit for node in nodes}
    feeds: dict[str, dict[str, None]] = {node.unit: {} for node in nodes}  # unit → the units it reads from
    for node in nodes:
        for name in node.inputs:
            if unit_of.get(name, node.unit) != node.unit:
                feeds[node.unit][unit_of[name]] = None
    order: list[str] = []
    left = dict.fromkeys(feeds)
    while left:
        ready = [unit for unit in left if not any(before in left for before in feeds[unit])]
        if not ready:
            return order, _circle(feeds, left)
        order.append(ready[0])
        del left[ready[0]]
    return order, []


def _circle(feeds: dict[str, dict[str, None]], left: dict[str, None]) -> list[str]:
    """Walk upstream among the units that are left until one comes twice."""
    path = [next(iter(left))]
    while True:
        before = next(unit for unit in feeds[path[-1]] if unit in left)
        if before in path:
            circle = path[path.index(before) :]
            return [before, *reversed(circle)]
        path.append(before)
