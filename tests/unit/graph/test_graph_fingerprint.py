"""What must stay the same for a checkpoint to be of use, and how a change is told."""

from __future__ import annotations

import json
from typing import Any

from graph_pieces import Lines, Nowhere

from perseid import App, Operator, state
from perseid.graph.fingerprint import differences as all_differences


class Count(Operator):
    counts: dict[str, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None: ...


class Totals(Operator):
    totals: dict[str, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None: ...


class CountAndSum(Count):
    sum: int = state(default=0)


class OtherLines(Lines):
    kind = "other"


def fingerprint(operator: Operator, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "key": "word",
        "output": "word string, n long",
        "shards": 2,
        "source": Lines(),
        "unit": None,
    } | changes
    source = options.pop("source")
    app = App("words")
    app.source("lines", source).stateful("count", operator, **options).sink("out", Nowhere())
    return app.graph.fingerprint


def renamed(cls: type[Operator]) -> Operator:
    """The class under the name Count: only its fields differ then."""
    return type("Count", (cls,), {"__qualname__": "Count"})()


def differences(old: dict[str, Any], new: dict[str, Any], *allowed: str) -> list[str]:
    """Those that are refused."""
    return [difference.text for difference in all_differences(old, new, allowed) if difference.refused]


def accepted(old: dict[str, Any], new: dict[str, Any], *allowed: str) -> list[str]:
    return [difference.text for difference in all_differences(old, new, allowed) if not difference.refused]


def test_a_fingerprint_survives_json() -> None:
    now = fingerprint(Count())
    assert differences(json.loads(json.dumps(now)), now) == []


def test_the_same_graph_has_no_differences_and_shards_may_change() -> None:
    assert differences(fingerprint(Count()), fingerprint(Count(), shards=5)) == []


def test_whitespace_in_the_output_is_no_difference() -> None:
    assert differences(fingerprint(Count()), fingerprint(Count(), output="word string,  n long ")) == []


def test_a_changed_key() -> None:
    assert differences(fingerprint(Count()), fingerprint(Count(), key="w")) == [
        "operator 'count': key was ('word',), now ('w',)"
    ]


def test_a_changed_class() -> None:
    told = differences(fingerprint(Count()), fingerprint(Totals()))
    assert "operator 'count': class was 'Count', now 'Totals'" in told


def test_a_changed_output_is_refused_only_where_its_rows_may_lie_between_units() -> None:
    text = "operator 'count': output was 'word string, n long', now 'word string'"
    assert accepted(fingerprint(Count()), fingerprint(Count(), output="word string")) == [text]
    assert text in differences(
        fingerprint(Count(), unit="work"), fingerprint(Count(), unit="work", output="word string")
    )


def test_fields_that_come_and_go_are_accepted_and_told() -> None:
    count, more = fingerprint(Count()), fingerprint(renamed(CountAndSum))
    assert differences(count, more) == differences(more, count) == []
    assert accepted(count, more) == ["operator 'count': state field 'sum' is new and begins with 0"]
    assert accepted(more, count) == ["operator 'count': state field 'sum' is gone: its values are dropped"]


def test_what_is_gone_or_a_new_sink_is_accepted_when_it_is_named() -> None:
    app = App("words")
    lines = app.source("lines", Lines())
    lines.stateful("count", Count(), key="word", output="word string, n long").sink("elsewhere", Nowhere())
    before, now = fingerprint(Count()), app.graph.fingerprint
    assert differences(before, now) == ["sink 'out' is gone", "sink 'elsewhere' is new"]
    assert differences(before, now, "out", "elsewhere") == []


def with_more(unit: str | None = None) -> dict[str, Any]:
    app = App("words")
    lines = app.source("lines", Lines())
    counts = lines.stateful("count", Count(), key="word", output="word string, n long")
    counts.sink("out", Nowhere())
    counts.stateful("total", Totals(), key="word", output="word string, n long", unit=unit).sink("totals", Nowhere())
    return app.graph.fingerprint


def test_a_new_operator_is_accepted_when_it_is_named_and_its_unit_was_there() -> None:
    before = fingerprint(Count())
    assert differences(before, with_more(), "totals") == ["operator 'total' is new"]
    assert differences(before, with_more(), "total", "totals") == []
    assert accepted(before, with_more(), "total", "totals") == ["operator 'total' is new", "sink 'totals' is new"]
    assert "operator 'total' is new" in differences(before, with_more("later"), "total", "totals")
    assert differences(with_more(), before, "total", "totals") == []


class Variables(Count):
    """As a processor of Spark's declares them."""

    def __init__(self, **variables: str) -> None:
        self.given = variables

    def _variables(self) -> dict[str, str]:
        return self.given


def test_state_variables_that_come_go_or_change_are_told_and_not_refused() -> None:
    then = fingerprint(Variables(n="n int", old="n int"))
    told = [d.text.partition(": ")[2] for d in all_differences(then, fingerprint(Variables(n="n long", new="n int")))]
    assert told == [
        "state variable 'new' is new",
        "state variable 'old' is not declared any more",
        "state variable 'n' was n int, is now n long",
    ]
    assert not any(d.refused for d in all_differences(then, fingerprint(Variables(n="n long"))))
    unsaid = fingerprint(Variables())
    assert not all_differences(unsaid, then), "an earlier release did not say which there are"


def test_the_kind_of_a_source() -> None:
    assert differences(fingerprint(Count()), fingerprint(Count(), source=OtherLines())) == [
        "source 'lines': kind was 'lines', now 'other'"
    ]


def test_an_operator_moved_to_another_unit() -> None:
    told = differences(fingerprint(Count()), fingerprint(Count(), unit="work"))
    assert "operator 'count': unit was 'main', now 'work'" in told
    assert "stream between units 'lines' is new" in told


def test_nodes_that_are_gone_or_new() -> None:
    app = App("words")
    app.source("lines", Lines()).stateful("tally", Count(), key="word", output="word string, n long").sink(
        "out", Nowhere()
    )
    assert differences(fingerprint(Count()), app.graph.fingerprint) == [
        "operator 'count' is gone",
        "operator 'tally' is new",
    ]
