"""Files of a checkpoint that rot: the damage is named, the checkpoint before takes its place, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from worlds import TestWorld, calm

from perseid.checkpoint.schemes import parallel
from perseid.engine import events as on
from perseid.engine import notices
from perseid.simulation.faults import Driver, Fault, Kill
from perseid.simulation.graphs import chain
from perseid.simulation.inject import inject
from perseid.simulation.root import Manifest
from perseid.simulation.site import Target
from perseid.storage import layout
from perseid.vocabulary import CheckpointId

Damage = Callable[[TestWorld, Manifest], None]


def damaged(damage: Damage, fault: Fault, *, inflight: bool = False) -> tuple[TestWorld, CheckpointId, CheckpointId]:
    """A run whose newest checkpoint is damaged just before everything is needed from it: it, and the one before."""
    world = TestWorld(calm(chain(3), epochs=60, keep=3, scheme=parallel(0.2)))
    hit: list[CheckpointId] = []

    def strike() -> None:
        newest = sorted(world.root.manifests)[-2:]
        if len(newest) < 2 or (inflight and not world.root.manifests[newest[1]].inflight):
            world.later(world.clock.now_ms + 10, strike)
            return
        hit.extend(newest)
        damage(world, world.root.manifests[newest[1]])
        inject(world, fault)

    world.later(1_500, strike)
    world.to_the_end()
    return world, hit[1], hit[0]


def restored(world: TestWorld) -> list[CheckpointId | None]:
    return [c.plan.checkpoint for c in world.all_of(notices.RecoveryStarted)]


def test_a_damaged_manifest_is_passed_over_by_the_next_driver() -> None:
    world, bad, before = damaged(lambda world, m: world.root.damaged.add(m.path), Driver(100))
    assert before in restored(world) and bad not in restored(world)


def test_a_damaged_snapshot_is_named_and_the_checkpoint_before_restored() -> None:
    def damage(world: TestWorld, manifest: Manifest) -> None:
        for snapshot in manifest.shards.values():
            world.root.damaged.add(snapshot.path)

    world, bad, before = damaged(damage, Kill(Target("everything")))
    assert restored(world).index(bad) < restored(world).index(before)
    assert any(layout.checkpoint(bad) in failed.message for failed in world.all_of(on.RestoreFailed) if failed.corrupt)


def test_a_damaged_epoch_in_flight_is_named_and_the_checkpoint_before_restored() -> None:
    def damage(world: TestWorld, manifest: Manifest) -> None:
        world.root.damaged.update(manifest.inflight.values())

    world, bad, before = damaged(damage, Kill(Target("everything")), inflight=True)
    assert restored(world).index(bad) < restored(world).index(before)
    (failed,) = [event for event in world.all_of(on.UnitFailed) if event.kind == "corrupt"]
    assert f"saved as {layout.checkpoint(bad)}/" in failed.message and "fails its hash" in failed.message


@pytest.mark.parametrize("retries", [0, 3])
def test_a_stream_that_no_checkpoint_brings_back_stops_the_application(retries: int) -> None:
    from perseid.simulation.jobs import JobFailed

    world = TestWorld(
        calm(chain(1), epochs=20, epoch_retries=retries),
        spoil=lambda c: JobFailed("corrupt", "stream s: epoch 5 fails its hash") if c.epoch == 5 else None,
    )
    assert world.failing() == "stream s: epoch 5 fails its hash"
