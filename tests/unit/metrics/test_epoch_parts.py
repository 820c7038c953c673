"""Where an epoch's time went: the parts are those of its units, and never negative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from perseid.metrics.epoch_parts import EpochClock
from perseid.vocabulary import Epoch, OperatorName, ShardId, UnitName

UNIT, COUNT, ROLLUP = UnitName("main"), OperatorName("count"), OperatorName("rollup")


@dataclass(frozen=True)
class Said:
    worked_ms: float
    heard_s: float
    rows_in: int = 10
    rows_out: int = 3
    late_rows: int = 0
    state_bytes: int = 100
    event_times_ms: Mapping[str, int] = field(default_factory=dict)


def test_what_is_neither_hosts_nor_sink_is_spark() -> None:
    clock = EpochClock()
    clock.began(UNIT, Epoch(1), 10.0)
    clock.finished(UNIT, Epoch(1), {ShardId(COUNT, 0): Said(20.0, 10.08), ShardId(COUNT, 1): Said(30.0, 10.07)}, 10.1)
    shown = clock.taken(Epoch(1)).as_json(120.0)
    assert shown["parts_ms"] == {"waiting": 20.0, "spark": 50.0, "hosts": 30.0, "sink": 20.0}
    assert shown["operators"]["count"] == {"in": 20, "out": 6, "state": 200, "busy_ms": 30.0}


def test_operators_that_stand_on_each_other_work_one_after_the_other() -> None:
    clock = EpochClock()
    clock.began(UNIT, Epoch(1), 0.0)
    clock.finished(UNIT, Epoch(1), {ShardId(COUNT, 0): Said(20, 0.09), ShardId(ROLLUP, 0): Said(5, 0.1)}, 0.1)
    assert clock.taken(Epoch(1)).as_json(None)["parts_ms"] == {"spark": 75.0, "hosts": 25.0, "sink": 0.0}


def test_work_of_earlier_epochs_does_not_count_again_nor_does_a_restored_shard_count_backwards() -> None:
    clock, shard = EpochClock(), ShardId(COUNT, 0)
    for epoch, worked, expected in ((1, 20.0, 20.0), (2, 50.0, 30.0), (3, 4.0, 4.0)):
        clock.began(UNIT, Epoch(epoch), 0.0)
        clock.finished(UNIT, Epoch(epoch), {shard: Said(worked, 1.0)}, 1.0)
        assert clock.taken(Epoch(epoch)).hosts_ms == expected


def test_units_one_after_the_other_add_up() -> None:
    clock = EpochClock()
    for number, unit in enumerate((UnitName("first"), UnitName("second"))):
        clock.began(unit, Epoch(1), number * 1.0)
        clock.finished(unit, Epoch(1), {ShardId(OperatorName(unit), 0): Said(100, number + 0.5)}, number + 0.75)
    assert clock.taken(Epoch(1)).as_json(1_500.0)["parts_ms"] == {
        "waiting": 0.0, "spark": 800.0, "hosts": 200.0, "sink": 500.0,
    }  # fmt: skip


def test_an_epoch_that_an_earlier_driver_ran_has_no_negative_part() -> None:
    clock = EpochClock()
    clock.finished(UNIT, Epoch(9), {ShardId(COUNT, 0): Said(400.0, 5.0)}, 5.0)
    assert all(part >= 0 for part in clock.taken(Epoch(9)).as_json(3.0)["parts_ms"].values())


@pytest.mark.parametrize(
    ("times", "behind"), [(({"rows": 5}, {"rows": 9}), 9), (({"l": 5, "r": 2}, {"l": 9}), 2), (({}, {}), None)]
)
def test_event_time_is_of_the_input_that_is_furthest_behind(times: tuple[dict[str, int], ...], behind: int) -> None:
    clock = EpochClock()
    reports = {ShardId(COUNT, n): Said(0, 0, event_times_ms=seen) for n, seen in enumerate(times)}
    clock.finished(UNIT, Epoch(1), reports, 1.0)
    assert clock.taken(Epoch(1)).operators[COUNT].event_time_ms == behind
