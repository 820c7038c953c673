"""Adaptive, oracle and baseline in simulated worlds: when they checkpoint, who waits, and what is restored."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest
from worlds import TestWorld, calm

from perseid.checkpoint.adaptive import Adaptive
from perseid.checkpoint.policy import Reason
from perseid.checkpoint.schemes import Scheme, adaptive, baseline, parallel, source, source_replay, upstream_backup
from perseid.checkpoint.size_reports import AskSizes, Quieten
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.graph.topology import Topology
from perseid.recovery.plan import ShardRecovery
from perseid.simulation.faults import Driver, FaultPlan, Planned
from perseid.simulation.graphs import chain
from perseid.simulation.runs import simulate, simulate_seeds
from perseid.simulation.scenario import Options, drawn
from perseid.vocabulary import OperatorName, ShardId, UnitName

THREE_UNITS = chain(3, shards=1)


def world_of(topology: Topology, scheme: Scheme, *, epochs: int, plan: FaultPlan | None = None) -> TestWorld:
    return TestWorld(calm(scheme.preserved(topology), scheme=scheme, epochs=epochs, hosts=3, plan=plan))


SCHEMES = ["adaptive", "baseline", "oracle", "upstream_backup", "source_replay"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_survives_its_seeds(scheme: str, first_seed: int) -> None:
    options = Options(epochs=60, scheme=scheme)
    for outcome in simulate_seeds(range(first_seed, first_seed + 15), options):
        assert outcome.broken is None, (
            f"{outcome.broken}: perseid simulate --seeds 1 --first {outcome.seed} --epochs 60 --scheme {scheme}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
@pytest.mark.parametrize("scheme", ["source", "parallel", *SCHEMES])
def test_every_scheme_survives_a_thousand_seeds(scheme: str, batch: int, first_seed: int) -> None:
    options = Options(epochs=60, scheme=scheme)
    first = first_seed + 50_000 + 250 * batch
    for outcome in simulate_seeds(range(first, first + 250), options):
        assert outcome.broken is None, (
            f"{outcome.broken}: perseid simulate --seeds 1 --first {outcome.seed} --epochs 60 --scheme {scheme}"
        )


MIXED = {
    "one unit stops": (parallel(0.5), {"u1": source()}),
    "the first unit stops": (adaptive(0.5, profile_periods=2), {"u0": source()}),
    "all but one stop": (source(0.5), {"u1": parallel()}),
    "all but the first stop": (source(0.5), {"u0": parallel()}),
    "periods of their own": (baseline(1.0), {"u0": baseline(0.2), "u2": baseline(2.5)}),
}


@pytest.mark.parametrize("mix", MIXED)
def test_units_with_schemes_of_their_own_survive_their_seeds(mix: str, first_seed: int) -> None:
    scheme, own = MIXED[mix]
    for seed in range(first_seed, first_seed + 15):
        scenario = drawn(seed, Options(epochs=60, scheme=scheme.name))
        units = {unit.name for unit in scenario.topology.units}
        settings = dataclasses.replace(
            scenario.settings, scheme=scheme, unit_schemes={UnitName(u): s for u, s in own.items() if u in units}
        )
        outcome = simulate(dataclasses.replace(scenario, settings=settings))
        assert outcome.broken is None, f"{mix}, seed {seed}: {outcome.broken}"


@pytest.mark.parametrize(("mix", "stopped"), [("one unit stops", {"u1"}), ("all but one stop", {"u0", "u2"})])
def test_a_unit_stops_for_its_snapshots_if_its_own_scheme_says_so(mix: str, stopped: set[str]) -> None:
    scheme, own = MIXED[mix]
    settings: dict[str, Any] = {"unit_schemes": {UnitName(unit): each for unit, each in own.items()}}
    world = TestWorld(calm(THREE_UNITS, scheme=scheme, epochs=60, hosts=3, **settings)).to_the_end()
    taken = world.all_of(do.TakeSnapshots)
    assert {c.unit for c in taken if c.synchronous} == stopped
    assert {c.unit for c in taken if not c.synchronous} == {"u0", "u1", "u2"} - stopped


def test_units_of_baseline_are_checkpointed_at_their_own_periods() -> None:
    scheme, own = MIXED["periods of their own"]
    settings: dict[str, Any] = {"unit_schemes": {UnitName(unit): each for unit, each in own.items()}}
    topology = scheme.preserved(THREE_UNITS)
    world = TestWorld(calm(topology, scheme=scheme, epochs=200, hosts=3, **settings)).to_the_end()
    began = [c.decision for c in world.all_of(notices.CheckpointDecided) if c.decision.reason is Reason.OWN_PERIOD]
    count = {unit: sum(unit in (d.units or ()) for d in began) for unit in ("u0", "u1", "u2")}
    assert count["u0"] > count["u1"] > count["u2"] > 0


def test_adaptive_finds_small_moments() -> None:
    world = world_of(chain(1), adaptive(1.0, profile_periods=2), epochs=1200).to_the_end()
    reasons = [c.decision.reason for c in world.all_of(notices.CheckpointDecided)]
    assert reasons.count(Reason.MINIMUM) > len(reasons) / 3, reasons


def test_no_source_goes_on_while_shards_are_asked_whether_a_fall_is_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the checkpoint would lie an epoch behind the moment it was decided for. (Where a period begins nobody waits for the answers.)"""
    begun_ms: set[int] = set()
    next_period = Adaptive._next_period

    def noted(self: Adaptive, now_ms: int) -> Any:
        begun_ms.add(now_ms)
        return next_period(self, now_ms)

    monkeypatch.setattr(Adaptive, "_next_period", noted)
    scheme = adaptive(1.0, profile_periods=2)
    asked_in_all = 0
    for seed in range(8):
        begun_ms.clear()
        world = TestWorld(calm(chain(1, shards=3), scheme=scheme, epochs=200, hosts=3, seed=seed)).to_the_end()
        waiting: set[ShardId] = set()
        pending = False  # then there is nothing to decide
        for (_, _, before), (now_ms, _, entry) in pairwise(world.log):
            match entry:
                case AskSizes() if now_ms in begun_ms:
                    waiting = set()
                case AskSizes(shards=frozenset(shards)) if isinstance(before, on.SizeHalved | on.SizeTurned):
                    waiting, asked_in_all = set(shards), asked_in_all + 1
                case on.SizesReported(_, _, sizes):
                    waiting -= {size.shard for size in sizes}
                case notices.CheckpointDecided() | on.CheckpointCommitted():
                    waiting, pending = set(), isinstance(entry, notices.CheckpointDecided)
                case Quieten():
                    waiting = set()
                case do.RunEpoch():
                    assert pending or not waiting
    assert asked_in_all > 50


