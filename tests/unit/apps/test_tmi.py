"""TMI without Spark: it infers how phones move, and its state rises through a window and falls at its end (M8)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from without_spark import Tmi, ids

from perseid.apps.tmi.generate import PHONES, City
from perseid.apps.tmi.operators import Pair
from perseid.apps.tmi.traces import MODES_OF_TRACES, read_traces

MOBILITY = Path(__file__).parents[4] / "shared" / "data" / "mobility" / "amazon_goal_trajectories.zip"
CITY = City.of(0.006, 10, seed=1)


def right(found: pa.Table) -> float:
    return float(pc.mean(pc.equal(found["mode"], found["truth"])).as_py())


@pytest.fixture(scope="module")
def ran() -> Tmi:
    tmi = Tmi(CITY.window_ms)
    tmi.run(CITY, windows=2, ticks=4)
    return tmi


def test_modes_are_inferred_without_labels(ran: Tmi) -> None:
    found = ran.kmeans.all()
    assert found.num_rows == 2 * CITY.phones
    assert right(found) > 0.95


def test_the_pool_fills_to_the_papers_300_mb_and_empties(ran: Tmi) -> None:
    at_full_scale = np.array(ran.kmeans.sizes) * PHONES / CITY.phones / 1e6
    assert 280 < at_full_scale.max() < 330
    assert at_full_scale[5:].min() < 30  # what came while the window closed
    assert (np.diff(at_full_scale)[:25] > 0).all()


def test_the_same_seed_gives_the_same_modes_in_epochs_of_any_length(ran: Tmi) -> None:
    again = Tmi(CITY.window_ms)
    again.run(CITY, windows=2, ticks=15)
    order = [("window_ms", "ascending"), ("phone", "ascending")]
    assert again.kmeans.all().sort_by(order).equals(ran.kmeans.all().sort_by(order))


def test_another_seed_gives_other_positions() -> None:
    one, other = (City.of(0.001, 10, seed).positions(np.arange(100)) for seed in (1, 2))
    assert (one["x"] != other["x"]).all()


def test_rows_are_the_same_in_any_batch() -> None:
    whole = CITY.positions(np.arange(1000))
    parts = [CITY.positions(these) for these in ids(1000, 77)]
    for name, values in whole.items():
        assert (np.concatenate([part[name] for part in parts]) == values).all()


def test_pair_remembers_a_phone_from_one_epoch_to_the_next() -> None:
    from feeding import Fed

    pair = Fed(Pair())
    row = {"phone": 7, "at_ms": 0, "x": 0.0, "y": 0.0, "truth": 1}
    first = pair.feed(pa.Table.from_pylist([row, {**row, "at_ms": 5000, "x": 30.0, "y": 40.0}]))
    assert first is not None and first["speed"].to_pylist() == [10.0]
    later = pair.feed(pa.Table.from_pylist([{**row, "at_ms": 10_000, "x": 30.0, "y": 100.0}, {**row, "phone": 3}]))
    assert later is not None and later.select(["phone", "speed", "turn"]).to_pylist() == [
        {"phone": 7, "speed": 12.0, "turn": 2.0}
    ]


@pytest.mark.skipif(not MOBILITY.exists(), reason="the labelled traces are not beside the project")
def test_real_traces_are_told_apart() -> None:
    traces = read_traces(MOBILITY)
    codes = pc.index_in(traces["truth"], pa.array(["still", "walking", "bus", "driving"]))
    tmi = Tmi(60_000, MODES_OF_TRACES)
    rows = traces.set_column(traces.column_names.index("truth"), "truth", codes.cast(pa.int32()))
    for start in range(0, rows.num_rows, 5000):
        tmi.feed(rows.slice(start, 5000))
    assert right(tmi.kmeans.all()) > 0.87
