import io

import pytest
from rich.console import Console

from perseid.bench.measuring.verdicts import GOALS, Goal, figure, judge, table

FASTER = Goal("count", "ours_per_s", "rows/s", "at least", 1.5, "theirs_per_s")
SHORT = Goal("stall", "stall_ms", "ms", "at most", 100)


@pytest.mark.parametrize(("ours", "reached"), [(149, False), (150, True), (1000, True)])
def test_a_ratio_to_the_peer_is_judged(ours, reached):
    (verdict,) = judge({"ours_per_s": ours, "theirs_per_s": 100}, (FASTER,))
    assert verdict.judged == ours / 100 and verdict.reached is reached


@pytest.mark.parametrize(("ms", "reached"), [(100, True), (101, False), (-3, True)])
def test_a_number_without_a_peer_is_judged_itself(ms, reached):
    (verdict,) = judge({"stall_ms": ms}, (SHORT,))
    assert verdict.judged == ms and verdict.reached is reached


@pytest.mark.parametrize("numbers", [{}, {"ours_per_s": 1}, {"theirs_per_s": 1}, {"ours_per_s": 1, "theirs_per_s": 0}])
def test_what_was_not_measured_is_not_reached(numbers):
    (verdict,) = judge(numbers, (FASTER,))
    assert verdict.judged is None and not verdict.reached


def test_the_table_says_what_was_not_reached():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(judge({"ours_per_s": 1_234_567, "theirs_per_s": 1_000_000}, (FASTER, SHORT))))
    first, second = console.export_text().splitlines()[1:]
    assert first.split() == ["count", "1,234,567", "rows/s", "1,000,000", "rows/s", "1.23", "x", "≥", "1.5", "x", "no"]
    assert second.split() == ["stall", "not", "measured", "≤", "100", "ms", "no"]


def test_what_cannot_be_is_noise_and_not_reached():
    cost = Goal("cost", "cost_percent", "%", "at most", 5, least=-5)
    too_good, good = judge({"cost_percent": -38}, (cost,)) + judge({"cost_percent": -3}, (cost,))
    assert too_good.noise and not too_good.reached
    assert good.reached and not good.noise


def test_every_promise_of_the_issue_has_a_goal():
    assert {goal.limit for part in GOALS.values() for goal in part} >= {30, 1.5, 0.75, 1, 5, 100, 2, 10, 1.3}


def test_big_numbers_lose_their_places_and_small_ones_keep_two():
    assert [figure(1234.56, "ms"), figure(1.234, "s"), figure(None, "s")] == ["1,235 ms", "1.23 s", "not measured"]
