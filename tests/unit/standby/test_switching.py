"""A pair of primary and copy, step by step."""

from __future__ import annotations

import pytest

from perseid.standby import commands as do
from perseid.standby import events as on
from perseid.standby.modes import Standby, hybrid, none, passive
from perseid.standby.switching import PAUSE_MS, READS, STUCK_MS, Pair
from perseid.vocabulary import Epoch, HostId, Version

P, C, D = HostId(1), HostId(2), HostId(3)
GIVE_UP_MS = hybrid().give_up.ms


def unguarded(standby: Standby | None = None) -> Pair:
    return Pair(standby or hybrid(), P, Version(7), Epoch(10))


def guarded(standby: Standby | None = None) -> Pair:
    pair = unguarded(standby)
    assert pair.handle(on.PlaceFound(C), 0) == (do.DeployCopy(P, C, 1),)
    assert pair.handle(on.CopyDeployed(C, 1, Epoch(10)), 0) == ()
    assert pair.handle(on.EpochAnswered(P, Version(7), Epoch(12)), 0) == ()
    assert pair.handle(on.CopyRefreshed(C, Version(7), Epoch(11)), 0) == ()
    assert (pair.phase, pair.needs_after, pair.degraded) == ("guarded", 11, False)
    return pair


def switched() -> Pair:
    pair = guarded()
    assert pair.handle(on.BeatMissed(P), 1_000) == (do.Switch(Version(8), P, C, Epoch(11), Epoch(12)),)
    assert pair.handle(on.EpochAnswered(C, Version(8), Epoch(13)), 1_000) == ()
    pair.check()
    return pair


def returning() -> Pair:
    pair = switched()
    assert pair.handle(on.BeatArrived(P), 2_000) == (do.ReadBack(P, C, 2),)
    return pair


def launching() -> Pair:
    pair = guarded(passive())
    assert pair.handle(on.BeatMissed(P, 2), 1_000) == ()
    assert pair.handle(on.BeatMissed(P, 3), 1_100) == (do.Launch(Version(8), P, C, Epoch(11), Epoch(12)),)
    return pair


def ends(pair: Pair, phase: str, answering: HostId | None) -> None:
    pair.check()
    assert (pair.phase, pair.answering) == (phase, answering)


# -- one fault ----------------------------------------------------------------------------------------------------


def test_the_first_missed_heartbeat_switches() -> None:
    ends(switched(), "switched", C)


def test_late_answers_of_the_primary_are_refused() -> None:
    pair = switched()
    assert pair.handle(on.EpochAnswered(P, Version(7), Epoch(13)), 0) == (do.Refuse(P, Version(7), Epoch(13)),)
    assert pair.answered == 13


def test_a_late_refresh_of_the_primary_does_not_count() -> None:
    pair = switched()
    pair.handle(on.CopyRefreshed(C, Version(7), Epoch(99)), 0)
    assert pair.stands[C] == 13


def test_input_is_kept_from_where_the_primary_stands_until_it_is_back() -> None:
    pair = returning()
    assert pair.needs_after == 12
    pair.handle(on.StateRead(P, 2, Epoch(13)), 0)
    assert pair.needs_after == 13


def test_the_primary_reads_the_state_back_and_goes_on() -> None:
    pair = returning()
    assert pair.accepts(C, Version(8))  # the copy answers meanwhile
    pair.handle(on.EpochAnswered(C, Version(8), Epoch(14)), 0)
    (command,) = pair.handle(on.StateRead(P, 2, Epoch(13)), 0)
    assert command == do.Return(Version(9), C, P, Epoch(13), Epoch(14))
    assert not pair.accepts(C, Version(8)) and pair.accepts(P, Version(9))
    ends(pair, "guarded", P)


def test_a_primary_silent_for_too_long_is_given_up() -> None:
    pair = switched()
    assert pair.tick(1_000 + GIVE_UP_MS - 1) == ()
    (command,) = pair.tick(1_000 + GIVE_UP_MS)
    assert isinstance(command, do.GiveUp) and (command.host, command.promoted) == (P, C)
    ends(pair, "unguarded", C)
    assert pair.degraded and pair.wants_copy(1_000 + GIVE_UP_MS)
    assert pair.handle(on.PlaceFound(D), 0) == (do.DeployCopy(C, D, 2),)


def test_a_primary_that_dies_is_replaced_at_once() -> None:
    pair = guarded()
    (command,) = pair.handle(on.HostDied(P), 0)
    assert command == do.GiveUp(Version(8), P, C, Epoch(11), Epoch(12), "host 1 died")
    ends(pair, "unguarded", C)


def test_a_copy_that_dies_costs_nothing_but_the_guard() -> None:
    pair = guarded()
    assert pair.handle(on.HostDied(C), 0) == (do.DropCopy(C, "host 2 died"),)
    ends(pair, "unguarded", P)
    assert pair.version == 7


