"""Figures 10 and 11 of the Meteor Shower paper, number by number (M5f).

The text of the paper gives: all sizes of HAU1 in figure 10; of figure 11 the sizes and rates at t2 and t4, the summed rate at t6,
and when alert mode begins (t2, t6, t10) and checkpoints happen (t4, t6, t12). The other points of the curves are in the drawings
alone; here they are chosen so that every number of the text comes out. A unit of time is a second.
"""

from __future__ import annotations

import pytest
from curves import adaptive, drive, polyline, shard

from perseid.checkpoint.adaptive import Adaptive
from perseid.checkpoint.policy import Decision, Reason, Standing
from perseid.checkpoint.profile import Profile, SizeFunction, profile
from perseid.checkpoint.size_reports import (
    AskSizes,
    Observed,
    Quieten,
    ShardSize,
    SizeHalved,
    SizePoint,
    SizesReported,
    SizeTurned,
)
from perseid.checkpoint.size_watch import SizeWatch
from perseid.checkpoint.turning_points import TurningPoints
from perseid.vocabulary import Epoch, HostId, UnitName

HAU1, HAU2 = shard(1), shard(2)


def at(second: float, size: int) -> SizePoint:
    return SizePoint(round(second * 1000), size)


# -- figure 10 --------------------------------------------------------------------------------------------------------

FIGURE_10_HAU1 = (100, 150, 200, 250, 200, 150, 100, 150)  # t0 … t7


def test_figure_10_turning_points_of_hau1_are_250_at_t3_and_100_at_t6() -> None:
    turning = TurningPoints()
    found = [turning.sized(1000 * t, size) for t, size in enumerate(FIGURE_10_HAU1)]
    assert [(t, turned.kind, turned.point) for t, turned in enumerate(found) if turned is not None] == [
        (4, "maximum", at(3, 250)),  # known one size later
        (7, "minimum", at(6, 100)),
    ]
    assert turning.rate == 50
    turning.check()


def test_figure_10_sizes_between_turning_points_are_interpolated() -> None:
    line = SizeFunction((at(0, 100), at(3, 250), at(6, 100), at(7, 150)))
    assert [line.at(1000 * t) for t in range(8)] == list(FIGURE_10_HAU1)


def test_figure_10_the_total_is_the_sum_and_each_period_has_its_best_moment() -> None:
    """HAU2 is ours: 150 falling to 50 at t2, 170 at t5, 40 at t8, and so on."""
    hau1 = [at(0, 100), at(3, 250), at(6, 100), at(9, 250), at(12, 130)]
    hau2 = [at(0, 150), at(2, 50), at(5, 170), at(8, 40), at(10, 50), at(12, 100)]
    total = SizeFunction.summed([hau1, hau2])
    assert [(p.at_ms // 1000, p.bytes) for p in total.points] == [
        (0, 250), (2, 250), (3, 340), (5, 320), (6, 227), (8, 240), (9, 295), (10, 260), (12, 230),
    ]  # fmt: skip
    assert total.minima(0, 4000) == (at(0, 250), at(6, 227), at(11.999, 230))


def test_figure_10_s_max_is_the_highest_and_s_min_the_lowest_of_the_minima() -> None:
    line = (at(0, 400), at(2, 200), at(4, 400), at(6, 300), at(8, 500), at(10, 240), at(12, 400))
    seen = {HAU1: Observed(lowest=0, mean=300, samples=13, points=line)}
    found = profile(seen, 0, 4000)
    assert [p.bytes for p in found.minima] == [200, 300, 240]
    assert (found.s_min, found.s_max) == (200, 300)
    assert found.relaxation == pytest.approx(0.5)
    found.check()


def test_figure_10_the_relaxation_is_at_least_a_fifth_of_s_min() -> None:
    line = (at(0, 400), at(2, 200), at(4, 400), at(6, 210), at(8, 400))
    found = profile({HAU1: Observed(0, 300, 9, line)}, 0, 4000)
    assert (found.s_min, found.s_max) == (200, 240)
    assert found.relaxation == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("lowest", "mean", "dynamic"), [(49, 100.0, True), (50, 100.0, False), (0, 1.0, True), (0, 0.0, False)]
)
def test_dynamic_is_whose_minimum_is_less_than_half_of_its_average(lowest: int, mean: float, dynamic: bool) -> None:
    assert Observed(lowest, mean, 10, ()).dynamic is dynamic


def test_only_dynamic_shards_count() -> None:
    line = (at(0, 400), at(2, 200), at(4, 400))
    flat = (at(0, 1_000_000), at(4, 1_000_000))
    found = profile({HAU1: Observed(100, 300, 5, line), HAU2: Observed(1_000_000, 1e6, 5, flat)}, 0, 4000)
    assert found.dynamic == {HAU1} and found.s_min == 200


# -- figure 11 --------------------------------------------------------------------------------------------------------

S_MAX = 250
FIGURE_11_HAU1 = polyline((0, 240), (4, 40), (5, 100), (8, 40), (12, 160), (15, 250))
FIGURE_11_HAU2 = polyline(
    (0, 150), (1, 260), (2, 100), (5, 190), (6, 80), (7, 132.5), (8, 30), (9, 180), (12, 30), (15, 210)
)


