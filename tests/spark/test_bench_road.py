"""The rating of Linear Road, as small as it goes: traffic, run and verdict (S8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from perseid.bench.road.rating import run_road

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_short_run_at_the_pace_of_the_road_is_judged(spark: SparkSession, tmp_path: Path) -> None:
    result = run_road(1, ramp_s=10, peak_s=6, folder=tmp_path)
    assert (result.wrong, result.missing, result.such_as) == (0, 0, ())
    assert result.answers > 1_000 and result.l == 1
    assert [moment.second for moment in result.moments] == list(range(16))
    assert (tmp_path / "L1.json").exists()
