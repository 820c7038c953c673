"""Which hosts have missed heartbeats: what their hearts say, and what their hearts do not say."""

from __future__ import annotations

from itertools import pairwise

import pytest

from perseid.recovery.pulse import Pulse
from perseid.standby.beats import LEAST_SLACK_MS, MOST_MISSES, Beats
from perseid.standby.events import HostHeard, HostSilent
from perseid.vocabulary import HostId

ONE, OTHER = HostId(1), HostId(2)
BEAT_MS = 100
SLACK_MS = 2 * BEAT_MS
LOOK_MS = 25  # the driver looks four times for every beat


def beating() -> Beats:
    beats = Beats()
    beats.watch(ONE, BEAT_MS, 0)
    assert beats.tick(0) == ()
    return beats


def looks(beats: Beats, begin_ms: int, end_ms: int) -> list[tuple[int, HostSilent]]:
    """What is told by somebody who listens all the time."""
    return [(now_ms, told) for now_ms in range(begin_ms, end_ms + 1, LOOK_MS) for told in beats.tick(now_ms)]


@pytest.mark.parametrize("pulse", [pulse for pulse in Pulse if pulse.alive])
def test_whatever_keeps_a_host_busy_it_has_not_missed_a_beat(pulse: Pulse) -> None:
    beats = beating()
    assert [beats.arrived(ONE, pulse, now_ms) for now_ms in range(100, 1_000, 100)] == [()] * 9


@pytest.mark.parametrize(("pulse", "why"), [(Pulse.STOPPED, "stopped"), (Pulse.STARVED, "starved")])
def test_a_beat_that_says_that_the_host_did_not_run_is_missed_at_once(pulse: Pulse, why: str) -> None:
    beats = beating()
    for misses, now_ms in ((1, 100), (2, 200)):
        (told,) = beats.arrived(ONE, pulse, now_ms)
        assert isinstance(told, HostSilent) and (told.host, told.misses, told.why) == (ONE, misses, why)


def test_a_heart_that_is_not_heard_has_missed_a_beat_when_the_next_two_are_due() -> None:
    told = looks(beating(), LOOK_MS, BEAT_MS + SLACK_MS + LOOK_MS)
    assert told == [(BEAT_MS + SLACK_MS + LOOK_MS, HostSilent(ONE, 1, "unheard"))]


def test_silence_is_told_once_for_every_beat_missed_and_not_for_ever() -> None:
    told = looks(beating(), LOOK_MS, 60_000)
    assert [silent.misses for _, silent in told] == list(range(1, MOST_MISSES + 1))
    between = [later - earlier for (earlier, _), (later, _) in pairwise(told)]
    assert set(between) == {BEAT_MS}


def test_short_beats_have_as_much_time_to_come_as_a_busy_machine_needs() -> None:
    beats = Beats()
    beats.watch(ONE, 20, 0)
    beats.tick(0)
    assert looks(beats, 5, 20 + LEAST_SLACK_MS) == []


def test_a_host_that_is_heard_again_is_told_once_and_counts_from_the_beginning() -> None:
    beats = beating()
    beats.arrived(ONE, Pulse.STOPPED, 100)
    beats.arrived(ONE, Pulse.STOPPED, 200)
    assert beats.arrived(ONE, Pulse.IDLE, 300) == (HostHeard(ONE),)
    assert beats.arrived(ONE, Pulse.IDLE, 400) == ()
    assert beats.arrived(ONE, Pulse.STOPPED, 500) == (HostSilent(ONE, 1, "stopped"),)


def test_nothing_is_overdue_for_a_driver_that_did_not_listen() -> None:
    beats = beating()
    assert beats.tick(5_000) == (), "it slept for five seconds"
    assert looks(beats, 5_000 + LOOK_MS, 5_000 + SLACK_MS) == []
    (first, *_) = looks(beats, 5_000 + SLACK_MS + LOOK_MS, 6_000)
    assert first[1] == HostSilent(ONE, 1, "unheard"), "from here on it counts again"


def test_a_beat_that_says_stopped_is_no_silence_of_the_heart() -> None:
    beats = beating()
    told: list[HostSilent | HostHeard] = []
    for now_ms in range(LOOK_MS, 1_001, LOOK_MS):
        told += beats.arrived(ONE, Pulse.STOPPED, now_ms) if now_ms % BEAT_MS == 0 else ()
        told += beats.tick(now_ms)
    assert told == [HostSilent(ONE, misses, "stopped") for misses in range(1, 11)]


def test_nobody_listens_to_a_host_that_is_gone() -> None:
    beats = beating()
    beats.watch(OTHER, BEAT_MS, 0)
    beats.gone(ONE)
    assert beats.arrived(ONE, Pulse.STOPPED, 100) == ()
    assert {silent.host for _, silent in looks(beats, LOOK_MS, 2_000)} == {OTHER}
