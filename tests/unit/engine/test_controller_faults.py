"""The controller when things fail in awkward ways: rows put aside, units that wait for others, storage that stays full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from world import World, chain

from perseid.checkpoint.schemes import parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller, EngineSettings, Past
from perseid.vocabulary import Epoch, HostId, ShardId


def failing(world: World, when: Callable[[do.RunEpoch], bool], kind: Any, **more: Any) -> None:
    """Epochs for which ``when`` holds fail in this way."""
    original = world._start

    def start(command: do.RunEpoch) -> None:
        if when(command):
            world.tell(on.UnitFailed(command.unit, command.epoch, command.attempt, kind, kind, **more), 5)
        else:
            original(command)

    world._start = start  # type: ignore[method-assign]


def commands_of(world: World, kind: type) -> list[Any]:
    return [command for _, command in world.log if isinstance(command, kind)]


def test_rows_put_aside_are_left_out_of_every_replay() -> None:
    world = World(chain(1), epochs=30, hosts=2, scheme=parallel(600))
    world.controller.settings = EngineSettings(world.settings.scheme, hosts=2, dead_letters=True)
    bad = ShardId("o0", 0)
    failing(world, lambda c: c.epoch == 7 and not c.set_aside, "operator", shards=(bad,))
    killed: list[HostId] = []

    def kill_after_epoch_nine() -> None:
        if world.controller.pipeline.units["u0"].finished < 9:
            world.later(20, kill_after_epoch_nine)
        else:
            killed.append(world.controller.routing.host_of(bad))  # type: ignore[arg-type]
            world.kill(killed[0])

    world.later(20, kill_after_epoch_nine)
    world.run()
    assert killed and world.stopped == do.StopApplication(None)
    run = next(c for c in commands_of(world, do.RunEpoch) if c.epoch == 7 and c.set_aside)
    assert run.set_aside == {bad}
    replays = [c for c in commands_of(world, do.ReplayShards) if c.first <= 7 <= c.last]
    assert replays and all(c.set_aside == {7: frozenset({bad})} for c in replays)


def test_what_was_put_aside_before_a_restart_stays_aside() -> None:
    bad = ShardId("o0", 1)
    past = Past(admitted=Epoch(3), set_aside={("u0", Epoch(2)): frozenset({bad})})  # type: ignore[dict-item]
    world = World(chain(1), epochs=10)
    world.controller = Controller(world.topology, world.settings, past, 0)
    world.run()
    aside = {c.epoch: c.set_aside for c in commands_of(world, do.RunEpoch)}
    assert aside[2] == {bad} and not aside[1] and not aside[3]


def test_a_host_whose_heart_beats_but_that_no_task_can_reach_is_given_up() -> None:
    world = World(chain(1), epochs=20)
    failing(world, lambda c: c.routing.host_of(ShardId("o0", 0)) == 1, "host", hosts=(HostId(1),))
    world.run()
    assert world.stopped == do.StopApplication(None)
    assert HostId(1) in {c.host for c in commands_of(world, do.DropHost)}


def test_full_storage_is_waited_for_a_minute_before_the_application_stops() -> None:
    world = World(chain(1), epochs=20)
    full = [0]

    def is_full(command: do.RunEpoch) -> bool:
        full[0] = full[0] or (world.now if command.epoch == 5 else 0)
        return command.epoch == 5 and world.now < full[0] + 45_000

    failing(world, is_full, "storage")
    world.run()
    assert world.stopped == do.StopApplication(None)

    world = World(chain(1), epochs=20)
    failing(world, lambda c: c.epoch == 5, "storage")
    world.run()
    assert world.stopped == do.StopApplication("storage") and world.now > 50_000


def test_a_last_checkpoint_that_cannot_be_written_does_not_hold_up_the_end_for_ever() -> None:
    world = World(chain(1), epochs=8, scheme=parallel(600))
    world._snapshot = lambda command: world.tell(on.CheckpointFailed(command.checkpoint, "full"), 5)  # type: ignore[method-assign]
    world.run()
    assert world.stopped == do.StopApplication(None)
    assert len(commands_of(world, do.AbortCheckpoint)) == 3


def test_an_epoch_between_units_is_saved_only_when_it_is_there() -> None:
    for seed in range(20):
        world = World(chain(3), epochs=40, seed=seed, scheme=parallel(0.2))
        producers = {s.name: s.producer for s in world.topology.streams}
        original = world._save_inflight

        def save(
            checkpoint: Any,
            stream: Any,
            epoch: Any,
            world: World = world,
            original: Any = original,
            producers: Any = producers,
        ) -> None:
            assert world.controller.pipeline.units[producers[stream]].finished >= epoch
            original(checkpoint, stream, epoch)

        world._save_inflight = save  # type: ignore[method-assign]
        world.run()
        assert world.stopped == do.StopApplication(None)


def test_a_unit_is_fed_again_only_after_those_above_it() -> None:
    world = World(chain(3, preservation="retained"), epochs=60, hosts=2, spares=1)
    world.later(2500, lambda: [world.kill(h) for h in list(world.hosts) if world.hosts[h].alive])
    world.run()
    assert world.stopped == do.StopApplication(None)
    running: set[str] = set()
    for _, entry in world.log:
        if isinstance(entry, do.ReplayShards):
            assert not running & world.topology.above(entry.unit)
            running.add(entry.unit)
        elif isinstance(entry, on.ReplayFinished | on.UnitFailed):
            running.discard(entry.unit)
