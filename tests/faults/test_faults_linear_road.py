"""Linear Road loses hosts and has its shards divided anew on the way, and its answers are those of the oracle all the same (S7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import apps
import pytest

from perseid.apps.linear_road import generate, results
from perseid.apps.linear_road.feed import Feed, cut, feed_of
from perseid.apps.linear_road.graph import linear_road
from perseid.driver.running import Running
from perseid.testing import Clock, kill

pytestmark = pytest.mark.spark

RUBBISH = ["rubbish", "0,7,1,2", "0,100,7,30,0,9,0,5,26400,-1,-1,-1,-1,-1,-1", "2,x,7" + ",-1" * 12]
DATA = Path(__file__).parents[3] / "shared" / "data" / "linearroad"
SPEEDS = {"official-300s": 8.0, "gen-1x-1800s": 20.0}
"""The sets others made, and how many times as fast as on the road they pass: slow enough that there is time to scale."""


def trouble(running: Running, seven: bool, drive: Callable[[], object] = lambda: None) -> None:
    """A killed host, more shards, another killed host, fewer shards: each while cars ``drive`` on."""
    accounts = "toll-assessment" if seven else "accounts"
    drive()
    apps.wait_for_checkpoint(running)
    drive()
    kill(running, host=0)
    for operator in ("toll-calculator", accounts):
        drive()
        running.scale(operator, shards=3)
    drive()
    kill(running, host=1)
    for operator, shards in (("toll-calculator", 1), (accounts, 2)):
        drive()
        running.scale(operator, shards=shards)
    for _ in range(10):
        drive()
    assert running.wait(apps.WAIT_S), running.progress()
    assert running.progress().faults >= 2


def differing(out: Path, expected: results.Lines) -> list[str]:
    return [str(found) for found in results.differences(results.of_output(out), expected) if not found.same]


@pytest.mark.parametrize("seven", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_hosts_and_new_shards_change_no_toll_accident_or_balance(
    begin: apps.Begin, tmp_path: Path, seven: bool
) -> None:
    traffic = generate.Traffic(xways=2, seconds=240, seed=3, first_rate=5, peak_rate=30, crash_every_s=20)
    lines = [line for table in generate.seconds(traffic) for line in generate.as_lines(table)]
    for number, line in enumerate(RUBBISH):
        lines.insert(1_500 * (number + 1), line)
    expected, said = results.of_oracle(lines)
    assert said.accident and said.balance and said.daily and sorted(said.malformed) == sorted(RUBBISH)

    cut(lines, tmp_path / "feed", least_rows=1)
    feed, out, aside = Feed(tmp_path / "feed", speed=1), tmp_path / "out", tmp_path / "aside"
    app = linear_road(feed, str(out), malformed=str(aside), seven=seven)
    clock = Clock(1_000)
    trouble(begin(app, max_rows_per_epoch=1_000, clock=clock), seven, lambda: clock.advance(seconds=30))
    assert differing(out, expected) == []
    files = [file.read_text() for file in aside.glob("epoch=*/part-*.json")]
    assert sorted(json.loads(line)["malformed"] for text in files for line in text.splitlines()) == sorted(RUBBISH)


@pytest.mark.slow
@pytest.mark.parametrize("seven", [False, True])
@pytest.mark.parametrize("name", SPEEDS)
def test_the_data_of_others_gives_what_they_expect_through_faults_and_scaling(
    begin: apps.Begin, tmp_path: Path, name: str, seven: bool
) -> None:
    if not (DATA / name).exists():
        pytest.skip("data is not there")
    feed = Feed(feed_of(DATA / name, tmp_path / "feed", least_rows=1), speed=SPEEDS[name])
    trouble(begin(linear_road(feed, str(tmp_path / "out"), seven=seven), max_rows_per_epoch=20_000), seven)
    assert differing(tmp_path / "out", results.of_expected(DATA / name)) == []
