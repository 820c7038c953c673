"""Policies that look at nothing but the time: the fixed period, the units' own periods, the recorded minima."""

from __future__ import annotations

import pytest

from perseid.checkpoint.baseline import Independent
from perseid.checkpoint.oracle import Oracle, RecordedSize, Recording
from perseid.checkpoint.policy import Decision, FixedPeriod, Reason, Standing
from perseid.checkpoint.schemes import oracle
from perseid.errors import SettingsError
from perseid.vocabulary import Epoch, UnitName

A, B = UnitName("a"), UnitName("b")


def standing(now_ms: int, *moved: UnitName, epoch: int = 0) -> Standing:
    return Standing(now_ms, frozenset(moved), Epoch(epoch))


def test_a_checkpoint_is_due_one_period_after_the_last_began() -> None:
    policy = FixedPeriod(10_000, 0)
    assert policy.decide(standing(9_999, A)) is None
    assert policy.decide(standing(10_000)) is None, "nothing new"
    decision = policy.decide(standing(10_000, A))
    assert decision == Decision(Reason.PERIOD)
    policy.started(decision, 10_000)
    assert policy.decide(standing(19_999, A)) is None
    policy.check()


def test_every_unit_draws_its_own_first_time_and_keeps_the_common_period() -> None:
    policy = Independent.made({A: 200_000, B: 200_000}, 7, 0)
    assert policy.due_ms == Independent.made({A: 200_000, B: 200_000}, 7, 0).due_ms, "the same for the same seed"
    assert policy.due_ms != Independent.made({A: 200_000, B: 200_000}, 8, 0).due_ms
    assert policy.due_ms[A] != policy.due_ms[B]
    assert all(0 <= at_ms < 200_000 for at_ms in policy.due_ms.values())
    first = dict(policy.due_ms)
    taken: dict[UnitName, list[int]] = {A: [], B: []}
    for now_ms in range(0, 1_000_000, 100):
        while (decision := policy.decide(standing(now_ms, A, B))) is not None:
            assert decision.reason is Reason.OWN_PERIOD and decision.units is not None
            (unit,) = decision.units
            taken[unit].append(now_ms)
            policy.started(decision, now_ms)
    for unit, times in taken.items():
        assert len(times) == 5
        assert all(0 <= at_ms - (first[unit] + 200_000 * n) < 100 for n, at_ms in enumerate(times))


def test_a_unit_that_has_nothing_new_is_passed_over() -> None:
    policy = Independent({A: 1_000, B: 1_000}, {A: 0, B: 10})
    decision = policy.decide(standing(50, B))
    assert decision is not None and decision.units == {B}


def test_a_missed_period_is_not_made_up_for() -> None:
    policy = Independent({A: 1_000}, {A: 100})
    decision = policy.decide(standing(3_500, A))
    assert decision is not None
    policy.started(decision, 3_500)
    assert policy.due_ms == {A: 4_100}


RECORDED = Recording.of([(0, 90), (3, 20), (9, 70), (11, 60), (18, 10), (21, 50)])


def test_the_smallest_state_of_each_period() -> None:
    assert [(m.at_ms, m.bytes) for m in RECORDED.minima(10_000)] == [(3_000, 20), (18_000, 10), (21_000, 50)]


def test_the_oracle_checkpoints_at_the_minima_and_then_at_the_end_of_periods() -> None:
    policy = Oracle.made(RECORDED, 10_000, 0)
    policy.begin(1_000)
    taken = []
    for now_ms in range(1_000, 60_000, 250):
        decision = policy.decide(standing(now_ms, A))
        if decision is not None:
            taken.append((now_ms - 1_000, decision.reason))
            policy.started(decision, now_ms)
            policy.check()
    recorded = [at_ms for at_ms, reason in taken if reason is Reason.RECORDED]
    assert recorded == [3_000, 18_000, 21_000]
    assert [at_ms for at_ms, reason in taken if reason is Reason.UNRECORDED] == [31_000, 41_000, 51_000]


def test_a_recording_of_epochs_is_followed_by_epochs() -> None:
    sizes = [(1, 100), (2, 10), (3, 80), (4, 90), (5, 30), (6, 70)]
    records = [
        {"kind": "epoch_committed", "at_ms": 5_000 + 1_000 * e, "ms": 1_000, "epoch": e, "state_bytes": b}
        for e, b in sizes
    ]
    recording = Recording.from_journal([{"kind": "app_started", "at_ms": 0}, *records])
    assert recording.sizes[0] == RecordedSize(1_000, 100, Epoch(1))
    policy = Oracle.made(recording, 4_000, 0)
    policy.begin(0)
    taken = []
    for epoch in range(1, 7):
        decision = policy.decide(standing(100 * epoch, A, epoch=epoch))
        if decision is not None:
            policy.started(decision, 100 * epoch)
            taken.append(epoch)
    assert taken == [2, 5]


@pytest.mark.parametrize("wrong", [[], 7, [1, 2], "abc", [("x", 1)]])
def test_a_recording_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(SettingsError, match="recording"):
        oracle(wrong)
