"""Every mistake in an application is named, all at once, before anything starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from graph_pieces import Count, Join, Lines, Nowhere, PerKey

import perseid
from perseid import App, KeyedOperator, Operator, Stream, state
from perseid.errors import GraphError


def mistakes(app: App) -> str:
    with pytest.raises(GraphError) as caught:
        _ = app.graph
    return "\n".join(caught.value.mistakes)


def with_operator(operator: Any, **changes: Any) -> App:
    app = App("a")
    arguments = {"key": "word", "output": "word string"} | changes
    app.source("lines", Lines()).stateful("count", operator, **arguments).sink("out", Nowhere())
    return app


def test_all_mistakes_come_at_once() -> None:
    app = App("my app")
    app.source("lines", Lines()).stateful("count", Count, key=[], output=" ", shards=0)  # type: ignore[arg-type]
    with pytest.raises(GraphError) as caught:
        _ = app.graph
    text = str(caught.value)
    assert "6 mistakes" in text
    for part in ("'my app'", "the class Count instead of an instance: write Count()", "key is ()", "output=' '", "shards=0",
                 "operator 'count': its stream goes nowhere"):  # fmt: skip
        assert part in text


def test_an_application_without_a_source() -> None:
    assert mistakes(App("a")) == "there is no source: begin with app.source(name, …)"


def test_a_name_used_twice() -> None:
    app = App("a")
    app.source("x", Lines()).sink("x", Nowhere())
    assert "the name 'x' is used twice: by a source and by a sink" in mistakes(app)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "..", "x" * 101, 7])
def test_a_name_that_cannot_be_a_folder(name: Any) -> None:
    app = App("a")
    app.source(name, Lines()).sink("out", Nowhere())
    assert f"source name {name!r}: expected 1 to 100 letters" in mistakes(app)


def test_a_unit_name_that_cannot_be_a_folder() -> None:
    app = App("a")
    app.source("s", Lines(), unit="my unit").sink("out", Nowhere())
    assert "source 's': unit name 'my unit'" in mistakes(app)


def test_a_stream_of_another_app() -> None:
    app, other = App("a"), App("b")
    foreign = other.source("s", Lines())
    app.source("mine", Lines()).union(foreign, name="u").sink("out", Nowhere())
    assert "'u': its input 's' is a stream of the App 'b', not of 'a'" in mistakes(app)


def test_something_that_is_no_stream() -> None:
    app = App("a")
    app.source("s", Lines()).union("lines", name="u").sink("out", Nowhere())  # type: ignore[arg-type]
    assert "'u': expected a stream as input, got the str 'lines'" in mistakes(app)


def test_a_stream_that_was_never_made() -> None:
    app = App("a")
    app.source("s", Lines()).sink("out", Nowhere())
    Stream(app, "ghost", "main").sink("out2", Nowhere())
    assert "sink 'out2': its input 'ghost' is not a stream of this application" in mistakes(app)


def test_a_stream_that_goes_nowhere() -> None:
    app = App("a")
    app.source("s", Lines()).transform("t", lambda df: df)
    assert mistakes(app) == "transform 't': its stream goes nowhere: give it a sink, or leave it out"


def test_units_in_a_circle() -> None:
    app = App("a")
    s = app.source("s", Lines(), unit="one")
    there = s.transform("there", lambda df: df, unit="two")
    there.transform("back", lambda df: df, unit="one").sink("out", Nowhere())
    text = mistakes(app)
    assert "units one → two → one" in text or "units two → one → two" in text


def test_one_sink_or_source_object_in_two_places() -> None:
    app = App("a")
    sink, lines = Nowhere(), Lines()
    app.source("s", lines).sink("x", sink)
    app.source("t", lines).sink("y", sink)
    text = mistakes(app)
    assert "'x' and 'y' share one Nowhere object" in text
    assert "'s' and 't' share one Lines object" in text


def test_two_sinks_on_one_folder(tmp_path: Path) -> None:
    app = App("a")
    s = app.source("s", Lines())
    s.sink("x", perseid.sinks.parquet(tmp_path / "out"))
    s.sink("y", perseid.sinks.json(f"{tmp_path}/here/../out/"))
    s.sink("z", perseid.sinks.json(tmp_path / "elsewhere"))
    text = mistakes(app)
    assert f"sinks 'x' and 'y' write to one folder, {tmp_path}/out: give each its own" in text
    assert "'z'" not in text


def test_a_class_given_for_a_source_or_a_sink() -> None:
    app = App("a")
    app.source("s", Lines).sink("o", Nowhere)  # type: ignore[arg-type]
    text = mistakes(app)
    assert "source 's': expected a source, got the class Lines; make an instance: Lines(…)" in text
    assert "sink 'o': expected a sink, got the class Nowhere" in text


def test_something_that_is_no_source() -> None:
    app = App("a")
    app.source("s", "in/").sink("o", Nowhere())  # type: ignore[arg-type]
    assert "source 's': expected a source such as those in perseid.sources, got a str without kind" in mistakes(app)


def test_a_transform_that_is_no_function() -> None:
    app = App("a")
    app.source("s", Lines()).transform("t", "select 1").sink("o", Nowhere())  # type: ignore[arg-type]
    assert "transform 't': expected a function of a DataFrame, got a str" in mistakes(app)


class NoProcess(Operator):
    pass


class NoProcessKey(KeyedOperator):
    pass


class TwoParameters(Operator):
    def process(self, rows: Any, more: Any) -> None: ...


class NotADuration(PerKey):
    ttl = 60  # type: ignore[assignment]


class InInit(Operator):
    n: int = state(default=0)

    def __init__(self) -> None:
        self.n = 5

    def process(self, rows: Any) -> None: ...


class DeclaredInInit(Operator):
    def __init__(self) -> None:
        self.n = state(default=5)

    def process(self, rows: Any) -> None: ...


class TakesAName(Operator):
    context: int = state(default=0)  # type: ignore[assignment]

    def process(self, rows: Any) -> None: ...


@dataclass
class Tree:
    children: list[Tree]


class Cyclic(Operator):
    root: Tree | None = state(default=None)

    def process(self, rows: Any) -> None: ...


class CyclicButSized(Operator):
    root: Tree | None = state(default=None, element_size=64, length=lambda tree: 1)

    def process(self, rows: Any) -> None: ...


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (Count, "got the class Count instead of an instance: write Count()"),
        (dict, "expected an instance of a subclass of Operator, got the class dict"),
        (len, "expected an instance of a subclass of Operator, got a builtin_function_or_method"),
        (NoProcess(), "NoProcess has no process()"),
        (NoProcessKey(), "NoProcessKey has no process_key()"),
        (TwoParameters(), "process(rows: 'Any', more: 'Any') -> 'None' cannot be called as process(rows)"),
        (NotADuration(), "NotADuration.ttl is 60: expected a duration"),
        (InInit(), "state field 'n' has a value in the instance given"),
        (DeclaredInInit(), "state field 'n' is declared in a method: declare it in the body of DeclaredInInit"),
        (TakesAName(), "state field 'context': the name is one of Operator's own"),
        (Cyclic(), "state field 'root': its type Tree contains itself"),
    ],
)
def test_an_operator_that_cannot_be_one(operator: Any, message: str) -> None:
    assert f"operator 'count': {message}" in mistakes(with_operator(operator))


def test_a_cyclic_type_with_a_size_of_its_own_is_fine() -> None:
    assert with_operator(CyclicButSized()).graph


def test_a_prototype_whose_field_was_read_is_fine() -> None:
    operator = Count()
    assert operator.counts == {}
    assert with_operator(operator).graph


@pytest.mark.parametrize("key", ["", [], [""], ["a", 7], 7, None])
def test_a_key_without_columns(key: Any) -> None:
    assert "operator 'count': key is " in mistakes(with_operator(Count(), key=key))


def test_a_key_column_given_twice() -> None:
    assert "key names a column twice: ('a', 'a')" in mistakes(with_operator(Count(), key=["a", "a"]))


@pytest.mark.parametrize("shards", [0, -1, 257, 1.5, True, "2"])
def test_shards_out_of_range(shards: Any) -> None:
    assert f"shards={shards!r}: expected a number from 1 to 256" in mistakes(with_operator(Count(), shards=shards))


@pytest.mark.parametrize("output", ["", "  ", None])
def test_an_empty_output(output: Any) -> None:
    assert f"output={output!r}: expected the columns it returns" in mistakes(with_operator(Count(), output=output))


def test_event_time_and_combine_of_the_wrong_type() -> None:
    text = mistakes(with_operator(Count(), event_time="ts", combine="sum"))
    assert "event_time='ts': expected perseid.event_time(column, delay=…)" in text
    assert "combine='sum': expected SQL aggregates by column name" in text


def two_inputs(change: Callable[[Stream, Stream], Any], operator: Any = None, key: Any = "id") -> App:
    app = App("a")
    left, right = app.source("l", Lines()), app.source("r", Lines())
    app.stateful("join", operator or Join(), change(left, right), key=key, output="id long").sink("out", Nowhere())
    return app


def test_several_inputs_without_names() -> None:
    assert "operator 'join': its inputs need names" in mistakes(two_inputs(lambda a, b: [a, b]))


def test_inputs_that_process_does_not_know() -> None:
    text = mistakes(two_inputs(lambda a, b: {"west": a, "east": b}))
    assert "cannot be called as process(west, east)" in text


def test_an_input_name_that_cannot_be_a_parameter() -> None:
    text = mistakes(two_inputs(lambda a, b: {"left": a, "not-one": b}))
    assert "input name 'not-one': expected a name that can be a parameter" in text


def test_the_same_stream_for_two_inputs() -> None:
    app = App("a")
    stream = app.source("l", Lines())
    app.stateful("join", Join(), {"left": stream, "right": stream}, key="id", output="id long").sink("o", Nowhere())
    assert "operator 'join': the same stream is given to two inputs" in mistakes(app)


def test_keys_per_input_that_do_not_match() -> None:
    text = mistakes(
        two_inputs(lambda a, b: {"left": a, "right": b}, key={"left": ["a", "b"], "right": "c", "middle": "d"})
    )
    assert "key= names the input 'middle'" in text
    assert "key has a different number of columns for each input" in text
    text = mistakes(two_inputs(lambda a, b: {"left": a, "right": b}, key={"left": "a"}))
    assert "key of input 'right' is ()" in text


def test_an_unknown_way_to_preserve_and_two_ways_at_once() -> None:
    app = App("a")
    app.source("s", Lines()).preserve("forever").sink("o", Nowhere())  # type: ignore[arg-type]
    app.source("t", Lines()).preserve("durable").preserve("transient").sink("p", Nowhere())
    text = mistakes(app)
    assert "stream 's': preserve('forever'): expected one of" in text
    assert "stream 't': preserve() was told both 'durable' and 'transient'" in text


def test_preserving_a_stream_that_crosses_no_unit_is_fine() -> None:
    app = App("a")
    app.source("s", Lines()).preserve("durable").sink("o", Nowhere())
    assert app.graph.preservation("s") == "durable"


@pytest.mark.parametrize("base", [Operator, KeyedOperator])
def test_state_that_no_checkpoint_could_save_is_found_before_the_start(base: type[Operator]) -> None:
    class Locked(base):  # type: ignore[misc, valid-type]
        guard: Any = state(default_factory=threading.Lock)
        n: int = state(default=0)

        def process(self, rows: Any) -> None: ...
        def process_key(self, key: Any, rows: Any) -> None: ...

    found = mistakes(with_operator(Locked()))
    assert "operator 'count': state cannot be saved: field 'guard' (lock)" in found and "cannot pickle" in found
    assert "'n'" not in found