def test_a_period_shorter_than_an_epoch_is_noted_once() -> None:
    world = world_of(chain(1), parallel(0.005), epochs=30).to_the_end()
    notes = world.all_of(notices.PeriodTooShort)
    assert len(notes) == 1
    assert notes[0].period_ms == 5


def test_under_baseline_a_unit_checkpoints_alone_and_is_restored_alone() -> None:
    world = world_of(THREE_UNITS, baseline(0.5, seed=3), epochs=150)
    world.later(3000, lambda: world.kill(world.controller.routing.host_of(ShardId(OperatorName("o1"), 0))))
    world.to_the_end()
    assert all(
        c.decision.units is not None and len(c.decision.units) == 1 for c in world.all_of(notices.CheckpointDecided)
    )
    plans = [c.plan for c in world.all_of(notices.RecoveryStarted)]
    assert isinstance(plans[1], ShardRecovery) and set(plans[1].base) == {"u1"}
    assert plans[1].base[UnitName("u1")] > 0, "from its own snapshot"


def test_under_baseline_only_the_unit_that_is_saved_waits() -> None:
    world = world_of(chain(2, shards=1), baseline(0.5, seed=3), epochs=100).to_the_end()
    snapshots = world.all_of(do.TakeSnapshots)
    assert snapshots and all(c.synchronous for c in snapshots)
    ran_beside = 0
    saving: str | None = None
    for _, _, entry in world.log:
        match entry:
            case do.TakeSnapshots(_, _, unit):
                saving = unit
            case do.RunEpoch(unit) if saving is not None:
                assert unit != saving
                ran_beside += 1
            case on.SnapshotsForked():
                saving = None
    assert ran_beside > 0


def test_under_baseline_old_checkpoints_go_also_when_drivers_die() -> None:
    plan = FaultPlan(tuple(Planned(Driver(300), 2_500 * n) for n in range(1, 6)))
    world = world_of(THREE_UNITS, baseline(0.2, seed=3), epochs=500, plan=plan).to_the_end()
    assert world.tally.drivers == 6 and world.tally.checkpoints > 60
    assert len(world.root.manifests) < 30


@pytest.mark.parametrize("other", [parallel(0.4), source(0.4), adaptive(0.4)])
def test_a_root_may_change_between_baseline_and_a_coordinated_scheme(other: Scheme) -> None:
    alone = baseline(0.4, seed=5)
    plan = FaultPlan(tuple(Planned(Driver(300), 2_000 * n) for n in range(1, 5)))
    world = world_of(THREE_UNITS, alone, epochs=300, plan=plan)

    def change() -> None:
        now = other if world.tally.drivers % 2 else alone
        world.scenario = dataclasses.replace(
            world.scenario, settings=dataclasses.replace(world.scenario.settings, scheme=now)
        )

    for n in range(1, 5):
        world.later(2_000 * n + 1, change)
    world.to_the_end()
    assert world.tally.drivers == 5
    assert len({c.scheme for c in world.all_of(do.CommitCheckpoint)}) == 2


@pytest.mark.parametrize(("scheme", "mode"), [(upstream_backup(), "shards"), (source_replay(), "application")])
def test_without_checkpoints_what_was_lost_is_made_again_of_its_input(scheme: Scheme, mode: str) -> None:
    world = world_of(THREE_UNITS, scheme, epochs=100)
    world.later(1_500, lambda: world.kill(world.controller.routing.of(OperatorName("o1"))[0].host))
    world.to_the_end()
    plan = world.all_of(notices.RecoveryStarted)[-1].plan
    assert (plan.name, plan.checkpoint) == (mode, None)
    assert all(parts == () for parts in plan.shards.values())
    assert [c.decision.reason for c in world.all_of(notices.CheckpointDecided)] == [Reason.FINAL]
