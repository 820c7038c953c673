"""A clock that the test moves: the time of real epochs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App
from perseid.testing import Clock

pytestmark = pytest.mark.spark


def test_timers_and_rates_follow_the_clock_of_the_test(spark: SparkSession, tmp_path: Path) -> None:
    out, clock = perseid.sinks.memory(), Clock(1_000_000)
    app = App("visits")
    source = perseid.sources.generator({"key": "id % 3"}, rate=10)
    columns = "key long, what string, added long, total long, at_ms long"
    app.source("numbers", source).stateful("visits", apps.Visits(), key="key", output=columns).sink("out", out)
    running = app.start(spark, root=str(tmp_path / "root"), hosts=1, spares=0, clock=clock)
    try:
        apps.wait_until(lambda: running.progress().phase == "running", "a running application")
        time.sleep(0.5)
        assert not out.rows(), "nothing is due while the clock stands still"
        clock.advance(ms=200)  # two rows are due now; what they bring comes 300 ms after them
        apps.wait_until(lambda: len(out.rows()) == 2, "two rows")
        clock.advance(ms=99)
        time.sleep(0.5)
        assert {row["what"] for row in out.rows()} == {"rows"}
        clock.advance(ms=301)  # four rows more, and both bundles
        bundles = apps.wait_until(lambda: [row for row in out.rows() if row["what"] == "bundle"], "bundles")
        assert {row["at_ms"] for row in bundles} == {1_000_600}
        assert {row["at_ms"] for row in out.rows()} <= {1_000_200, 1_000_600}
    finally:
        running.stop()


def test_a_clock_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(perseid.PerseidError, match="clock: expected a function that gives milliseconds, got 7"):
        apps.counts(str(tmp_path / "out"), 10).start(spark, root=str(tmp_path / "root"), clock=7)  # type: ignore[arg-type]
