"""Graphs to simulate: linear, split, merged and mixed ones, drawn from a seed; each unit with some operators, each with some shards."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.simulation.oracle import outlets
from perseid.vocabulary import SLOTS, OperatorName, Preservation, SourceName, StreamName, UnitName

Shape = Literal["single", "linear", "split", "merge", "mixed"]
Edges = tuple[tuple[int, int], ...]

_EDGES: dict[Shape, tuple[Edges, ...]] = {
    "single": ((),),
    "linear": (((0, 1),), ((0, 1), (1, 2)), ((0, 1), (1, 2), (2, 3))),
    "split": (((0, 1), (0, 2)), ((0, 1), (1, 2), (1, 3))),
    "merge": (((0, 2), (1, 2)), ((0, 2), (1, 2), (2, 3))),
    "mixed": (((0, 1), (0, 2), (1, 3), (2, 3)), ((0, 2), (1, 2), (1, 3), (2, 4), (3, 4))),
}


def drawn(draw: random.Random, shards: int, shape: Shape | None = None) -> Topology:
    """A graph with about so many shards in all."""
    edges = draw.choice(_EDGES[draw.choice(list(_EDGES)) if shape is None else shape])
    units = max((max(edge) for edge in edges), default=0) + 1
    kinds: tuple[Preservation, ...] = draw.choice(
        [("transient",), ("retained",), ("durable",), ("transient", "retained", "durable")]
    )
    return _joined(
        [_unit(draw, i, edges, max(1, shards // units)) for i in range(units)],
        [
            StreamShape(StreamName(f"s{a}{b}"), UnitName(f"u{a}"), UnitName(f"u{b}"), draw.choice(kinds))
            for a, b in edges
        ],
    )


def _joined(units: Iterable[UnitShape], streams: Iterable[StreamShape]) -> Topology:
    """Units with the streams between them: what leaves a unit are the answers of its last operators, or else what came in."""
    shapes, between = {u.name: u for u in units}, tuple(streams)
    filled = []
    for stream in between:
        answers = frozenset(outlets(shapes[stream.producer]))
        came = frozenset(s.name for s in between if s.consumer == stream.producer)
        filled.append(replace(stream, answers=answers, through=frozenset() if answers else came))
    return Topology(tuple(shapes.values()), tuple(filled))


def _unit(draw: random.Random, number: int, edges: Edges, shards: int) -> UnitShape:
    """One, two or three operators, each on top of none or of those before it; now and then none at all."""
    fed = any(b == number for _, b in edges)
    names = [OperatorName(f"o{number}{letter}") for letter in "abc"[: draw.choice([1, 1, 1, 2, 2, 3, 0 if fed else 1])]]
    operators = {name: draw.randint(1, max(1, shards // len(names))) for name in names}
    feeders = {name: frozenset(draw.sample(names[:i], draw.randint(0, min(i, 2)))) for i, name in enumerate(names)}
    closed = {name: _all_feeders(name, feeders) for name in names}
    sources = () if fed and draw.random() < 0.8 else (SourceName(f"in{number}"),)
    return UnitShape(UnitName(f"u{number}"), sources, operators, closed)


def _all_feeders(name: OperatorName, direct: dict[OperatorName, frozenset[OperatorName]]) -> frozenset[OperatorName]:
    return direct[name].union(*(_all_feeders(f, direct) for f in direct[name]))


def chain(units: int, shards: int = 2, preservation: Preservation = "retained", *, operators: int = 1) -> Topology:
    """Units one behind the other, each with operators that stand on one another."""
    shapes = []
    for i in range(units):
        names = [OperatorName(f"o{i}" + ("" if operators == 1 else "abcdefgh"[k])) for k in range(operators)]
        feeders = {name: frozenset(names[:k]) for k, name in enumerate(names)}
        source = (SourceName("in"),) if i == 0 else ()
        shapes.append(UnitShape(UnitName(f"u{i}"), source, dict.fromkeys(names, shards), feeders))
    streams = tuple(
        StreamShape(StreamName(f"s{i}"), UnitName(f"u{i}"), UnitName(f"u{i + 1}"), preservation)
        for i in range(units - 1)
    )
    return _joined(shapes, streams)


def side_by_side(shards: int, units: int = 3, preservation: Preservation = "retained") -> Topology:
    """Units one behind the other, each with so many operators side by side that none has more shards than there are slots."""
    operators = -(-shards // (units * SLOTS))
    count = max(1, shards // (units * operators))
    shapes = []
    for i in range(units):
        names = [OperatorName(f"o{i}-{k}") for k in range(operators)]
        source = (SourceName("in"),) if i == 0 else ()
        feeders = {name: frozenset[OperatorName]() for name in names}
        shapes.append(UnitShape(UnitName(f"u{i}"), source, dict.fromkeys(names, count), feeders))
    return _joined(shapes, chain(units, 1, preservation).streams)


def diamond(shards: int = 1, preservation: Preservation = "retained") -> Topology:
    """a → b, a → c, b → d, c → d."""

    def unit(name: str) -> UnitShape:
        operator = OperatorName(f"o{name}")
        sources = (SourceName("in"),) if name == "a" else ()
        return UnitShape(UnitName(name), sources, {operator: shards}, {operator: frozenset()})

    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    streams = tuple(StreamShape(StreamName(f"{p}{c}"), UnitName(p), UnitName(c), preservation) for p, c in edges)
    return _joined((unit(name) for name in "abcd"), streams)
