"""An application's operators go on from a snapshot as if nothing had happened (M6): same results, same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from feeding import Fed
from without_spark import Bcp, SignalGuru, Tmi, ids, vote

from perseid.apps.bcp.generate import Campus
from perseid.apps.growing import Growing
from perseid.apps.signalguru.generate import Town
from perseid.apps.signalguru.graph import lights
from perseid.apps.tmi.generate import City
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore


def restarted(fed: Fed) -> None:
    """Put a new shard in its place, with what a snapshot of the old one holds."""
    buffers = [memoryview(bytearray(part)) for part in encode(capture(fed.shard))]
    fed.shard = fresh(fed.shard)
    restore(fed.shard, decode(buffers))


def tmi() -> tuple[list[Fed], Callable[[np.ndarray], None], int, int]:
    city, app = City(40, 60_000, seed=2), Tmi(60_000)
    return [app.pair, app.kmeans], lambda these: app.feed(pa.table(city.positions(these))), city.rows(3), 160


def bcp() -> tuple[list[Fed], Callable[[np.ndarray], None], int, int]:
    campus, app = Campus(1, 20, seed=2), Bcp()

    def step(these: np.ndarray) -> None:
        counts = app.history.feed(pa.table(campus.pictures(these)))
        assert counts is not None
        app.crowding.feed(counts)

    return [app.history, app.crowding], step, campus.rows(3), 30


def signalguru() -> tuple[list[Fed], Callable[[np.ndarray], None], int, int]:
    town, app = Town(1, seed=2), SignalGuru()

    def step(these: np.ndarray) -> None:
        columns = town.pictures(these)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        seen = app.motion.feed(pa.Table.from_batches([lights(batch)]))
        changes = None if seen is None else app.phases.feed(vote(seen))
        if changes is not None:
            app.svm.feed(changes)

    return [app.motion, app.phases, app.svm], step, town.rows(2), 20


@pytest.mark.parametrize("application", [tmi, bcp, signalguru], ids=lambda function: function.__name__)
def test_a_restart_changes_nothing(application: Callable[[], Any]) -> None:
    (plain, step, rows, size), (killed, step_killed, _, _) = application(), application()
    for number, these in enumerate(ids(rows, size)):
        step(these)
        step_killed(these)
        if number % 2:
            for fed in killed:
                restarted(fed)
    for one, other in zip(plain, killed, strict=True):
        assert one.results, "something was found out"
        assert [table.to_pylist() for table in one.results] == [table.to_pylist() for table in other.results]
        assert one.sizes == pytest.approx(other.sizes, rel=0.2, abs=2000)


def test_an_empty_growing_array_survives() -> None:
    buffers = [memoryview(bytearray(part)) for part in encode({"kept": Growing(np.uint8, (2, 2))})]
    again = decode(buffers)["kept"]
    again.append(np.ones((1, 2, 2), np.uint8))
    assert again.rows.tolist() == [[[1, 1], [1, 1]]]
