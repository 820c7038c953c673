"""Linear Road's rating: traffic that rises and stays, answers judged by the oracle, latencies over time (S8)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perseid import Context
from perseid.apps.linear_road.accounts import Accounts
from perseid.apps.linear_road.calculator import TollCalculator
from perseid.apps.linear_road.feed import Feed
from perseid.apps.linear_road.latency import Lateness
from perseid.bench.road.judging import Verdict, judge
from perseid.bench.road.picture import draw
from perseid.bench.road.result import result_of
from perseid.bench.road.running import Driven
from perseid.bench.road.traffic import Road, make_feed
from perseid.state.operator_state import fresh, run_epoch
from perseid.vocabulary import Epoch

ROAD = Road(xways=2, ramp_s=8, peak_s=3)


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_feed(ROAD, tmp_path_factory.mktemp("road"))


@pytest.fixture(scope="module")
def said(feed: Path) -> pa.Table:
    """What the operators answer, without Spark."""
    source, tables = Feed(feed), []
    shards = [fresh(TollCalculator()), fresh(Accounts())]
    for number, one in enumerate(source.slices, start=1):
        rows = pq.ParquetFile(feed / one.file).read()
        for shard in shards:
            rows = run_epoch(shard, {"rows": rows}, Context(Epoch(number), 0))
        tables.append(rows)
    return pa.concat_tables(tables)


def written(answers: pa.Table, folder: Path) -> Path:
    (folder / "epoch=1").mkdir()
    pq.write_table(answers, folder / "epoch=1" / "part-0.parquet")
    return folder


def test_the_load_rises_to_the_benchmarks_peak_and_stays(feed: Path) -> None:
    rows = [one.rows for one in Feed(feed).slices if one.second >= 0]
    assert rows[: ROAD.ramp_s] == sorted(rows[: ROAD.ramp_s])
    assert rows[0] < ROAD.xways * 20 and min(rows[ROAD.ramp_s - 1 :]) >= ROAD.xways * 1_700


def test_traffic_that_is_there_is_not_made_again_and_other_traffic_replaces_it(tmp_path: Path) -> None:
    small = Road(1, 3, 1)
    index = make_feed(small, tmp_path) / "feed.json"
    made = index.stat().st_mtime_ns
    assert make_feed(small, tmp_path) == index.parent and index.stat().st_mtime_ns == made
    make_feed(Road(1, 4, 1), tmp_path)
    assert len(Feed(index.parent).slices) == 6


def test_answers_are_right_when_the_oracle_says_the_same(feed: Path, said: pa.Table, tmp_path: Path) -> None:
    assert judge(feed, written(said, tmp_path), ROAD.xways) == Verdict(came=said.num_rows)


def test_answers_that_are_missing_changed_or_nobodys_are_counted(feed: Path, said: pa.Table, tmp_path: Path) -> None:
    changed = {name: said[name].to_numpy().copy() for name in said.column_names}
    changed["value"][7] += 1
    changed["xway"][9] = -1
    answers = pa.table(changed, schema=said.schema).slice(2)
    found = judge(feed, written(answers, tmp_path), ROAD.xways)
    assert (found.came, found.wrong, found.missing) == (said.num_rows - 2, 2, 4)


def test_a_run_is_a_rating_only_if_all_is_right_and_nearly_all_in_time() -> None:
    late = Lateness(np.repeat(np.arange(10), 100), np.concatenate([np.full(992, 0.5), np.full(8, 6.0)]))
    driven = Driven(began_ms=0, busy_share=0.5, checkpoints=1, epochs=10, seconds=12.0)

    def holds(late: Lateness, verdict: Verdict) -> bool:
        return result_of(Road(100, 5, 5), 1000, driven, late, verdict, {}).holds

    assert holds(late, Verdict(came=1000))
    assert not holds(late, Verdict(came=1000, missing=1))
    assert not holds(late, Verdict(came=1000, wrong=1))
    assert not holds(Lateness(late.second, late.late_s + 4.6), Verdict(came=1000))
    found = result_of(Road(100, 5, 5), 1000, driven, late, Verdict(came=1000), {})
    assert (found.median_ms, found.worst_ms, found.peak_within_5s_percent) == (500.0, 6000.0, 98.4)
    assert [moment.answers for moment in found.moments] == [100] * 10 and found.moments[9].p99_ms == 6000.0


def test_a_run_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs perseid[bench]")
    late = Lateness(np.repeat(np.arange(10), 100), np.full(1000, 0.5))
    driven = Driven(began_ms=0, busy_share=0.5, checkpoints=1, epochs=10, seconds=12.0)
    draw(result_of(Road(100, 5, 5), 1000, driven, late, Verdict(came=1000), {}), "a run", tmp_path / "road.png")
    assert (tmp_path / "road.png").read_bytes().startswith(b"\x89PNG")
