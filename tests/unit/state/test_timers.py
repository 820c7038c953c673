"""Timers: when they fire, in which order, and what taking them back means."""

from __future__ import annotations

import pytest

from perseid.errors import OperatorFailed
from perseid.state.timers import Timer, Timers


def test_a_timer_fires_once_when_its_time_has_come() -> None:
    timers = Timers()
    timers.set("a", 100)
    assert timers.due(99, None) == []
    assert timers.due(100, None) == [Timer("a", 100, "processing", "")]
    assert timers.due(200, None) == []


def test_event_timers_follow_the_watermark() -> None:
    timers = Timers()
    timers.set("a", 100, kind="event")
    assert timers.due(1000, None) == []
    assert timers.due(1000, 99) == []
    assert timers.due(1000, 100) == [Timer("a", 100, "event", "")]


def test_the_order_is_kind_then_time_then_order_of_setting() -> None:
    timers = Timers()
    timers.set("z", 20)
    timers.set("e", 1, kind="event")
    timers.set("a", 20)
    timers.set("m", 10)
    assert [timer.key for timer in timers.due(20, 20)] == ["m", "z", "a", "e"]


def test_the_same_four_things_are_one_timer_and_different_ones_are_several() -> None:
    timers = Timers()
    for at_ms, name in ((10, ""), (10, ""), (20, ""), (10, "x")):
        timers.set("a", at_ms, name=name)
    assert len(timers) == 3
    assert timers.pending("a") == [Timer("a", 10), Timer("a", 20), Timer("a", 10, name="x")]


def test_cancelling_one_or_all_of_a_name() -> None:
    timers = Timers()
    for at_ms, name in ((10, ""), (20, ""), (30, "x")):
        timers.set("a", at_ms, name=name)
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
    timers.set("a", 10)
    timers.set("b", 10)
    timers.cancel("a")
    timers.set("a", 10)
    assert [timer.key for timer in timers.due(10, None)] == ["b", "a"]


def test_the_next_timer_is_never_a_cancelled_one() -> None:
    timers = Timers()
    assert timers.next_ms("processing") is None
    timers.set("a", 10)
    timers.set("b", 20)
    timers.cancel("a")
    assert timers.next_ms("processing") == 20
    assert timers.next_ms("event") is None


def test_a_snapshot_keeps_timers_and_their_order() -> None:
    timers = Timers()
    for key in ("z", "a", "m"):
        timers.set(key, 10)
    timers.cancel("a")
    timers.set("a", 10)
    again = Timers.restored(timers.capture())
    again.check()
    assert (
        [timer.key for timer in again.due(10, None)] == [timer.key for timer in timers.due(10, None)] == ["z", "m", "a"]
    )


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    for at_ms in range(10_000):
        timers.cancel("a")
        timers.set("a", at_ms)
    timers.check()
    assert sum(map(len, timers._heaps.values())) < 200


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(OperatorFailed, match="expected 'processing' or 'event'"):
        Timers().set("a", 1, kind="both")
