"""A load that rises, and operators that can be divided under it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from perseid.bench.scaling.applications import Likeness, Texts
from perseid.bench.scaling.load import Rising
from perseid.operators.operator import Operator
from perseid.state.partition import obstacles
from perseid.testing import OperatorHarness
from perseid.vocabulary import Offset


def test_the_rate_rises_and_then_stays() -> None:
    load = Rising({"n": "id"}).rising((100, 300), seconds=10)
    assert [load.due(s) for s in (0, 5, 10, 12)] == [0, 750, 2_000, 2_600]


def test_rows_that_are_due_are_taken_as_far_as_an_epoch_goes() -> None:
    load = Rising({"n": "id"}).rising((100, 300), seconds=10)
    assert load.end(Offset(0), None, 50_000) == 0
    assert load.end(Offset(0), None, 55_000) == 750
    assert load.end(Offset(0), 500, 55_000) == 500
    assert load.end(Offset(500), 500, 40_000) == 750, "a clock that goes back takes nothing away"


@pytest.mark.parametrize("operator", [Likeness(), Texts()])
def test_what_is_scaled_can_be_divided(operator: Operator) -> None:
    assert obstacles(operator) == []


def test_texts_are_compared_with_the_last_of_their_key() -> None:
    harness = OperatorHarness(Likeness(), key="key", output="key long, n long")
    rows = pa.table({"key": [1, 2, 1], "line": ["a sentence", "nothing like it", "a sentence!"]})
    assert harness.epoch(rows)[0]["n"] == 1
