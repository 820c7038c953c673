"""Schemes of units: what an operator may say, and what is refused with words that help."""

from __future__ import annotations

from typing import Any

import pytest

from perseid import App, Operator, checkpoints, every
from perseid.checkpoint.schemes import Scheme
from perseid.checkpoint.unit_schemes import unit_schemes
from perseid.errors import GraphError
from perseid.vocabulary import UnitName

comparison = checkpoints.comparison


class Count(Operator):
    def process(self, rows: Any) -> Any:
        return rows


class Nowhere:
    kind = "nowhere"

    def open(self, *_: Any) -> None: ...
    def holds(self, *_: Any) -> bool:
        return False

    def write(self, *_: Any) -> None: ...


class Lines:
    kind = "lines"

    def open(self, *_: Any) -> None: ...
    def end(self, *_: Any) -> int:
        return 0

    def read(self, *_: Any) -> None: ...


def app(first: Any = "application", second: Any = "application", *, unit: str = "second") -> App:
    app = App("words")
    lines: Any = Lines()
    nowhere: Any = Nowhere()
    one = app.source("lines", lines).stateful("one", Count(), key="k", output="k string", checkpoint=first)
    two = one.stateful("two", Count(), key="k", output="k string", checkpoint=second, unit=unit)
    two.sink("out", nowhere)
    return app


def refused(application: Scheme, *said: Any, unit: str = "second") -> str:
    with pytest.raises(GraphError) as caught:
        unit_schemes(app(*said, unit=unit).graph, application)
    return str(caught.value)


def test_units_are_checkpointed_as_the_application_is_where_nothing_is_said() -> None:
    assert unit_schemes(app().graph, checkpoints.adaptive()) == {}


def test_a_unit_may_stop_for_its_snapshots_where_others_fork() -> None:
    found = unit_schemes(app(second=checkpoints.source()).graph, checkpoints.adaptive(every(seconds=30)))
    assert found == {UnitName("second"): checkpoints.source()}


def test_units_of_baseline_may_have_periods_of_their_own() -> None:
    own = comparison.baseline(every(seconds=20))
    assert unit_schemes(app(own).graph, comparison.baseline()) == {UnitName("main"): own}


def test_checkpoints_of_all_units_together_have_one_period() -> None:
    said = refused(checkpoints.parallel(every(seconds=30)), checkpoints.source(every(seconds=5)))
    assert "operator 'one'" in said and "every 30 s: leave the period out" in said


@pytest.mark.parametrize(
    ("application", "own"),
    [
        (checkpoints.parallel(), checkpoints.adaptive()),
        (checkpoints.parallel(), comparison.baseline()),
        (comparison.baseline(), checkpoints.parallel()),
        (comparison.upstream_backup(), checkpoints.parallel()),
    ],
    ids=str,
)
def test_a_scheme_that_does_not_fit_the_application_s_is_refused(application: Scheme, own: Scheme) -> None:
    assert f"where the application has {application.name}" in refused(application, own)


def test_two_operators_of_a_unit_cannot_differ() -> None:
    said = refused(checkpoints.adaptive(), checkpoints.source(), checkpoints.parallel(), unit="main")
    assert "'one' and 'two' are in unit 'main', which is checkpointed as a whole" in said


@pytest.mark.parametrize(
    ("said", "words"), [(None, "without checkpoints"), (every(seconds=1), "saved alone"), (3, "expected a scheme")]
)
def test_what_cannot_be_yet_is_refused(said: Any, words: str) -> None:
    assert words in refused(checkpoints.adaptive(), said)
