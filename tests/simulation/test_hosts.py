"""Simulated hosts are real hosts' machines: what they cannot do they say, and what they keep for one another is used."""

from __future__ import annotations

from worlds import TestWorld, calm

from perseid.checkpoint.schemes import parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.messages import ShardToSave, Snapshot
from perseid.simulation.faults import FaultPlan, Kill, Planned
from perseid.simulation.graphs import chain
from perseid.simulation.scenario import Options, drawn
from perseid.simulation.site import Target
from perseid.simulation.world import World
from perseid.storage import layout
from perseid.vocabulary import SLOTS, OperatorName, ShardId


def test_a_snapshot_of_a_shard_that_is_not_there_fails_the_checkpoint_and_the_host_lives() -> None:
    class Confused(TestWorld):
        """Once, a host is told to save a shard that it does not hold."""

        told = False

        def snapshots_commanded(self, command: do.TakeSnapshots) -> None:
            if not self.told and command.checkpoint == 2 and self.driver is not None:
                self.told = True
                wrong = ShardToSave(ShardId(OperatorName("o0"), 99), (0, SLOTS), layout.snapshot(2, "o0", 99))  # type: ignore[arg-type]
                message = Snapshot(command.checkpoint, command.unit, command.epoch, (wrong,), command.synchronous)
                self.driver.hosts.send(command.host, message)

    world = Confused(calm(chain(1), epochs=60, scheme=parallel(0.3))).to_the_end()
    failed = [event for event in world.all_of(on.CheckpointFailed) if event.checkpoint == 2]
    assert failed and "shard o0/99 cannot be saved" in failed[0].message and "not on this host" in failed[0].message
    assert not world.all_of(on.HostDisconnected), "no host was lost by it"
    assert max(event.checkpoint for event in world.all_of(on.CheckpointCommitted)) > 2


def test_a_shard_comes_back_from_the_host_that_keeps_its_backup() -> None:
    """Its home is gone with its disk, and the file on the root is damaged: only the backup is left."""
    from dataclasses import replace

    for seed in range(8):
        plan = FaultPlan((Planned(Kill(Target("machine", 0), 60_000), 3_000),))
        scenario = replace(calm(chain(1), seed=seed, epochs=120, hosts=3, scheme=parallel(0.3), plan=plan), copies=True)
        world = TestWorld(scenario)

        def damage(world: TestWorld = world) -> None:
            for manifest in world.root.manifests.values():
                world.root.damaged.update(saved.path for saved in manifest.shards.values())

        world.later(2_999, damage)
        world.to_the_end()
        if world.tally.from_backups:
            assert not [failed for failed in world.all_of(on.RestoreFailed) if failed.corrupt]
            return
    raise AssertionError("no restore read a backup")


def test_backups_are_used_in_drawn_worlds() -> None:
    used = 0
    for seed in range(400):
        scenario = drawn(seed, Options(epochs=40))
        if scenario.copies and scenario.settings.hosts > 2:
            world = World(scenario)
            world.run()
            used += world.tally.from_backups
            if used:
                return
    raise AssertionError("no drawn world read a backup")


def test_hosts_report_every_epoch_they_apply() -> None:
    world = TestWorld(calm(chain(2), epochs=20)).to_the_end()
    assert world.driver is not None
    reports = world.driver.reports.book.latest
    assert len(reports) == len(world.controller.routing.routes)
    assert {report.epoch for report in reports.values()} == {20}
