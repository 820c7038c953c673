"""Building an application: what the graph looks like, and that building runs nothing."""

from __future__ import annotations

import dataclasses

import pytest
from graph_pieces import Count, Join, Lines, Nowhere, PerKey

from perseid import App, EpochInfo, event_time, every
from perseid.graph import SinkNode, SourceNode, StatefulNode, TransformNode, UnionNode
from perseid.vocabulary import Epoch


def words() -> App:
    app = App("words")
    lines = app.source("lines", Lines())
    split = lines.transform("split", lambda df: df)
    counts = split.stateful("count", Count(), key="word", output="word string, n long", shards=2)
    counts.sink("out", Nowhere())
    return app


def test_nodes_stand_in_topological_order_with_their_inputs() -> None:
    graph = words().graph
    assert [(type(node), node.name, node.inputs) for node in graph.nodes] == [
        (SourceNode, "lines", ()),
        (TransformNode, "split", ("lines",)),
        (StatefulNode, "count", ("split",)),
        (SinkNode, "out", ("count",)),
    ]


def test_building_never_calls_a_transform() -> None:
    app = App("a")
    app.source("s", Lines()).transform("t", lambda df: df / 0).sink("o", Nowhere())
    assert len(app.graph.nodes) == 3


def test_nodes_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        words().graph.node("count").name = "other"  # type: ignore[misc]


def test_the_graph_of_an_unchanged_app_is_made_once_and_follows_a_change() -> None:
    app = words()
    before = app.graph
    assert app.graph is before
    app.source("more", Lines()).sink("more-out", Nowhere())
    assert len(app.graph.nodes) == len(before.nodes) + 2


def test_a_node_without_unit_joins_the_unit_of_its_first_input() -> None:
    app = App("a")
    left = app.source("left", Lines(), unit="first")
    right = app.source("right", Lines(), unit="second")
    left.union(right, name="both").sink("out", Nowhere())
    assert app.graph.node("both").unit == "first"
    assert app.graph.node("out").unit == "first"


def test_units_know_the_streams_that_cross_their_boundary() -> None:
    app = App("a")
    lines = app.source("lines", Lines(), unit="read")
    counted = lines.stateful("count", Count(), key="k", output="k string", unit="work")
    counted.sink("one", Nowhere(), unit="write")
    counted.sink("two", Nowhere(), unit="write")
    units = {unit.name: unit for unit in app.graph.units}
    assert list(units) == ["read", "work", "write"]
    assert (units["read"].inputs, units["read"].outputs) == ((), ("lines",))
    assert (units["work"].inputs, units["work"].outputs) == (("lines",), ("count",))
    assert (units["write"].inputs, units["write"].outputs) == (("count",), ())
    assert [node.name for node in units["write"].nodes] == ["one", "two"]


def test_units_are_in_topological_order_even_if_declared_otherwise() -> None:
    app = App("a")
    late = app.source("x", Lines(), unit="late")
    early = app.source("y", Lines(), unit="early")
    early.union(late, name="u", unit="late").sink("out", Nowhere())
    assert [unit.name for unit in app.graph.units] == ["early", "late"]


def test_a_union_without_a_name_gets_a_free_one() -> None:
    app = App("a")
    streams = [app.source(name, Lines()) for name in ("union-1", "b", "c")]
    first = streams[0].union(streams[1])
    second = first.union(streams[2])
    second.sink("out", Nowhere())
    assert (first.name, second.name) == ("union-2", "union-3")
    assert isinstance(app.graph.node("union-3"), UnionNode)


def test_several_inputs_have_names_and_may_have_their_own_keys() -> None:
    app = App("a")
    left, right = app.source("l", Lines()), app.source("r", Lines())
    app.stateful(
        "join", Join(), {"left": left, "right": right}, key={"left": "id", "right": ["order"]}, output="id long"
    ).sink("out", Nowhere())
    node = app.graph.node("join")
    assert isinstance(node, StatefulNode)
    assert node.input_names == ("left", "right")
    assert node.inputs == ("l", "r")
    assert dict(node.key) == {"left": ("id",), "right": ("order",)}


def test_one_input_is_called_rows() -> None:
    node = words().graph.node("count")
    assert isinstance(node, StatefulNode)
    assert node.input_names == ("rows",)
    assert dict(node.key) == {"rows": ("word",)}


def test_event_time_is_kept_on_the_node() -> None:
    app = App("a")
    when = event_time("ts", delay=every(seconds=10))
    app.source("s", Lines()).stateful("o", PerKey(), key=["a", "b"], output="a string", event_time=when).sink(
        "x", Nowhere()
    )
    node = app.graph.node("o")
    assert isinstance(node, StatefulNode)
    assert node.event_time == when
    assert dict(node.key) == {"rows": ("a", "b")}


def test_streams_are_retained_unless_said_otherwise() -> None:
    app = App("a")
    lines = app.source("lines", Lines(), unit="read").preserve("durable")
    lines.transform("t", lambda df: df, unit="work").sink("out", Nowhere())
    assert app.graph.preservation("lines") == "durable"
    assert app.graph.preservation("t") == "retained"


def test_a_transform_takes_the_epoch_if_its_second_parameter_is_needed_or_called_so() -> None:
    app = App("a")
    stream = app.source("s", Lines())
    functions = {
        "plain": (lambda df: df, False),
        "needed": (lambda df, info: df, True),
        "named": (lambda df, epoch=None: df, True),
        "bound": (lambda df, factor=3: df, False),
    }
    for name, (function, _) in functions.items():
        stream = stream.transform(name, function)  # type: ignore[arg-type]
    stream.sink("out", Nowhere())
    for name, (_, takes) in functions.items():
        node = app.graph.node(name)
        assert isinstance(node, TransformNode)
        assert node.takes_epoch is takes, name
    assert EpochInfo(Epoch(1), 2).time_ms == 2


def test_consumers_and_kinds_of_nodes_are_easy_to_find() -> None:
    graph = words().graph
    assert [node.name for node in graph.consumers("split")] == ["count"]
    assert [node.name for node in graph.sources] == ["lines"]
    assert [node.name for node in graph.operators] == ["count"]
    assert [node.name for node in graph.sinks] == ["out"]
    assert graph.unit("main").nodes == graph.nodes
