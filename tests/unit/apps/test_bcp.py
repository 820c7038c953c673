"""BCP without Spark: it counts who waits, predicts how full buses will be, and drops pictures when a bus comes (M8)."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest
from without_spark import Bcp, ids

from perseid.apps.bcp.generate import INTERVAL_MS, LINES, START_MS, Campus

CAMPUS = Campus(lines=1, headway=150, seed=1)


@pytest.fixture(scope="module")
def ran() -> Bcp:
    bcp = Bcp()
    bcp.run(CAMPUS, headways=4, ticks=10)
    return bcp


def test_people_are_counted_as_they_are(ran: Bcp) -> None:
    counts = ran.history.all()
    wrong = np.abs(counts["counted"].to_numpy() - counts["truth"].to_numpy())
    assert (wrong == 0).mean() > 0.8
    assert wrong.mean() < 0.3


def test_crowding_is_predicted_better_than_as_full_as_now(ran: Bcp) -> None:
    told = ran.crowding.all()
    past = told.filter(pc.is_valid(told["actual"]))
    actual = past["actual"].to_numpy()
    wrong, unchanged = (np.abs(past[name].to_numpy() - actual).mean() for name in ("predicted", "unchanged"))
    assert past.num_rows > 20
    assert wrong < 2.5
    assert wrong < 0.6 * unchanged


def test_pictures_swing_between_the_papers_100_and_700_mb(ran: Bcp) -> None:
    later = np.array(ran.history.sizes[15:]) * LINES / CAMPUS.lines / 1e6
    assert 90 < later.min() < 140
    assert 640 < later.max() < 730
    assert 350 < later.mean() < 450


def test_a_bus_drops_the_pictures_of_its_stop_only(ran: Bcp) -> None:
    arrivals = ran.history.all().filter(pc.is_valid(ran.history.all()["bus"]))
    last = {row["place"]: row["at_ms"] for row in arrivals.sort_by("at_ms").to_pylist()}
    newest = START_MS + (CAMPUS.rows(4) // CAMPUS.stops - 1) * INTERVAL_MS
    kept = {stop % 100: len(history) for stop, history in ran.history.shard.histories.items()}
    assert kept == {place: (newest - at_ms) // INTERVAL_MS + 1 for place, at_ms in last.items()}


def test_rows_are_the_same_in_any_batch() -> None:
    whole = CAMPUS.pictures(np.arange(900, 1000))
    parts = [CAMPUS.pictures(900 + these) for these in ids(100, 13)]
    for name, values in whole.items():
        assert [value for part in parts for value in part[name].to_pylist()] == values.to_pylist()


def test_the_same_rows_in_another_order_give_the_same_counts() -> None:
    import pyarrow as pa

    one, other = Bcp(), Bcp()
    for these in ids(CAMPUS.rows(0.5), 60):
        rows = pa.table(CAMPUS.pictures(these))
        turned = rows.take(pa.array(np.arange(rows.num_rows)[::-1]))
        assert one.history.feed(rows) == other.history.feed(turned)
