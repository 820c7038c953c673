"""Which standby the operators of a graph have, as users wrote it."""

from __future__ import annotations

from typing import Any

import pytest

import perseid
from perseid import App, Operator
from perseid.errors import GraphError
from perseid.graph.graph import Graph
from perseid.standby.modes import Standby, hybrid, passive
from perseid.standby.of_graph import standby_of


class Lines:
    kind = "lines"

    def open(self, *_: Any) -> None: ...
    def end(self, *_: Any) -> int:
        return 0

    def read(self, *_: Any) -> None: ...


class Nowhere:
    kind = "nowhere"

    def open(self, *_: Any) -> None: ...
    def holds(self, *_: Any) -> bool:
        return False

    def write(self, *_: Any) -> None: ...


class Same(Operator):
    def process(self, rows: Any) -> Any:
        return rows


def graph_of(**standby: Any) -> Graph:
    """Operators in a row, each with what is given for it."""
    app = App("a")
    lines: Any = Lines()
    nowhere: Any = Nowhere()
    stream = app.source("lines", lines)
    for name, given in standby.items():
        stream = stream.stateful(name, Same(), key="word", output="word string", standby=given)
    stream.sink("out", nowhere)
    return app.graph


def test_operators_without_standby_are_left_out() -> None:
    graph = graph_of(first="none", second="hybrid", third=passive(share=2), fourth=perseid.standby.none())
    found: dict[Any, Standby] = {"second": hybrid(), "third": passive(share=2)}
    assert standby_of(graph) == found


def test_all_mistakes_are_named_with_their_operators() -> None:
    with pytest.raises(GraphError) as caught:
        standby_of(graph_of(first="hybird", second=3))
    first, second = caught.value.mistakes
    assert first.startswith("operator 'first': standby='hybird': ") and "did you mean 'hybrid'?" in first
    assert second.startswith("operator 'second': standby=3: ")
