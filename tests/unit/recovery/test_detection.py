"""The detector: who is dead, said once."""

from __future__ import annotations

from perseid.recovery.detection import Detector


def detector() -> Detector:
    d = Detector(heartbeat_ms=100, misses=7, suspect_misses=3, busy_ms=60_000)
    d.host_registered(1, 0)
    d.host_registered(2, 0)
    return d


def test_a_host_that_misses_its_heartbeats_is_dead_within_a_second() -> None:
    d = detector()
    d.heartbeat_arrived(2, 700)
    (death,) = d.tick(750)
    assert (death.host, death.silent_ms) == (1, 750)
    d.check()


def test_a_death_is_told_once_whoever_saw_it() -> None:
    d = detector()
    assert len(d.lost(1, "connection broke", 10)) == 1
    assert d.lost(1, "its task ended", 11) == ()
    d.suspected(1)
    assert all(death.host != 1 for death in d.tick(5_000))
    d.check()


def test_a_suspect_has_less_time_to_prove_itself() -> None:
    d = detector()
    d.suspected(1)
    assert [death.host for death in d.tick(350)] == [1]


def test_a_suspect_that_beats_is_no_suspect() -> None:
    d = detector()
    d.suspected(1)
    d.heartbeat_arrived(1, 200)
    d.heartbeat_arrived(2, 200)
    assert d.tick(600) == ()


def test_a_host_at_work_on_a_restore_may_be_silent() -> None:
    d = detector()
    d.work_began(1, 100)
    d.heartbeat_arrived(2, 5_000)
    assert d.tick(5_100) == ()
    d.work_ended(1, 5_200)
    assert d.tick(5_300) == ()
    d.check()


def test_silence_while_the_observer_was_away_does_not_count() -> None:
    d = detector()
    d.paused(10_000)
    assert d.tick(10_100) == ()


def test_a_host_that_alone_cannot_reach_storage_is_given_up() -> None:
    d = detector()
    assert d.trouble_reported(1, "no space", 10) == ()
    assert d.trouble_reported(1, "no space", 20) == ()
    (death,) = d.trouble_reported(1, "no space", 30)
    assert death.host == 1
    d.check()


def test_trouble_that_all_hosts_have_is_not_theirs() -> None:
    d = detector()
    for at in range(5):
        assert d.trouble_reported(1, "full", at) == ()
        assert d.trouble_reported(2, "full", at) == ()


def test_a_success_ends_the_trouble() -> None:
    d = detector()
    d.trouble_reported(1, "full", 1)
    d.trouble_reported(1, "full", 2)
    d.trouble_ended()
    assert d.trouble_reported(1, "full", 3) == ()
