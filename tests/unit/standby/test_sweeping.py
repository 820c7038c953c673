"""Refreshes start at the end of the graph and sweep up to the sources."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.standby.modes import Timing
from perseid.standby.sweeping import FULL_EVERY, Command, Part, Refresh, Refreshes, Trim
from perseid.vocabulary import Epoch, OperatorName, UnitName

A, B, C = UnitName("a"), UnitName("b"), UnitName("c")
CHAIN = {A: frozenset({B}), B: frozenset({C}), C: frozenset[UnitName]()}
OPERATORS = {unit: (OperatorName(f"{unit}1"), OperatorName(f"{unit}2")) for unit in CHAIN}
PAIRS = {A: 1, B: 2, C: 3}


def chain(timing: Timing = "sweeping") -> Refreshes:
    """Three units in a row, each on a host of its own that has a copy."""
    made = Refreshes(500, CHAIN, OPERATORS, timing)
    for unit, pair in PAIRS.items():
        made.deploying(pair, {unit: Epoch(0)}, 0)
        assert made.guarded(pair, Epoch(0), 0) == ()
    return made


def processed(refreshes: Refreshes, epoch: int, now_ms: int) -> list[Command]:
    return [c for unit in CHAIN for c in refreshes.processed(unit, Epoch(epoch), now_ms)]


def parts(commands: Iterable[Command]) -> list[Part]:
    return [command.part for command in commands if isinstance(command, Refresh)]


def arrives(refreshes: Refreshes, command: Command, epoch: int, now_ms: int) -> tuple[Command, ...]:
    assert isinstance(command, Refresh)
    return refreshes.refreshed(command.part, command.number, Epoch(epoch), now_ms)


def test_a_sweep_runs_from_the_last_unit_up_to_the_first() -> None:
    refreshes = chain()
    assert processed(refreshes, 4, 100) == []
    (last,) = refreshes.tick(500)
    assert last == Refresh(Part(3, C), 1, Epoch(0), suspends=False)
    trim_b, middle = arrives(refreshes, last, 4, 510)
    assert (trim_b, parts([middle])) == (Trim(B, Epoch(4)), [Part(2, B)])
    trim_a, first = arrives(refreshes, middle, 4, 520)
    assert (trim_a, parts([first])) == (Trim(A, Epoch(4)), [Part(1, A)])
    assert arrives(refreshes, first, 4, 530) == ()
    assert [refreshes.acknowledged(unit) for unit in CHAIN] == [4, 4, 4]


def test_a_sweep_waits_for_a_moment_without_output_to_send_but_not_for_long() -> None:
    refreshes = chain()
    processed(refreshes, 4, 100)
    assert refreshes.tick(999, frozenset({C})) == (), "in the middle of an epoch"
    assert Part(3, C) in parts(refreshes.tick(1_000, frozenset({C}))), "it has waited for two periods"
    refreshes = chain()
    processed(refreshes, 4, 100)
    (last,) = refreshes.tick(500)
    refreshes.processed(B, Epoch(5), 505)
    assert parts(arrives(refreshes, last, 4, 510)) == [], "its consumer has not processed epoch 5"
    assert parts(refreshes.processed(C, Epoch(5), 600)) == [Part(2, B)]


def test_an_epoch_is_acknowledged_when_processed_and_refreshed() -> None:
    refreshes = chain()
    processed(refreshes, 4, 100)
    assert refreshes.acknowledged(C) == 0
    (last,) = refreshes.tick(500)
    arrives(refreshes, last, 7, 510)  # this host is further than the others
    assert refreshes.acknowledged(C) == 4


def test_the_slowest_copy_of_a_unit_decides() -> None:
    refreshes = chain()
    refreshes.deploying(4, {C: Epoch(0)}, 0)
    refreshes.guarded(4, Epoch(0), 0)
    processed(refreshes, 4, 100)
    one, other = refreshes.tick(500)  # two pairs at once
    assert arrives(refreshes, one, 4, 510) == ()
    assert arrives(refreshes, other, 4, 520)[0] == Trim(B, Epoch(4))


def test_a_unit_without_a_copy_acknowledges_what_it_has_processed() -> None:
    refreshes = chain()
    processed(refreshes, 4, 100)
    trim, refresh = refreshes.unguarded(3, 600)
    assert (trim, parts([refresh])) == (Trim(B, Epoch(4)), [Part(2, B)])


def test_nothing_is_trimmed_that_a_copy_in_the_making_needs() -> None:
    refreshes = chain()
    refreshes.unguarded(3, 0)
    refreshes.deploying(3, {C: Epoch(2)}, 0)
    assert parts(processed(refreshes, 4, 100)) == []
    assert refreshes.acknowledged(C) == 2
    refreshes.guarded(3, Epoch(3), 200)
    assert refreshes.acknowledged(C) == 3


def test_trims_after_every_epoch_do_not_refresh_after_every_epoch() -> None:
    refreshes = chain()
    refreshes.unguarded(3, 0)
    begun = [parts(processed(refreshes, epoch, 100 * epoch)) for epoch in range(1, 4)]
    assert [Part(2, B) in found for found in begun] == [False, False, True]


def test_a_unit_whose_consumer_is_switched_is_refreshed_by_the_timer() -> None:
    refreshes = chain()
    refreshes.paused(3)
    processed(refreshes, 4, 100)
    assert refreshes.tick(999) == ()
    assert parts(refreshes.tick(1_000)) == [Part(1, A), Part(2, B)]


def test_a_pair_whose_copy_works_is_not_refreshed_and_then_in_full() -> None:
    refreshes = chain()
    processed(refreshes, 4, 100)
    (late,) = refreshes.tick(500)
    refreshes.paused(3)
    assert arrives(refreshes, late, 4, 600) == () and refreshes.acknowledged(C) == 0
    begun = [command for command in refreshes.guarded(3, Epoch(2), 1_000) if isinstance(command, Refresh)]
    assert [command.since for command in begun if command.part.unit == C] == [None]


def test_changes_are_sent_since_what_the_copy_has_and_now_and_then_everything() -> None:
    refreshes = chain()
    since = []
    for epoch in range(1, FULL_EVERY + 3):
        now_ms = 500 * epoch
        refreshes.processed(C, Epoch(epoch), now_ms - 1)
        (command,) = refreshes.tick(now_ms)
        assert isinstance(command, Refresh)
        since.append(command.since)
        arrives(refreshes, command, epoch, now_ms)
    assert since == [*range(FULL_EVERY), None, FULL_EVERY + 1]


def test_after_a_failure_everything_is_sent_later() -> None:
    refreshes = chain()
    refreshes.processed(C, Epoch(1), 0)
    (command,) = refreshes.tick(500)
    assert isinstance(command, Refresh)
    assert refreshes.failed(command.part, command.number, 500) == ()
    assert refreshes.tick(999) == ()
    (again,) = refreshes.tick(1_000)
    assert isinstance(again, Refresh) and again.since is None


def test_synchronous_refreshes_stop_the_unit_on_all_its_hosts_at_once() -> None:
    refreshes = chain("synchronous")
    refreshes.deploying(4, {C: Epoch(0)}, 300)
    refreshes.guarded(4, Epoch(0), 300)
    processed(refreshes, 1, 400)
    assert refreshes.tick(499) == ()
    commands = refreshes.tick(500)
    assert parts(commands) == [Part(1, A), Part(2, B), Part(3, C), Part(4, C)]
    assert all(isinstance(command, Refresh) and command.suspends for command in commands)


def test_individual_refreshes_have_a_timer_for_each_operator() -> None:
    refreshes = chain("individual")
    processed(refreshes, 1, 0)
    begun = []
    for now_ms in range(0, 501, 10):
        for command in refreshes.tick(now_ms):
            if isinstance(command, Refresh):
                begun.append((command.part.operator, now_ms))
                arrives(refreshes, command, 1, now_ms)
    assert [operator for operator, _ in begun] == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert len({now_ms for _, now_ms in begun}) == 6


def test_after_the_application_went_back_no_copy_counts() -> None:
    refreshes = chain()
    processed(refreshes, 4, 100)
    refreshes.tick(500)
    refreshes.put_back(dict.fromkeys(CHAIN, Epoch(2)))
    refreshes.check()
    assert refreshes.copies == {} and refreshes.acknowledged(C) == 2


def test_a_copy_that_gets_every_epoch_acknowledges_without_a_refresh() -> None:
    refreshes = Refreshes(500, CHAIN, OPERATORS)
    refreshes.deploying(3, {C: Epoch(0)}, 0)
    refreshes.stood(3, Epoch(0), 0)
    assert parts(refreshes.processed(C, Epoch(4), 100)) == [] and refreshes.acknowledged(C) == 0
    assert refreshes.stood(3, Epoch(3), 200) == (Trim(B, Epoch(3)),)
    assert parts(refreshes.tick(60_000)) == []


def test_a_pair_of_two_units_is_refreshed_one_unit_at_a_time() -> None:
    refreshes = Refreshes(500, CHAIN, OPERATORS)
    refreshes.deploying(1, {B: Epoch(0), C: Epoch(0)}, 0)
    refreshes.guarded(1, Epoch(0), 0)
    processed(refreshes, 4, 100)
    (last,) = refreshes.tick(1_000)
    assert parts([last]) == [Part(1, C)]
    assert parts(arrives(refreshes, last, 4, 1_010)) == [Part(1, B)]


def test_a_refresh_without_a_pair_that_wants_it_is_nobodys() -> None:
    refreshes = chain()
    processed(refreshes, 4, 100)
    (late,) = refreshes.tick(500)
    refreshes.unguarded(3, 510)
    assert arrives(refreshes, late, 9, 600) == ()
    assert isinstance(late, Refresh) and refreshes.failed(late.part, late.number, 600) == ()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["process", "process", "arrive", "arrive", "fail", "pause", "drop", "guard", "wait", "wait"]),
        st.sampled_from(list(CHAIN)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("timing", ["sweeping", "synchronous", "individual"])
@given(steps=STEPS)
def test_whatever_happens_nothing_is_trimmed_too_early_and_every_copy_is_refreshed(
    timing: Timing, steps: list[tuple[str, UnitName]]
) -> None:
    refreshes, now_ms = chain(timing), 0
    done = dict.fromkeys(CHAIN, 0)
    has = dict.fromkeys(refreshes.copies, 0)  # what the copies really have
    underway: dict[int, Refresh] = {}

    def carry_out(commands: Iterable[Command]) -> None:
        refreshes.check()
        for command in commands:
            if isinstance(command, Refresh):
                assert command.part.pair not in underway, "two refreshes of one pair"
                assert command.since in (None, has[command.part]), "changes since what the copy does not have"
                underway[command.part.pair] = command
            else:
                there = [e for part, e in has.items() if part.unit in CHAIN[command.unit]]
                assert command.upto <= min([*there, *(done[unit] for unit in CHAIN[command.unit])])

    def arrive(command: Refresh) -> None:
        part, epoch = command.part, Epoch(done[command.part.unit])
        has[part] = epoch
        carry_out(refreshes.refreshed(part, command.number, epoch, now_ms))

    for what, unit in steps:
        pair = PAIRS[unit]
        guards = [part for part in has if part.pair == pair]
        if what == "process":
            done[unit] += 1
            carry_out(refreshes.processed(unit, Epoch(done[unit]), now_ms))
        elif what in ("arrive", "fail") and pair in underway:
            command = underway.pop(pair)
            if what == "arrive":
                arrive(command)
            else:
                carry_out(refreshes.failed(command.part, command.number, now_ms))
        elif what == "pause" and guards:
            underway.pop(pair, None)
            refreshes.paused(pair)
        elif what == "drop":
            underway.pop(pair, None)
            has = {part: epoch for part, epoch in has.items() if part.pair != pair}
            carry_out(refreshes.unguarded(pair, now_ms))
        elif what == "guard":
            if not guards:
                refreshes.deploying(pair, {unit: Epoch(done[unit])}, now_ms)
                has |= {part: done[unit] for part in refreshes.copies if part.pair == pair}
            carry_out(refreshes.guarded(pair, Epoch(0), now_ms))
        elif what == "wait":
            now_ms += 130
            carry_out(refreshes.tick(now_ms))
    for unit, pair in PAIRS.items():
        if any(part.pair == pair for part in has):
            carry_out(refreshes.guarded(pair, Epoch(0), now_ms))
        done[unit] = 100
        carry_out(refreshes.processed(unit, Epoch(100), now_ms))
    for _ in range(40):
        now_ms += 250
        carry_out(refreshes.tick(now_ms))
        for pair in list(underway):
            arrive(underway.pop(pair))
    assert set(has.values()) <= {100} and {refreshes.acknowledged(unit) for unit in CHAIN} == {100}
