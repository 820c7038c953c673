"""Curves have as many points as a screen, and lose neither rows nor peaks."""

from __future__ import annotations

import json

import pytest

from perseid.dashboard import curves
from perseid.dashboard.curves import COLUMNS, OPERATOR_COLUMNS, Rows


def rows(count: int) -> Rows:
    made = Rows(COLUMNS)
    for n in range(count):
        made.add(n * 100.0, n, 50 + n % 7, 1, 2, 30, 10, 8, 20, 5, 1_000 + n, 0, 1, float("nan"), 3)
    return made


@pytest.mark.parametrize("count", [1, 5, 600, 601, 25_000])
def test_a_curve_has_no_more_points_than_wanted(count: int) -> None:
    table = rows(count).between(None, None)
    shown = curves.epochs(table, 600)
    assert len(shown["t"]) <= 600 and {len(values) for values in shown.values()} == {len(shown["t"])}
    assert shown["t"][-1] == (count - 1) / 10 and shown["state"][-1] == 999 + count
    assert shown["lag_ms"] == [None] * len(shown["t"])
    json.dumps(shown, allow_nan=False)


def test_rates_times_seconds_are_the_rows() -> None:
    shown = curves.epochs(rows(10_000).between(None, None), 100)
    at, before = shown["t"], [-0.05, *shown["t"][:-1]]
    total = sum(rate * (now - then) for rate, now, then in zip(shown["rows_in"], at, before, strict=True))
    assert total == pytest.approx(200_000, rel=0.01)


def test_the_peak_and_the_floor_of_the_state_stay() -> None:
    made = Rows(OPERATOR_COLUMNS)
    for n in range(50_000):
        made.add(n, 1, 1, 10_000 if n == 31_111 else 3 if n == 7_777 else 500, 1)
    shown = curves.state(made.between(None, None), 400)
    assert max(shown["bytes"]) == 10_000 and min(shown["bytes"]) == 3 and len(shown["t"]) <= 400


def test_a_range_is_what_lies_in_it() -> None:
    part = rows(100).between(1_000, 1_900)
    assert part["epoch"].tolist() == list(range(10, 20))
    assert curves.summary(part)["epochs"] == 10 and curves.summary(rows(0).between(None, None))["p50"] is None
    assert curves.epochs(rows(3).between(99_999, None), 600) == {}