def test_passive_launches_after_three_misses_and_does_not_go_back() -> None:
    pair = launching()
    assert pair.handle(on.BeatArrived(P), 0) == ()
    assert pair.handle(on.EpochAnswered(P, Version(7), Epoch(13)), 0) == (do.Refuse(P, Version(7), Epoch(13)),)
    (command,) = pair.handle(on.HostLaunched(D, Version(8)), 0)
    assert isinstance(command, do.GiveUp) and (command.host, command.promoted) == (P, D)
    ends(pair, "unguarded", D)
    assert pair.needs_after == 11


def test_silence_is_no_death_as_long_as_another_can_stand_in() -> None:
    assert not unguarded().waits_for(P)
    assert all(pair.waits_for(P) and pair.waits_for(C) for pair in (guarded(), switched(), returning()))
    assert not guarded().waits_for(D)


def test_without_standby_no_copy_is_wanted() -> None:
    pair = unguarded(none())
    assert not pair.wants_copy(0) and not pair.degraded
    assert pair.handle(on.PlaceFound(C), 0) == ()


def test_a_copy_that_cannot_be_deployed_is_tried_again_after_a_pause() -> None:
    pair, now_ms = unguarded(), 0
    for pause in (PAUSE_MS, 2 * PAUSE_MS):
        pair.handle(on.PlaceFound(C), now_ms)
        assert pair.handle(on.DeployFailed(C, pair.number, "full"), now_ms) == (do.DropCopy(C, "full"),)
        assert not pair.wants_copy(now_ms + pause - 1) and pair.wants_copy(now_ms + pause)
        now_ms += pause
    ends(pair, "unguarded", P)


def test_an_answer_to_an_old_attempt_changes_nothing() -> None:
    pair = returning()
    pair.handle(on.BeatMissed(P), 0)
    pair.handle(on.BeatArrived(P), 0)
    assert pair.handle(on.StateRead(P, 2, Epoch(13)), 0) == ()
    ends(pair, "returning", C)


# -- a second fault in every phase --------------------------------------------------------------------------------


def test_unguarded_and_the_primary_dies() -> None:
    pair = unguarded()
    assert pair.handle(on.HostDied(P), 0) == (do.Recover(Version(8), (P,), "host 1 died"),)
    ends(pair, "lost", None)
    pair.handle(on.ShardsRecovered(D, Epoch(12)), 0)
    ends(pair, "unguarded", D)


def test_deploying_and_the_primary_dies() -> None:
    pair = unguarded()
    pair.handle(on.PlaceFound(C), 0)
    assert pair.handle(on.HostDied(P), 0) == (do.Recover(Version(8), (P, C), "host 1 died"),)
    ends(pair, "lost", None)


def test_deploying_and_the_copy_dies() -> None:
    pair = unguarded()
    pair.handle(on.PlaceFound(C), 0)
    pair.handle(on.HostDied(C), 0)
    ends(pair, "unguarded", P)


def test_deploying_while_the_primary_is_silent_switches_when_deployed() -> None:
    pair = unguarded()
    pair.handle(on.PlaceFound(C), 0)
    assert pair.handle(on.BeatMissed(P), 0) == ()
    (command,) = pair.handle(on.CopyDeployed(C, 1, Epoch(10)), 0)
    assert isinstance(command, do.Switch)
    ends(pair, "switched", C)


def test_guarded_and_both_are_silent_waits_for_the_first_that_is_back() -> None:
    pair = guarded()
    assert pair.handle(on.BeatMissed(C), 0) == ()
    assert pair.handle(on.BeatMissed(P), 0) == ()
    (command,) = pair.handle(on.BeatArrived(C), 0)
    assert isinstance(command, do.Switch)
    ends(pair, "switched", C)


def test_both_silent_for_too_long_are_recovered() -> None:
    for pair in (guarded(), switched()):
        pair.handle(on.BeatMissed(C), 1_000)
        pair.handle(on.BeatMissed(P), 1_000)
        (command,) = pair.tick(1_000 + GIVE_UP_MS)
        assert isinstance(command, do.Recover) and command.hosts == (P, C)
        ends(pair, "lost", None)


def test_a_silent_copy_is_given_up_too() -> None:
    pair = guarded()
    pair.handle(on.BeatMissed(C), 0)
    (command,) = pair.tick(GIVE_UP_MS)
    assert isinstance(command, do.DropCopy)
    ends(pair, "unguarded", P)


def test_switched_and_the_copy_dies_hands_back() -> None:
    pair = switched()
    back, dropped = pair.handle(on.HostDied(C), 0)
    assert back == do.Return(Version(9), C, P, Epoch(12), Epoch(13))
    assert isinstance(dropped, do.DropCopy)
    ends(pair, "unguarded", P)
    pair.handle(on.HostDied(P), 0)  # says the detector if it is still silent
    ends(pair, "lost", None)


