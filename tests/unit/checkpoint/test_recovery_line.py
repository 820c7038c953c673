"""Which snapshots of single units fit together when everything is lost (M2)."""

from __future__ import annotations

import random

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint, UnitSnapshot
from perseid.checkpoint.recovery_line import recovery_line, with_snapshot
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.vocabulary import CheckpointId, Epoch, StreamName, UnitName


def topology(edges: str, preservation: str = "retained") -> Topology:
    """``"ab bc"``: a sends to b, b to c."""
    pairs = edges.split()
    units = sorted({unit for pair in pairs for unit in pair})
    shapes = tuple(UnitShape(UnitName(u), (), {}, {}) for u in units)
    streams = tuple(
        StreamShape(StreamName(pair), UnitName(pair[0]), UnitName(pair[1]), preservation)  # type: ignore[arg-type]
        for pair in pairs
    )
    return Topology(shapes, streams)


def snapshots(*epochs: int) -> tuple[UnitSnapshot, ...]:
    return tuple(UnitSnapshot(frozenset({CheckpointId(e)}), Epoch(e), {}) for e in sorted(epochs, reverse=True))


def line(
    shape: Topology, inflight: dict[tuple[str, int], str] | None = None, **units: tuple[int, ...]
) -> dict[str, int]:
    found = recovery_line(shape, {UnitName(u): snapshots(*e) for u, e in units.items()}, inflight or {})  # type: ignore[arg-type]
    return {str(u): int(e) for u, e in found.cuts.items()}


def test_a_unit_above_stands_no_later_than_the_one_below() -> None:
    assert line(topology("ab bc"), a=(4, 9), b=(5, 8), c=(7,)) == {"a": 4, "b": 5, "c": 7}


def test_the_newest_of_all_where_they_fit() -> None:
    assert line(topology("ab bc"), a=(3, 6), b=(4, 7), c=(8,)) == {"a": 6, "b": 7, "c": 8}


def test_the_slowest_of_several_units_below_decides() -> None:
    assert line(topology("ab ac bd cd"), a=(2, 5, 6), b=(6,), c=(3,), d=(9,)) == {"a": 2, "b": 6, "c": 3, "d": 9}


def test_without_a_fitting_snapshot_a_unit_begins_anew() -> None:
    assert line(topology("ab"), a=(5,), b=(3,)) == {"a": 0, "b": 3}
    assert line(topology("ab"), a=(5,), b=()) == {"a": 0, "b": 0}


def test_a_durable_stream_binds_nobody() -> None:
    assert line(topology("ab", "durable"), a=(5,), b=(3,)) == {"a": 5, "b": 3}


def test_epochs_in_flight_of_a_coordinated_checkpoint_close_the_gap() -> None:
    inflight = {("ab", 4): "4", ("ab", 5): "5"}
    assert line(topology("ab"), inflight, a=(5,), b=(3,)) == {"a": 5, "b": 3}
    assert line(topology("ab"), {("ab", 5): "5"}, a=(5,), b=(3,)) == {"a": 0, "b": 3}


@pytest.mark.parametrize("edges", ["ab bc cd de", "ab ac bd cd", "ac bc cd ce df ef", "ab ac ad bd cd"])
@pytest.mark.parametrize("seed", range(10))
def test_a_line_never_goes_back_and_needs_all_it_stands_on(edges: str, seed: int) -> None:
    shape = topology(edges)
    choose = random.Random(seed)
    at = {u.name: 0 for u in shape.units}
    order = [u.name for u in shape.units]
    newest: CompletedCheckpoint | None = None
    for number in range(1, 200):
        if number % len(order) == 0:  # once in a period each, in any order
            choose.shuffle(order)
        unit = order[number % len(order)]
        at[unit] = max(at[unit], 2 * number - choose.randint(0, 2) - len(shape.above(unit)))
        own = UnitSnapshot(frozenset({CheckpointId(number)}), Epoch(at[unit]), {})
        done = with_snapshot(shape, newest, CheckpointId(number), unit, own)
        for stream in shape.streams:
            assert done.cuts[stream.producer] <= done.cuts[stream.consumer]
        if newest is not None:
            assert all(done.cuts[u] >= newest.cuts[u] for u in at)
        assert done.own_cut(unit) == at[unit]
        assert {i for many in done.alone.values() for s in many for i in s.written_for} <= done.needs
        newest = done
    assert newest is not None and len(newest.needs) < 40, "old checkpoints are let go"