class Controller:
    """The controller's side alone: what HAUs say is said here."""

    def __init__(self) -> None:
        self.policy = Adaptive(5000, frozenset({HAU1, HAU2}), 0)
        self.policy.begin(0)
        self.policy.profile = Profile(frozenset({HAU1, HAU2}), (at(0, 200), at(5, 250)), 200, S_MAX)
        self.policy.covered = True
        self.policy.begins_ms = -5000

    def decide(self, second: float) -> Decision | None:
        self.policy.check()
        return self.policy.decide(Standing(round(second * 1000), frozenset({UnitName("u")}), Epoch(1)))

    def answer(
        self, second: float, commands: tuple[object, ...], hau1: tuple[int, float], hau2: tuple[int, float]
    ) -> None:
        (ask,) = [c for c in commands if isinstance(c, AskSizes)]
        assert ask.watch and ask.shards == {HAU1, HAU2}
        sizes = (ShardSize(HAU1, *hau1), ShardSize(HAU2, *hau2))
        self.commands = self.policy.take_in(SizesReported(HostId(1), ask.query, sizes), round(second * 1000))


def test_figure_11_number_by_number() -> None:
    c = Controller()
    # The first period. At t0 the total is larger than s_max.
    c.answer(0, c.policy.advance(0), (240, -50), (150, 110))
    assert not c.policy.alerted and c.commands == (Quieten(),)
    assert c.decide(1) is None
    # t2: HAU2 has fallen by more than half, from p1 to p2. The total at p4 is below s_max: alert mode.
    c.answer(2, c.policy.take_in(SizeHalved(HAU2, 260, 100), 2000), (140, -50), (100, 30))
    assert c.policy.alerted and c.policy.alert is not None
    assert c.policy.alert.total == 240
    assert c.policy.alert.rate == -20, "the state will shrink further: not the best time"
    assert c.decide(2) is None and c.decide(3) is None
    # t4: HAU1 turns at p5. The aggregated rate is 90: checkpoint, and alert mode is dismissed.
    c.policy.take_in(SizeTurned(HAU1, 40, 60), 4000)
    assert c.policy.alert.rate == 90
    decision = c.decide(4)
    assert decision == Decision(Reason.MINIMUM, None, {"bytes": 140, "threshold": S_MAX, "low": 0, "rate": 90})
    assert Quieten() in c.policy.started(decision, 4000)
    assert not c.policy.alerted and c.decide(4.5) is None
    # The second period begins at t5, above s_max.
    c.answer(5, c.policy.advance(5000), (100, 60), (190, 30))
    assert not c.policy.alerted
    # t6: HAU2 has halved again; the aggregated rate is 32.5 already.
    c.answer(6, c.policy.take_in(SizeHalved(HAU2, 190, 80), 6000), (80, -20), (80, 52.5))
    assert c.policy.alert is not None and c.policy.alert.rate == 32.5
    decision = c.decide(6)
    assert decision is not None and decision.reason is Reason.MINIMUM
    c.policy.started(decision, 6000)
    # p8 would have been better: only the first local minimum is found.
    assert c.policy.take_in(SizeHalved(HAU2, 132, 30), 8000) == ()
    assert c.decide(8) is None
    # The third period begins below s_max: alert mode at t10, checkpoint at t12.
    c.answer(10, c.policy.advance(10_000), (100, 30), (130, -50))
    assert c.policy.alerted and c.decide(10) is None and c.decide(11) is None
    c.policy.take_in(SizeTurned(HAU2, 30, 60), 12_000)
    decision = c.decide(12)
    assert decision is not None and decision.reason is Reason.MINIMUM and decision.facts["rate"] == 90


def test_figure_11_the_haus_say_what_the_paper_says_they_say() -> None:
    """The operators' side: sizes ten times a unit of time, so that what is known shortly after t2 is known at t2.1."""
    one, two = SizeWatch(HAU1), SizeWatch(HAU2)
    for watch in (one, two):
        watch.answer(AskSizes(1))
    said = []
    for tenth in range(0, 22):
        said += [(tenth, n) for n in one.sized(100 * tenth, round(10 * FIGURE_11_HAU1(100 * tenth)))]
        said += [(tenth, n) for n in two.sized(100 * tenth, round(10 * FIGURE_11_HAU2(100 * tenth)))]
    assert said == [(21, SizeHalved(HAU2, 2600, 1000))], "silent but for HAU2, which tells that it has halved"
    assert one.answer(AskSizes(2, watch=True)) == ShardSize(HAU1, 1350, -500)
    assert two.answer(AskSizes(2, watch=True)) == ShardSize(HAU2, 1030, 300)
    said = []
    for tenth in range(22, 43):
        said += [(tenth, n) for n in one.sized(100 * tenth, round(10 * FIGURE_11_HAU1(100 * tenth)))]
        said += [(tenth, n) for n in two.sized(100 * tenth, round(10 * FIGURE_11_HAU2(100 * tenth)))]
    assert said == [(41, SizeTurned(HAU1, 460, 600))], "in alert mode HAU1 tells of its turn at t4"


def test_figure_11_both_sides_together() -> None:
    curves = [FIGURE_11_HAU1, FIGURE_11_HAU2]
    policy = adaptive(curves, 5000)
    both = frozenset({shard(0), shard(1)})
    policy.begin(0)
    policy.profile = Profile(both, (at(0, 200),), 200, S_MAX)
    policy.begins_ms, policy.covered = -5000, True
    policy.profile_periods = 100
    run = drive(policy, curves, 15_000, epoch_ms=100)
    assert [round(now_ms / 1000, 1) for now_ms, _, _ in run.taken] == [4.1, 6.1, 12.1], "t4, t6, t12, and the lag"
    assert {d.reason for _, d, _ in run.taken} == {Reason.MINIMUM}
    assert [round(now_ms / 1000, 1) for now_ms, note in run.notes if note.kind == "alert_began"] == [2.1, 6.1, 10.0]
