"""SignalGuru without Spark: it finds the light, follows the signal, predicts its changes, and forgets cars that left (M8)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from feeding import Fed
from without_spark import SignalGuru, ids

from perseid.apps.signalguru.controller import changes_in
from perseid.apps.signalguru.filters import BACK, colour_filter, motion_filter, shape_filter
from perseid.apps.signalguru.generate import CYCLE_MS, GREEN, INTERSECTIONS, INTERVAL_MS, RED, Town
from perseid.apps.signalguru.operators import Phases, SvmPrediction
from perseid.apps.signalguru.view import LAMP, SHAPE

EVENTS = Path(__file__).parents[4] / "shared" / "data" / "signals" / "sample_raw_data.parquet"
TOWN = Town(intersections=2, seed=1)


@pytest.fixture(scope="module")
def ran() -> SignalGuru:
    guru = SignalGuru()
    guru.run(TOWN, cycles=14, ticks=10)
    return guru


def errors(predictions: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Of what the SVM predicted and what 'as usual' would have been, in seconds."""
    past = predictions.filter(pc.and_(pc.is_valid(predictions["actual_ms"]), pc.equal(predictions["model"], "svm")))
    actual = past["actual_ms"].to_numpy()
    wrong, usual = (np.abs(past[name].to_numpy() - actual) / 1000 for name in ("predicted_ms", "usual_ms"))
    return wrong, usual


def test_phones_see_the_right_colour(ran: SignalGuru) -> None:
    votes = pa.concat_tables(ran.votes)
    assert pc.mean(pc.equal(votes["colour"], votes["truth"])).as_py() > 0.98
    assert votes.num_rows > 0.8 * TOWN.rows(14)


def test_the_svm_is_better_than_as_usual(ran: SignalGuru) -> None:
    wrong, usual = errors(ran.svm.all())
    assert len(wrong) > 10
    assert wrong.mean() < 2.5
    assert wrong.mean() < 0.7 * usual.mean()


def test_pictures_of_all_cars_swing_between_the_papers_200_mb_and_2_gb() -> None:
    """Without drawing: how many pictures the cars near have taken, at scale 1."""
    town = Town(INTERSECTIONS, seed=0)
    sizes = []
    for now_ms in range(2 * CYCLE_MS, 4 * CYCLE_MS, 4 * INTERVAL_MS):
        _, _, since_ms, _ = town._cars(np.arange(town.intersections), np.full(town.intersections, now_ms))
        sizes.append(float((since_ms // INTERVAL_MS + 1).sum() * np.prod(SHAPE) / 1e6))
    assert 150 < min(sizes) < 250
    assert 1800 < max(sizes) < 2200
    assert 900 < np.mean(sizes) < 1100


def test_a_car_that_leaves_is_forgotten(ran: SignalGuru) -> None:
    last = TOWN.rows(14) // TOWN.intersections - 1
    near = TOWN.pictures(np.arange(last * TOWN.intersections, (last + 1) * TOWN.intersections))
    there = set(pa.array(near["phone"]).filter(pc.invert(near["leaves"])).to_pylist())
    assert set(ran.motion.shard.histories) == there
    sizes = np.array(ran.motion.sizes[24:])
    assert sizes.max() > 5 * sizes.min()


def test_rows_are_the_same_in_any_batch() -> None:
    whole = pa.table(TOWN.pictures(np.arange(200, 240)))
    parts = [pa.table(TOWN.pictures(200 + these)) for these in ids(40, 7)]
    assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())


def picture(*discs: tuple[int, int, int]) -> np.ndarray:
    drawn = np.full(SHAPE, 60, np.uint8)
    rows, columns = np.mgrid[0 : SHAPE[0], 0 : SHAPE[1]]
    for colour, row, column in discs:
        drawn[(rows - row) ** 2 + (columns - column) ** 2 <= 10] = LAMP[colour]
    return drawn


def test_the_shape_filter_drops_what_is_no_disc() -> None:
    with_bar = picture((GREEN, 10, 30))
    with_bar[40:43, 5:17] = LAMP[RED]
    spots = shape_filter(colour_filter(with_bar[None]))
    assert spots[["colour", "row", "column"]].tolist() == [(GREEN, 10.0, 30.0)]


def test_the_motion_filter_keeps_what_stays() -> None:
    history = np.stack([picture((RED, 10, 20), (RED, 35, 5 + 8 * n)) for n in range(BACK + 1)])
    spots = shape_filter(colour_filter(history))
    spots = spots[spots["picture"] == BACK]
    matches = dict(zip(spots["row"].tolist(), motion_filter(history, spots).tolist(), strict=True))
    assert matches == {10.0: BACK, 35.0: 0}


def test_one_wrong_vote_is_no_change() -> None:
    phases = Fed(Phases())
    colours = [RED, RED, GREEN, RED, RED, GREEN, GREEN, GREEN]
    votes = {"intersection": [1] * 8, "at_ms": list(range(0, 4000, 500)), "colour": colours, "next_ms": [0] * 8}
    changes = phases.feed(pa.table(votes))
    assert changes is not None and changes.select(["at_ms", "colour"]).to_pylist() == [{"at_ms": 2500, "colour": GREEN}]


@pytest.mark.skipif(not EVENTS.exists(), reason="the controller events are not beside the project")
def test_real_controllers_are_predicted_better_than_as_usual() -> None:
    svm = Fed(SvmPrediction())
    svm.feed(changes_in(pq.read_table(EVENTS)))
    wrong, usual = errors(svm.all())
    assert len(wrong) > 400
    assert wrong.mean() < 0.85 * usual.mean()
    assert np.median(wrong) < 0.7 * np.median(usual)
