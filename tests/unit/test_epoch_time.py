"""The time of epochs follows the wall clock, but never backwards, and it never stands still."""

from __future__ import annotations

import time

import pytest

from perseid.clocks import EpochTime, steady_ms, wall_ms


class Clocks:
    """The machine's two clocks, moved by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall_ms, self.steady_ms = wall_ms(), time.monotonic_ns() // 1_000_000
        patch.setattr(time, "time_ns", lambda: self.wall_ms * 1_000_000)
        patch.setattr(time, "monotonic_ns", lambda: self.steady_ms * 1_000_000)

    def pass_ms(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms


def test_a_clock_that_was_put_back_is_waited_for_at_half_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, times = Clocks(monkeypatch), EpochTime(None)
    began = newest = times.now_ms(0)
    clocks.wall_ms -= 45_000
    seen = []
    for _ in range(100):
        clocks.pass_ms(1_000)
        newest = times.now_ms(newest)
        seen.append(newest - began)
    assert seen[:2] == [0, 500] and seen == sorted(seen) and len(set(seen)) > 98, (
        "it neither runs backwards nor stands still"
    )
    assert newest == clocks.wall_ms, "after 90 s the clock has caught up"


def test_sources_are_told_of_the_time_that_has_passed_whatever_the_clock_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, times = Clocks(monkeypatch), EpochTime(None)
    before, steady = times.source_ms(), steady_ms()
    for jump_ms in (5_000, -45_000):
        clocks.wall_ms += jump_ms
        clocks.pass_ms(1_000)
    assert times.source_ms() - before == steady_ms() - steady == 2_000


def test_a_clock_that_was_given_is_followed_as_it_is() -> None:
    shown = [5_000]
    times = EpochTime(lambda: shown[0])
    assert (times.now_ms(0), times.source_ms()) == (5_000, 5_000)
    assert times.now_ms(7_000) == 7_000 and times.now_ms(7_000) == 7_000, "it stands still until the clock is there"
