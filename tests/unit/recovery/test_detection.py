"""The detector: who is dead, said once."""

from __future__ import annotations

from perseid.recovery.detection import Death, Detector, patience_ms
from perseid.vocabulary import HostId


def detector() -> Detector:
    d = Detector(heartbeat_ms=100, misses=7, suspect_misses=3)
    d.host_registered(HostId(1), 0)
    d.host_registered(HostId(2), 0)
    return d


def listened(d: Detector, upto_ms: int, from_ms: int = 0) -> list[Death]:
    """As the controller does: again and again, with host 2 beating all the time."""
    deaths: list[Death] = []
    for now_ms in [*range(from_ms, upto_ms, 50), upto_ms]:
        d.heartbeat_arrived(HostId(2), now_ms)
        deaths += d.tick(now_ms)
    return deaths


def test_a_host_that_misses_its_heartbeats_is_dead_within_a_second() -> None:
    d = detector()
    (death,) = listened(d, 750)
    assert (death.host, death.silent_ms) == (1, 750)
    d.check()


def test_a_death_is_told_once_whoever_saw_it() -> None:
    d = detector()
    assert len(d.lost(HostId(1), "connection broke", 10)) == 1
    assert d.lost(HostId(1), "its task ended", 11) == ()
    d.suspected(HostId(1))
    assert all(death.host != 1 for death in d.tick(5_000))
    d.check()


def test_a_suspect_has_less_time_to_prove_itself() -> None:
    d = detector()
    d.suspected(HostId(1))
    assert [death.host for death in listened(d, 350)] == [1]


def test_a_suspect_that_beats_is_no_suspect() -> None:
    d = detector()
    d.suspected(HostId(1))
    d.heartbeat_arrived(HostId(1), 200)
    d.heartbeat_arrived(HostId(2), 200)
    assert d.tick(600) == ()


def test_a_host_at_work_may_be_silent_for_as_long_as_its_state_is_large() -> None:
    d = detector()
    d.work_began(HostId(1), 0, 80_000_000)
    d.heartbeat_arrived(HostId(2), 15_000)
    assert d.tick(15_100) == ()
    d.work_ended(HostId(1), 15_200)
    assert d.tick(15_300) == ()
    d.check()
    assert patience_ms(0) < patience_ms(80_000_000) < patience_ms(None)


def test_a_small_state_is_no_reason_for_a_long_silence() -> None:
    d = detector()
    d.work_began(HostId(1), 0, 1_000)
    (death,) = listened(d, 6_000)
    assert (death.host, death.reason) == (1, "silent for 5750 ms")


def test_a_host_whose_heart_beats_may_work_for_minutes() -> None:
    d = detector()
    d.work_began(HostId(1), 0, 1_000)
    for now_ms in range(0, 300_000, 200):
        d.heartbeat_arrived(HostId(1), now_ms)
        d.heartbeat_arrived(HostId(2), now_ms)
        assert d.tick(now_ms) == ()


def test_a_host_whose_work_never_ends_is_given_up_though_its_heart_beats() -> None:
    d = detector()
    d.work_began(HostId(1), 0, 1_000)
    deaths: list[Death] = []
    for now_ms in range(0, 700_000, 200):
        d.heartbeat_arrived(HostId(1), now_ms)
        d.heartbeat_arrived(HostId(2), now_ms)
        deaths += d.tick(now_ms)
    assert [(death.host, death.reason) for death in deaths] == [(1, "at work for 605200 ms")]


def test_a_clock_that_jumps_or_a_controller_that_slept_kills_nobody() -> None:
    d = detector()
    d.work_began(HostId(2), 0, 1_000)
    d.suspected(HostId(1))
    assert listened(d, 150) == []
    assert d.tick(3_600_000) == ()
    d.check()
    (death,) = listened(d, 3_601_000, from_ms=3_600_000)
    assert death.host == 1 and death.silent_ms < 1_500, "only what it was silent for while somebody listened"


def test_a_controller_that_is_always_slow_still_finds_the_dead() -> None:
    d = detector()
    assert [death.host for now_ms in range(0, 20_000, 900) for death in d.tick(now_ms)] == [1, 2]


def test_silence_at_work_is_given_twice_the_time_after_it_has_cost_a_host() -> None:
    d = detector()
    given = []
    for host in (10, 11, 12):
        d.host_registered(HostId(host), 0)
        d.work_began(HostId(host), 0, 0)
        given.append(next(ms for ms in range(0, 100_000, 100) if any(x.host == host for x in d.tick(ms))))
    assert [round(ms / given[0]) for ms in given] == [1, 2, 4]
    d.trouble_ended()
    assert d.leniency == 1, "a completed checkpoint says that all is well"


def test_heartbeats_of_all_but_the_silent_ones() -> None:
    d = detector()
    d.suspected(HostId(1))
    d.suspected(HostId(2))
    deaths: list[Death] = []
    for now_ms in range(0, 1_000, 100):
        d.heartbeats_arrived(now_ms, silent={HostId(2), HostId(77)})
        deaths += d.tick(now_ms)
    assert [death.host for death in deaths] == [2]
    d.check()


def test_a_host_that_alone_cannot_reach_storage_is_given_up() -> None:
    d = detector()
    assert d.trouble_reported(HostId(1), "no space", 10) == ()
    assert d.trouble_reported(HostId(1), "no space", 20) == ()
    (death,) = d.trouble_reported(HostId(1), "no space", 30)
    assert death.host == 1
    d.check()


def test_trouble_that_all_hosts_have_is_not_theirs() -> None:
    d = detector()
    for at in range(5):
        assert d.trouble_reported(HostId(1), "full", at) == ()
        assert d.trouble_reported(HostId(2), "full", at) == ()


def test_a_success_ends_the_trouble() -> None:
    d = detector()
    d.trouble_reported(HostId(1), "full", 1)
    d.trouble_reported(HostId(1), "full", 2)
    d.trouble_ended()
    assert d.trouble_reported(HostId(1), "full", 3) == ()