def test_switched_and_the_primary_dies_promotes_the_copy_under_its_version() -> None:
    pair = switched()
    (command,) = pair.handle(on.HostDied(P), 0)
    assert isinstance(command, do.GiveUp) and command.version == 8
    ends(pair, "unguarded", C)


def test_switched_and_the_copy_is_silent_hands_back_to_a_primary_that_is_alive() -> None:
    pair = switched()
    assert pair.handle(on.BeatMissed(C), 0) == ()
    assert pair.handle(on.BeatArrived(P), 0) == (do.Return(Version(9), C, P, Epoch(12), Epoch(13)),)
    ends(pair, "guarded", P)


def test_returning_and_the_primary_is_silent_again_leaves_the_copy_at_work() -> None:
    pair = returning()
    assert pair.handle(on.BeatMissed(P), 0) == ()
    ends(pair, "switched", C)


@pytest.mark.parametrize(("event", "phase"), [(on.BeatMissed(C), "guarded"), (on.HostDied(C), "unguarded")])
def test_returning_and_the_copy_is_gone_goes_on_without_its_state(event: on.Event, phase: str) -> None:
    pair = returning()
    assert isinstance(pair.handle(event, 0)[0], do.Return)
    ends(pair, phase, P)


def test_a_primary_that_cannot_read_back_is_given_up() -> None:
    pair = returning()
    for _ in range(READS - 1):
        (command,) = pair.handle(on.ReadFailed(P, pair.number, "no memory"), 0)
        assert isinstance(command, do.ReadBack)
    (command,) = pair.handle(on.ReadFailed(P, pair.number, "no memory"), 0)
    assert isinstance(command, do.GiveUp) and command.reason == "no memory"
    ends(pair, "unguarded", C)


@pytest.mark.parametrize(
    "event", [on.HostDied(C), on.LaunchFailed(Version(8), "no slot"), on.CatchUpFailed(D, Version(8), "x")]
)
def test_launching_that_fails_is_recovered(event: on.Event) -> None:
    pair = launching()
    (command,) = pair.handle(event, 0)
    assert isinstance(command, do.Recover)
    ends(pair, "lost", None)


def test_a_launched_host_that_died_before_it_is_told_of_is_recovered() -> None:
    pair = launching()
    assert pair.handle(on.HostDied(D), 0) == ()
    (command,) = pair.handle(on.HostLaunched(D, Version(8)), 0)
    assert command == do.Recover(Version(9), (P, C), "host 3 died")
    ends(pair, "lost", None)


def test_a_recovery_onto_a_host_that_died_meanwhile_is_tried_again() -> None:
    pair = unguarded()
    pair.handle(on.HostDied(P), 0)
    assert pair.handle(on.HostDied(D), 0) == ()
    assert pair.handle(on.ShardsRecovered(D, Epoch(10)), 0) == (do.Recover(Version(9), (), "host 3 died"),)
    pair.handle(on.ShardsRecovered(C, Epoch(10)), 0)
    ends(pair, "unguarded", C)


def test_input_that_is_gone_is_recovered_by_the_usual_way() -> None:
    pair = switched()
    (command,) = pair.handle(on.CatchUpFailed(C, Version(8), "its machine is lost"), 0)
    assert command == do.Recover(Version(9), (P, C), "its machine is lost")


@pytest.mark.parametrize(("pair", "kind"), [(returning(), do.GiveUp), (launching(), do.Recover)])
def test_no_phase_goes_on_for_ever(pair: Pair, kind: type[do.Command]) -> None:
    (command,) = pair.tick(2_000 + STUCK_MS)
    assert isinstance(command, kind)


# -- another standby ----------------------------------------------------------------------------------------------


def test_another_standby_drops_the_copy_and_makes_one_of_its_kind() -> None:
    pair = guarded()
    (command,) = pair.handle(on.StandbyChanged(passive()), 0)
    assert isinstance(command, do.DropCopy)
    assert pair.wants_copy(0)


def test_other_settings_of_one_mode_keep_the_copy() -> None:
    pair = guarded()
    assert pair.handle(on.StandbyChanged(hybrid(give_up=1)), 0) == ()
    assert pair.copy == C and pair.standby.give_up.ms == 1_000


def test_a_standby_does_not_change_in_the_middle_of_a_switch() -> None:
    pair = switched()
    assert pair.handle(on.StandbyChanged(none()), 0) == ()
    pair.handle(on.BeatArrived(P), 0)
    pair.handle(on.StateRead(P, 2, Epoch(13)), 0)
    ends(pair, "guarded", P)
    (command,) = pair.tick(0)
    assert isinstance(command, do.DropCopy) and not pair.degraded
