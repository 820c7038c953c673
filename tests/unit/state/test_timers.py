"""Timers: when they fire, in which order, and what taking them back means."""

from __future__ import annotations

import pyarrow as pa
import pytest

from perseid import Operator
from perseid.errors import OperatorFailed
from perseid.operators.context import Context
from perseid.state.operator_state import fresh, run_epoch
from perseid.state.timers import Timer, Timers
from perseid.vocabulary import Epoch


def test_a_timer_fires_once_when_its_time_has_come() -> None:
    timers = Timers()
    timers.at_processing_time("a", 100)
    assert timers.due(99, None) == []
    assert timers.due(100, None) == [Timer("a", 100, "processing", "")]
    assert timers.due(200, None) == []


def test_event_timers_follow_the_watermark() -> None:
    timers = Timers()
    timers.at_event_time("a", 100)
    assert timers.due(1000, None) == []
    assert timers.due(1000, 99) == []
    assert timers.due(1000, 100) == [Timer("a", 100, "event", "")]


def test_the_order_is_kind_then_time_then_order_of_setting() -> None:
    timers = Timers()
    timers.at_processing_time("z", 20)
    timers.at_event_time("e", 1)
    timers.at_processing_time("a", 20)
    timers.at_processing_time("m", 10)
    assert [timer.key for timer in timers.due(20, 20)] == ["m", "z", "a", "e"]


def test_the_same_four_things_are_one_timer_and_different_ones_are_several() -> None:
    timers = Timers()
    for at_ms, name in ((10, ""), (10, ""), (20, ""), (10, "x")):
        timers.at_processing_time("a", at_ms, name=name)
    assert len(timers) == 3
    assert timers.pending("a") == [Timer("a", 10), Timer("a", 20), Timer("a", 10, name="x")]


def test_cancelling_one_or_all_of_a_name() -> None:
    timers = Timers()
    for at_ms, name in ((10, ""), (20, ""), (30, "x")):
        timers.at_processing_time("a", at_ms, name=name)
    timers.cancel("a", 20)
    assert [timer.at_ms for timer in timers.pending("a")] == [10, 30]
    timers.cancel("a")
    assert [timer.at_ms for timer in timers.pending("a")] == [30]
    timers.cancel("a", name="x")
    timers.cancel("nobody")
    assert not timers
    assert timers.due(100, 100) == []


def test_a_timer_cancelled_and_set_again_fires_once_in_its_new_place() -> None:
    timers = Timers()
    timers.at_processing_time("a", 10)
    timers.at_processing_time("b", 10)
    timers.cancel("a")
    timers.at_processing_time("a", 10)
    assert [timer.key for timer in timers.due(10, None)] == ["b", "a"]


def test_the_next_timer_is_never_a_cancelled_one() -> None:
    timers = Timers()
    assert timers.next_ms("processing") is None
    timers.at_processing_time("a", 10)
    timers.at_processing_time("b", 20)
    timers.cancel("a")
    assert timers.next_ms("processing") == 20
    assert timers.next_ms("event") is None


def test_a_snapshot_keeps_timers_and_their_order() -> None:
    timers = Timers()
    for key in ("z", "a", "m"):
        timers.at_processing_time(key, 10)
    timers.cancel("a")
    timers.at_processing_time("a", 10)
    again = Timers.restored(timers.capture())
    again.check()
    assert (
        [timer.key for timer in again.due(10, None)] == [timer.key for timer in timers.due(10, None)] == ["z", "m", "a"]
    )


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    for at_ms in range(10_000):
        timers.cancel("a")
        timers.at_processing_time("a", at_ms)
    timers.check()
    assert sum(map(len, timers._heaps.values())) < 200


def test_an_event_time_timer_without_event_time_is_refused_at_once() -> None:
    """It would never fire, and nobody would know why."""

    class Forgetful(Operator):
        def process(self, rows: pa.Table) -> None:
            self.context.timers.at_event_time("a", 10)

    operator, rows = fresh(Forgetful()), pa.table({"k": ["a"]})
    with pytest.raises(OperatorFailed, match="event_time="):
        run_epoch(operator, {"rows": rows}, Context(epoch=Epoch(1), time_ms=1))
    run_epoch(operator, {"rows": rows}, Context(epoch=Epoch(1), time_ms=1, watermark_ms=5))
    assert operator._timers.next_ms("event") == 10


def test_cancel_takes_back_timers_by_either_clock() -> None:
    timers = Timers()
    timers.at_event_time("a", 10)
    timers.at_processing_time("a", 20)
    timers.at_event_time("a", 30, name="other")
    timers.cancel("a")
    assert [timer.at_ms for timer in timers.pending("a")] == [30]
    timers.check()
