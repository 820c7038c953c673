"""Linear Road loses a host on the way, and its answers are those of the oracle all the same (S7)."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import apps
import pytest
from pyspark.sql import SparkSession

from perseid import PerseidError
from perseid.apps.linear_road import generate, results
from perseid.apps.linear_road.feed import Feed, cut
from perseid.apps.linear_road.graph import linear_road
from perseid.testing import kill

pytestmark = pytest.mark.spark

RUBBISH = ["rubbish", "0,7,1,2", "0,100,7,30,0,9,0,5,26400,-1,-1,-1,-1,-1,-1", "2,x,7" + ",-1" * 12]


@pytest.mark.parametrize("seven", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_killed_host_changes_no_toll_accident_or_balance(spark: SparkSession, tmp_path: Path, seven: bool) -> None:
    traffic = generate.Traffic(xways=2, seconds=240, seed=3, first_rate=5, peak_rate=30, crash_every_s=20)
    lines = [line for table in generate.seconds(traffic) for line in generate.as_lines(table)]
    for number, line in enumerate(RUBBISH):
        lines.insert(1_500 * (number + 1), line)
    expected, said = results.of_oracle(lines)
    assert said.accident and said.balance and said.daily and sorted(said.malformed) == sorted(RUBBISH)

    cut(lines, tmp_path / "feed", least_rows=900)
    app = linear_road(Feed(tmp_path / "feed"), str(tmp_path / "out"), malformed=str(tmp_path / "aside"), seven=seven)
    running = app.start(
        spark,
        root=str(tmp_path / "root"),
        hosts=2,
        spares=1,
        checkpoint=apps.scheme("parallel", 0.7),
        max_rows_per_epoch=1_000,
    )
    try:
        apps.wait_for_checkpoint(running)
        kill(running, host=0)
        assert running.wait(200), running.progress()
        assert running.progress().faults >= 1
    finally:
        with contextlib.suppress(PerseidError):
            running.stop()
    found = results.differences(results.of_output(tmp_path / "out"), expected)
    assert [str(difference) for difference in found if not difference.same] == []
    aside = [
        json.loads(line)["malformed"]
        for file in (tmp_path / "aside").glob("epoch=*/part-*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted(aside) == sorted(RUBBISH)
