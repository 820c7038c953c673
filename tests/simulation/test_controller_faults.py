"""The controller when things fail in awkward ways: rows put aside, units that wait for others, storage that stays full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import TestWorld, calm, kill_all

from perseid.checkpoint.schemes import parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.notices import Outcome
from perseid.engine.settings import RootHistory
from perseid.errors import PropertyBroken
from perseid.simulation.faults import FaultPlan, Planned, Storage
from perseid.simulation.graphs import chain
from perseid.simulation.jobs import JobFailed
from perseid.simulation.root import Snapshot, checkpoint_of
from perseid.simulation.scenario import Scenario, Times
from perseid.simulation.site import Site
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName

BAD = ShardId(OperatorName("o0"), 0)


def test_rows_put_aside_are_left_out_of_every_replay() -> None:
    scenario = calm(chain(1), epochs=30, scheme=parallel(600), dead_letters=True)

    def spoil(command: do.RunEpoch) -> JobFailed | None:
        return JobFailed("operator", "boom", (), (BAD,)) if command.epoch == 7 and not command.set_aside else None

    world = TestWorld(scenario, spoil=spoil)
    killed: list[HostId] = []

    def kill_after_epoch_nine() -> None:
        if world.controller.pipeline.units["u0"].finished < 9:
            world.clock.after(20, kill_after_epoch_nine)
        else:
            killed.append(world.controller.routing.host_of(BAD))
            world.kill(killed[0])

    world.later(20, kill_after_epoch_nine)
    world.to_the_end()
    assert killed
    run = next(c for c in world.all_of(do.RunEpoch) if c.epoch == 7 and c.set_aside)
    assert run.set_aside == {BAD.operator} and run.find
    replays = [c for c in world.all_of(do.ReplayShards) if c.first <= 7 <= c.last]
    assert replays and all(c.set_aside == {7: frozenset({BAD.operator})} for c in replays)


def test_what_was_put_aside_before_a_restart_stays_aside() -> None:
    scenario = calm(chain(1), epochs=10)
    past = RootHistory(admitted=Epoch(3), set_aside={(UnitName("u0"), Epoch(2)): frozenset({BAD.operator})})
    controller, commands = running(scenario, past)
    aside: dict[int, Any] = {}
    while len(aside) < 3:
        run = next(c for c in commands if isinstance(c, do.RunEpoch))
        aside[run.epoch] = run.set_aside
        commands = controller.handle(on.UnitFinished(run.unit, run.epoch, run.attempt), 2)
    assert aside == {1: frozenset(), 2: {BAD.operator}, 3: frozenset()}


def test_an_operator_that_raises_with_its_rows_put_aside_stops_the_application() -> None:
    """Nothing is left to put aside: to go on trying would never end."""
    scenario = calm(chain(1), epochs=30, dead_letters=True)
    world = TestWorld(scenario, spoil=lambda c: JobFailed("operator", "boom", (), (BAD,)) if c.epoch == 7 else None)
    with pytest.raises(PropertyBroken, match="boom"):
        world.to_the_end()
    assert world.controller.phase == "failed" and world.controller.error == "boom"
    assert [bool(c.set_aside) for c in world.all_of(do.RunEpoch) if c.epoch == 7] == [False, False, False, True]


def test_a_host_whose_heart_beats_but_that_no_task_can_reach_is_given_up() -> None:
    world = TestWorld(
        calm(chain(1), epochs=20),
        spoil=lambda c: JobFailed("host", "no way", (HostId(1),)) if c.routing.host_of(BAD) == 1 else None,
    ).to_the_end()
    assert HostId(1) in {c.host for c in world.all_of(do.DropHost)}


def test_full_storage_is_waited_for_a_minute_before_the_application_stops() -> None:
    full = [0]
    world = TestWorld(calm(chain(1), epochs=20))

    def spoil(command: do.RunEpoch) -> JobFailed | None:
        full[0] = full[0] or (world.clock.now_ms if command.epoch == 5 else 0)
        is_full = command.epoch == 5 and world.clock.now_ms < full[0] + 45_000
        return JobFailed("storage", "full") if is_full else None

    world.spoil = spoil
    world.to_the_end()

    world = TestWorld(calm(chain(1), epochs=20), spoil=lambda c: JobFailed("storage", "full") if c.epoch == 5 else None)
    assert world.failing() == "full" and world.clock.now_ms > 50_000


def test_storage_that_is_away_is_waited_for_as_long_however_many_operators_come_back_divided() -> None:
    topology = chain(9, shards=1, preservation="durable")
    plan = FaultPlan((Planned(Storage("failing", 20_000), 1_560),))
    settings: dict[str, Any] = {
        "hosts": 3,
        "most_hosts": 8,
        "parallel_recovery": 2,
        "scalable": frozenset(topology.operators),
    }
    scenario = replace(
        calm(topology, epochs=200, scheme=parallel(60.0), plan=plan, **settings), site=Site(12, rack_machines=2)
    )
    world = TestWorld(scenario)
    world.later(1_500, lambda: kill_all(world))
    world.to_the_end()
    tries = [command.operator for command in world.all_of(do.WritePartition)]
    assert len(set(tries)) == 9 and len(tries) > 2 * 9


def test_a_last_checkpoint_that_cannot_be_written_does_not_hold_up_the_end_for_ever() -> None:
    controller, commands = running(calm(chain(1)))
    assert do.AdmitEpoch(Epoch(1)) in commands
    (run,) = [c for c in controller.handle(on.EpochAdmitted(Epoch(1)), 2) if isinstance(c, do.RunEpoch)]
    controller.handle(on.UnitFinished(run.unit, run.epoch, run.attempt), 3)
    commands = controller.handle(on.NothingToAdmit(finished=True), 4)
    tried = 0
    while taken := [c for c in commands if isinstance(c, do.TakeSnapshots)]:
        tried += 1
        commands = controller.handle(on.CheckpointFailed(taken[0].checkpoint, "full"), 5)
    assert tried == 3 and do.StopApplication(None, unsaved="full") in commands, "and says what was not saved"


def running(scenario: Scenario, past: RootHistory | None = None) -> tuple[Controller, tuple[Outcome, ...]]:
    """A controller whose two hosts have all their shards; what it commanded last."""
    controller = Controller(scenario.topology, scenario.settings, past or RootHistory(), 0)
    for host in (1, 2):
        controller.handle(on.HostRegistered(HostId(host)), 0)
    for host in (1, 2):
        commands = controller.handle(on.ShardsRestored(HostId(host), controller.routing.version), 1)
    return controller, commands


def test_an_epoch_between_units_is_saved_only_when_it_is_there() -> None:
    saved = 0
    for seed in range(20):
        world = TestWorld(calm(chain(3), epochs=40, seed=seed, scheme=parallel(0.2))).to_the_end()
        assert not world.all_of(on.CheckpointFailed), "an epoch was to be saved that was not there"
        saved += len(world.all_of(do.SaveInflight))
    assert saved > 0


def test_a_unit_is_fed_again_only_after_those_above_it() -> None:
    world = TestWorld(calm(chain(3, preservation="retained"), epochs=60, hosts=2, spares=1))
    world.later(2000, lambda: kill_all(world))
    world.to_the_end()
    running: set[UnitName] = set()
    for entry in world.all_of(do.ReplayShards, on.ReplayFinished, on.UnitFailed):
        if isinstance(entry, do.ReplayShards):
            assert not running & world.topology.above(entry.unit)
            running.add(entry.unit)
        else:
            running.discard(entry.unit)


def test_a_restore_waits_for_storage_that_is_out_of_reach() -> None:
    plan = FaultPlan((Planned(Storage("failing", 20_000), 1800),))
    world = TestWorld(calm(chain(1), epochs=60, plan=plan))
    world.later(1810, lambda: kill_all(world))
    world.to_the_end()
    assert [e for e in world.all_of(on.RestoreFailed) if e.storage], "restores were tried while it was away"


def test_a_restore_that_fails_otherwise_stops_the_application_at_once() -> None:
    scenario = calm(chain(1))
    controller = Controller(scenario.topology, scenario.settings, RootHistory(), 0)
    for host in (1, 2):
        controller.handle(on.HostRegistered(HostId(host)), 0)
    failed = on.RestoreFailed(HostId(1), controller.routing.version, "the class is gone", corrupt=False)
    assert do.StopApplication("the class is gone") in controller.handle(failed, 1)


def test_a_host_that_could_not_take_a_snapshot_is_not_busy_for_good() -> None:
    scenario = calm(chain(1))
    controller = Controller(scenario.topology, scenario.settings, RootHistory(), 0)
    controller.handle(on.HostRegistered(HostId(1)), 0)
    controller.detector.work_began(HostId(1), 0, None)
    controller.handle(on.CheckpointFailed(controller.checkpoints.next_id, "a shard is not there", HostId(1)), 1)
    assert not controller.detector.busy


def test_nothing_is_trimmed_while_a_recovery_is_on_its_way_back_from_an_older_checkpoint() -> None:
    controller, _ = running(calm(chain(1), keep=1, scheme=parallel(0.001)))
    (run,) = [c for c in controller.handle(on.EpochAdmitted(Epoch(1)), 2) if isinstance(c, do.RunEpoch)]
    commands = controller.handle(on.UnitFinished(run.unit, run.epoch, run.attempt), 3)
    taken = [c for c in commands if isinstance(c, do.TakeSnapshots)]
    for command in taken:
        controller.handle(on.SnapshotsForked(command.host, command.checkpoint, command.unit), 4)
        for route in command.shards:
            saved = Snapshot(*route.shard, route.slots, Epoch(1), "", (), 0)
            commands = controller.handle(on.SnapshotWritten(command.checkpoint, route.shard, saved), 5)
    assert [c for c in commands if isinstance(c, do.CommitCheckpoint)]
    controller.handle(on.HostDisconnected(HostId(1), "killed"), 6)
    planned = controller.handle(on.Ticked(), 100)
    (restore,) = [c for c in planned if isinstance(c, do.RestoreShards)]
    assert restore.shards[0][1] == (), "there is no checkpoint yet that it could go back to"
    committed = controller.handle(on.CheckpointCommitted(taken[0].checkpoint), 101)
    assert not [c for c in committed if isinstance(c, do.Trim)]
    commands = controller.handle(on.ShardsRestored(restore.host, restore.version), 102)
    (replay,) = [c for c in commands if isinstance(c, do.ReplayShards)]
    ended = controller.handle(on.ReplayFinished(replay.unit, replay.attempt), 103)
    assert [c for c in ended if isinstance(c, do.Trim)], "now it may go"


@pytest.mark.parametrize("kill_ms", range(1000, 3000, 250))
def test_a_snapshot_written_after_its_checkpoint_was_given_up_does_not_stay(kill_ms: int) -> None:
    """A host is killed while all save; the children of the others write on, into a folder that was deleted."""
    times = Times(snapshot=(150, 400))
    world = TestWorld(replace(calm(chain(1, shards=4), epochs=200, hosts=3), times=times))
    world.later(kill_ms, lambda: world.kill(world.controller.routing.of(OperatorName("o0"))[0].host))
    world.to_the_end()
    kept = set(map(checkpoint_of, world.root.files))
    assert kept <= world.root.manifests.keys(), "files of a checkpoint that is none"
