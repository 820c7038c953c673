"""Outages, delays and detections are counted as the paper counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perseid.bench.measuring.results import Results
from perseid.bench.outages import picture
from perseid.bench.outages.detecting import judge
from perseid.bench.outages.goals import GOALS, TOLD
from perseid.bench.outages.running import mean_delay_ms
from perseid.bench.outages.striking import outages
from perseid.bench.scaling.reading import Arrivals


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.8])
def test_regular_outages_take_their_share_of_the_time(share: float) -> None:
    plan = outages(share, 100.0, 1.0, poisson=False)
    assert sum(to - at for at, to in plan) == pytest.approx(100 * share, abs=2)
    assert plan[-1][1] <= 100


def test_outages_of_a_poisson_process_take_it_on_average_and_are_the_same_in_every_run() -> None:
    plan = outages(0.5, 10_000.0, 1.0, poisson=True, seed=3)
    assert sum(to - at for at, to in plan) == pytest.approx(5_000, rel=0.1)
    assert plan == outages(0.5, 10_000.0, 1.0, poisson=True, seed=3)


def test_no_failure_time_is_no_outage() -> None:
    assert outages(0.0, 100.0, 1.0, poisson=True) == []


def commit(at_ms: float, rows: int) -> dict[str, object]:
    return {"kind": "epoch_committed", "at_ms": at_ms, "rows_in": rows}


def test_the_delay_is_that_of_the_rows_which_came_within_the_time() -> None:
    arrivals = Arrivals((0, 1_000), (0.0, 1_000.0))  # a row in a millisecond
    entries = [commit(600.0, 500), commit(2_000.0, 500)]
    assert mean_delay_ms(entries, arrivals, 0.0, 500.0) == pytest.approx(350)  # they came at 250 on average
    assert mean_delay_ms(entries, arrivals, 500.0, 1_000.0) == pytest.approx(1_250)
    assert mean_delay_ms(entries, arrivals, 250.0, 750.0) == pytest.approx((225 + 1_375) / 2)


def test_a_detector_is_judged_by_the_slow_downs_it_noticed_and_by_what_it_declared_besides() -> None:
    found = judge([120.0, 150.0, 5_000.0], [(100.0, 1_100.0), (2_500.0, 3_500.0)])
    assert (found.ratio, found.delay_ms) == (0.5, 20.0)
    assert found.false_ratio == pytest.approx(1 / 3)
    assert judge([], [(0.0, 1.0)]).ratio == 0 and judge([], []).false_ratio == 0


def test_there_is_a_picture_of_whatever_was_measured(tmp_path: Path) -> None:
    names = [name for _, name, _, _ in TOLD] + [goal.ours for goals in GOALS.values() for goal in goals]
    more = ["shared_delay_0_ms", "shared_delay_20_ms", "rate_1000_none_rows_per_row", "none_rows_per_row"]
    results = Results(print, dict.fromkeys([*names, *more], 1.0))
    picture.draw(results, "title", tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 10_000
    picture.draw(
        Results(print, {"hybrid_traffic_ratio": 1.1, "hybrid_rows_per_row": 17.0}), "one", tmp_path / "one.png"
    )
    assert (tmp_path / "one.png").exists()
