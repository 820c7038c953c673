"""A pair of primary and copy, step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perseid.standby import commands as do
from perseid.standby import events as on
from perseid.standby.modes import Standby, active, hybrid, passive
from perseid.standby.switching import PAUSE_MS, READS, STUCK_MS, Pair
from perseid.vocabulary import Epoch, HostId

P, C, D = HostId(1), HostId(2), HostId(3)
GIVE_UP_MS = hybrid().give_up.ms


def unguarded(standby: Standby | None = None) -> Pair:
    return Pair(standby or hybrid(), P)


def deploying(standby: Standby | None = None) -> Pair:
    pair = unguarded(standby)
    assert pair.handle(on.PlaceFound(C), 0) == (do.SendState(P, C, 1),)
    ends(pair, "deploying", P)
    return pair


def guarded(standby: Standby | None = None) -> Pair:
    pair = deploying(standby)
    assert pair.handle(on.CopyTaken(1, Epoch(10)), 0) == (do.Guard(P, C),)
    ends(pair, "guarded", P)
    return pair


def switched() -> Pair:
    pair = guarded()
    assert pair.handle(on.HostSilent(P), 1_000) == (do.Switch(P, C),)
    ends(pair, "switched", C)
    return pair


def returning() -> Pair:
    pair = switched()
    assert pair.handle(on.HostHeard(P), 2_000) == (do.SendState(C, P, 2, back=True),)
    ends(pair, "returning", C)
    return pair


def launching() -> Pair:
    pair = guarded(passive())
    assert pair.handle(on.HostDied(P), 1_000) == (do.Launch(P),)
    ends(pair, "launching", None)
    return pair


def ends(pair: Pair, phase: str, answering: HostId | None) -> None:
    pair.check()
    assert (pair.phase, pair.answering) == (phase, answering)


# -- one fault ----------------------------------------------------------------------------------------------------


def test_the_first_missed_heartbeat_switches() -> None:
    ends(switched(), "switched", C)


def test_a_host_outside_the_pair_may_be_silent_and_die() -> None:
    pair = guarded()
    assert pair.handle(on.HostSilent(D), 0) == () and pair.handle(on.HostDied(D), 0) == ()
    ends(pair, "guarded", P)


def test_the_primary_reads_the_state_back_and_answers_again() -> None:
    pair = returning()
    assert pair.handle(on.CopyTaken(2, Epoch(14)), 2_100) == (do.Return(P, C, read=True),)
    ends(pair, "guarded", P)
    assert pair.stands == 14 and pair.guarded


def test_what_both_hosts_have_never_goes_back() -> None:
    pair = guarded()
    pair.refreshed(Epoch(12))
    pair.refreshed(Epoch(11))
    assert pair.stands == 12


def test_a_refresh_that_comes_while_the_copy_answers_does_not_count() -> None:
    pair = switched()
    pair.refreshed(Epoch(99))
    assert pair.stands == 10


def test_a_primary_silent_for_too_long_is_given_up_and_its_copy_promoted() -> None:
    pair = switched()
    assert pair.tick(1_000 + GIVE_UP_MS - 1) == ()
    assert pair.tick(1_000 + GIVE_UP_MS) == (do.GiveUp(P, "silent for 20 s"),)
    assert pair.handle(on.HostDied(P), 1_000 + GIVE_UP_MS) == (do.Promote(P, C, "host 1 died"),)
    ends(pair, "unguarded", C)
    assert pair.wants_copy(1_000 + GIVE_UP_MS)
    assert pair.handle(on.PlaceFound(D), 0) == (do.SendState(C, D, 2),)


def test_a_primary_that_dies_is_replaced_at_once() -> None:
    pair = guarded()
    assert pair.handle(on.HostDied(P), 0) == (do.Promote(P, C, "host 1 died"),)
    ends(pair, "unguarded", C)


def test_a_copy_that_dies_costs_nothing_but_the_guard() -> None:
    pair = guarded()
    assert pair.handle(on.HostDied(C), 0) == (do.DropCopy(C, "host 2 died"),)
    ends(pair, "unguarded", P)
    assert pair.wants_copy(0)


def test_under_active_standby_the_host_that_is_heard_is_the_primary() -> None:
    pair = guarded(active())
    assert pair.handle(on.HostSilent(P), 0) == (do.Swap(P, C, "unheard, a missed heartbeat"),)
    ends(pair, "guarded", C)
    assert pair.handle(on.HostHeard(P), 100) == ()
    assert pair.handle(on.HostSilent(C), 200) == (do.Swap(C, P, "unheard, a missed heartbeat"),)
    assert pair.handle(on.HostSilent(P), 300) == (), "there is nobody else"
    assert pair.handle(on.HostHeard(C), 400) == (do.Swap(P, C, "unheard, a missed heartbeat"),)
    ends(pair, "guarded", C)


def test_under_active_standby_a_death_promotes() -> None:
    pair = guarded(active())
    assert pair.handle(on.HostDied(P), 0) == (do.Promote(P, C, "host 1 died"),)
    ends(pair, "unguarded", C)


def test_under_active_standby_whose_answer_differed_is_deployed_anew() -> None:
    why = "it gave another answer: an operator is not deterministic"
    pair = guarded(active())
    assert pair.handle(on.AnswerDiffered(P), 0) == (do.Swap(P, C, why), do.DropCopy(P, why))
    ends(pair, "unguarded", C)
    assert not pair.wants_copy(0) and pair.wants_copy(10_000), "not again and again at once"
    pair = guarded(active())
    assert pair.handle(on.AnswerDiffered(C), 0) == (do.DropCopy(C, why),)
    assert pair.handle(on.AnswerDiffered(C), 0) == (), "it is no copy any more"
    assert guarded().handle(on.AnswerDiffered(C), 0) == (), "hybrid copies answer only instead of their primary"


def test_passive_gives_up_after_three_misses_and_launches() -> None:
    pair = guarded(passive())
    assert pair.handle(on.HostSilent(P, 1), 0) == () and pair.handle(on.HostSilent(P, 2), 0) == ()
    assert pair.handle(on.HostSilent(P, 3), 0) == (do.GiveUp(P, "3 heartbeats missed"),)
    assert pair.handle(on.HostDied(P), 0) == (do.Launch(P),)
    ends(pair, "launching", None)


def test_a_launched_host_gets_the_kept_state_and_is_the_primary() -> None:
    pair = launching()
    assert pair.handle(on.HostLaunched(D), 1_100) == (do.SendState(C, D, 2),)
    promoted, dropped = pair.handle(on.CopyTaken(2, Epoch(10)), 1_200)
    assert promoted == do.Promote(P, D, "a new host was launched")
    assert dropped == do.DropCopy(C, "its state was launched")
    ends(pair, "unguarded", D)


def test_a_second_host_that_is_launched_is_not_needed() -> None:
    pair = launching()
    pair.handle(on.HostLaunched(D), 1_100)
    assert pair.handle(on.HostLaunched(HostId(4)), 1_200) == ()
    assert pair.target == D


def test_silence_is_waited_for_as_long_as_another_can_stand_in() -> None:
    assert unguarded().patience_ms(P) is None and deploying().patience_ms(P) is None
    for pair in (guarded(), switched(), returning(), guarded(active())):
        assert pair.patience_ms(P) == pair.patience_ms(C) == 2 * GIVE_UP_MS
    assert guarded().patience_ms(D) is None
    assert guarded(passive()).patience_ms(P) is None, "it is not overtaken, but launched anew"


def test_a_silent_primary_gets_no_copy_and_cannot_be_its_own() -> None:
    pair = unguarded()
    assert pair.handle(on.PlaceFound(P), 0) == ()
    pair.handle(on.HostSilent(P), 0)
    assert not pair.wants_copy(0) and pair.handle(on.PlaceFound(C), 0) == ()
    pair.handle(on.HostHeard(P), 0)
    assert pair.wants_copy(0)


def test_a_copy_that_cannot_be_deployed_is_tried_again_after_a_pause_that_doubles() -> None:
    pair, now_ms = unguarded(), 0
    for pause in (PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS):
        pair.handle(on.PlaceFound(C), now_ms)
        assert pair.handle(on.CopyNotTaken(pair.number, "full"), now_ms) == (do.DropCopy(C, "full"),)
        assert not pair.wants_copy(now_ms + pause - 1) and pair.wants_copy(now_ms + pause)
        now_ms += pause
    ends(pair, "unguarded", P)


def test_an_answer_to_an_old_attempt_changes_nothing() -> None:
    pair = returning()
    pair.handle(on.HostSilent(P), 2_100)
    pair.handle(on.HostHeard(P), 2_200)
    assert pair.handle(on.CopyTaken(2, Epoch(99)), 2_300) == ()
    assert pair.handle(on.CopyNotTaken(2, "late"), 2_300) == ()
    ends(pair, "returning", C)
    assert pair.stands == 10


# -- a second fault in every phase --------------------------------------------------------------------------------


def test_unguarded_and_the_primary_dies_is_recovered() -> None:
    pair = unguarded()
    assert pair.handle(on.HostDied(P), 0) == (do.Recover("host 1 died"),)
    ends(pair, "lost", None)


def test_deploying_and_the_primary_dies_is_recovered() -> None:
    pair = deploying()
    assert pair.handle(on.HostDied(P), 0) == (do.Recover("host 1 died"),)
    ends(pair, "lost", None)


def test_deploying_and_the_copy_dies_looks_for_another_place() -> None:
    pair = deploying()
    assert pair.handle(on.HostDied(C), 0) == (do.DropCopy(C, "host 2 died"),)
    ends(pair, "unguarded", P)
    assert not pair.wants_copy(0) and pair.wants_copy(PAUSE_MS)


def test_deploying_while_the_primary_is_silent_switches_when_deployed() -> None:
    pair = deploying()
    assert pair.handle(on.HostSilent(P), 0) == ()
    assert pair.handle(on.CopyTaken(1, Epoch(10)), 0) == (do.Guard(P, C), do.Switch(P, C))
    ends(pair, "switched", C)


def test_guarded_and_both_are_silent_waits_for_the_first_that_is_back() -> None:
    pair = guarded()
    assert pair.handle(on.HostSilent(C), 0) == () and pair.handle(on.HostSilent(P), 0) == ()
    ends(pair, "guarded", P)
    assert pair.handle(on.HostHeard(C), 0) == (do.Switch(P, C),)
    ends(pair, "switched", C)


@pytest.mark.parametrize("make", [guarded, switched])
def test_both_silent_for_too_long_are_given_up_one_after_the_other(make: Callable[[], Pair]) -> None:
    pair = make()
    pair.handle(on.HostSilent(C), 1_000)
    pair.handle(on.HostSilent(P), 1_000)
    assert pair.tick(1_000 + GIVE_UP_MS) == (do.GiveUp(P, "silent for 20 s"),)
    assert pair.handle(on.HostDied(P), 1_000 + GIVE_UP_MS) == (do.Promote(P, C, "host 1 died"),)
    ends(pair, "unguarded", C)
    assert C in pair.silent, "the detector judges it now"
    assert pair.handle(on.HostDied(C), 1_000 + GIVE_UP_MS) == (do.Recover("host 2 died"),)
    ends(pair, "lost", None)


def test_a_primary_is_not_given_up_while_its_copy_has_been_silent_for_a_shorter_time() -> None:
    pair = guarded()
    pair.handle(on.HostSilent(P), 0)
    pair.handle(on.HostSilent(C), 10_000)
    assert pair.tick(GIVE_UP_MS) == ()
    assert pair.tick(10_000 + GIVE_UP_MS) == (do.GiveUp(P, "silent for 20 s"),)


def test_a_copy_that_is_silent_for_too_long_is_dropped() -> None:
    pair = guarded()
    pair.handle(on.HostSilent(C), 0)
    assert pair.tick(GIVE_UP_MS) == (do.DropCopy(C, "silent for 20 s"),)
    ends(pair, "unguarded", P)


def test_switched_and_the_copy_dies_hands_back() -> None:
    pair = switched()
    assert pair.handle(on.HostDied(C), 0) == (do.Return(P, C, read=False), do.DropCopy(C, "host 2 died"))
    ends(pair, "unguarded", P)
    assert P in pair.silent and not pair.wants_copy(0)


def test_switched_and_the_primary_dies_promotes_the_copy() -> None:
    pair = switched()
    assert pair.handle(on.HostDied(P), 0) == (do.Promote(P, C, "host 1 died"),)
    ends(pair, "unguarded", C)


def test_switched_and_the_copy_is_silent_hands_back_to_a_primary_that_is_heard() -> None:
    pair = switched()
    assert pair.handle(on.HostSilent(C), 0) == ()
    assert pair.handle(on.HostHeard(P), 0) == (do.Return(P, C, read=False),)
    ends(pair, "guarded", P)


def test_returning_and_the_primary_is_silent_again_leaves_the_copy_at_work() -> None:
    pair = returning()
    assert pair.handle(on.HostSilent(P), 0) == ()
    ends(pair, "switched", C)


@pytest.mark.parametrize(("event", "phase"), [(on.HostSilent(C), "guarded"), (on.HostDied(C), "unguarded")])
def test_returning_and_the_copy_is_gone_goes_on_without_its_state(event: on.Event, phase: str) -> None:
    pair = returning()
    assert pair.handle(event, 0)[0] == do.Return(P, C, read=False)
    ends(pair, phase, P)


def test_a_primary_that_cannot_read_back_makes_everything_up_itself() -> None:
    pair = returning()
    for attempt in range(1, READS):
        assert pair.handle(on.CopyNotTaken(pair.number, "no memory"), 0) == (do.SendState(C, P, 2 + attempt, True),)
    assert pair.handle(on.CopyNotTaken(pair.number, "no memory"), 0) == (do.Return(P, C, read=False),)
    ends(pair, "guarded", P)


@pytest.mark.parametrize("dies", [C, D])
def test_launching_and_another_host_dies_is_recovered(dies: HostId) -> None:
    pair = launching()
    pair.handle(on.HostLaunched(D), 0)
    assert pair.handle(on.HostDied(dies), 0) == (do.Recover(f"host {dies} died"),)
    ends(pair, "lost", None)


def test_launching_and_the_state_is_not_taken_is_recovered() -> None:
    pair = launching()
    pair.handle(on.HostLaunched(D), 0)
    assert pair.handle(on.CopyNotTaken(2, "no memory"), 0) == (do.Recover("no memory"),)


@pytest.mark.parametrize(
    ("make", "kind"), [(deploying, do.DropCopy), (returning, do.SendState), (launching, do.Recover)]
)
def test_no_phase_in_between_goes_on_for_ever(make: Callable[[], Pair], kind: type[do.Command]) -> None:
    pair = make()
    assert pair.tick(pair.since_ms + STUCK_MS - 1) == ()
    (command,) = pair.tick(pair.since_ms + STUCK_MS)
    assert isinstance(command, kind)


def test_every_attempt_at_reading_back_has_its_own_time() -> None:
    pair = returning()
    at_ms = pair.since_ms + STUCK_MS
    assert pair.tick(at_ms) == (do.SendState(C, P, 3, back=True),)
    assert pair.tick(at_ms + 1) == ()
    assert pair.tick(at_ms + STUCK_MS) == (do.SendState(C, P, 4, back=True),)
    assert pair.tick(at_ms + 2 * STUCK_MS) == (do.Return(P, C, read=False),)


def test_a_lost_pair_wants_nothing_any_more() -> None:
    pair = launching()
    pair.handle(on.HostDied(C), 0)
    ends(pair, "lost", None)
    events = (
        on.HostDied(C),
        on.HostDied(P),
        on.HostSilent(P, 3),
        on.HostHeard(P),
        on.PlaceFound(C),
        on.CopyTaken(0, Epoch(1)),
        on.HostLaunched(D),
    )
    assert [pair.handle(event, 1) for event in events] == [()] * 7
    assert pair.tick(10 * STUCK_MS) == ()
