"""Epochs of a stream that are made again are asked for under the routing of the command that needs them."""

from __future__ import annotations

from dataclasses import replace

from worlds import TestWorld, calm

from perseid.checkpoint.schemes import parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.simulation.graphs import chain
from perseid.simulation.jobs import JobFailed
from perseid.simulation.scenario import Times
from perseid.vocabulary import OperatorName, SourceName, StreamName, UnitName


def test_a_job_that_needs_an_epoch_again_does_not_ask_a_host_that_has_yet_to_restore_its_shard() -> None:
    """It asks the host that its command names, finds it gone, and waits for the recovery: no failure of its own, and no other try."""
    calmly = calm(chain(2, shards=1), epochs=12, hosts=2, spares=1, epoch_retries=0, queue=1)
    world = TestWorld(replace(calmly, times=Times(job=(600, 600), restore=(3_000, 3_000)), kept=0.0))
    taken_back = JobFailed("poisoned", "its input is to be read again")
    hit: list[do.RunEpoch] = []

    def spoil(command: do.RunEpoch) -> JobFailed | None:
        return taken_back if command.unit == "u1" and command.epoch == 5 and not command.again else None

    def kill_the_unit_above() -> None:
        again = [c for c in world.all_of(do.RunEpoch) if c.unit == "u1" and c.epoch == 5 and c.again]
        if again and not hit:
            hit.append(again[0])
            world.kill(world.controller.routing.of(OperatorName("o0"))[0].host)
        elif not hit:
            world.clock.after(5, kill_the_unit_above)

    world.spoil = spoil
    world.later(500, kill_the_unit_above)
    world.to_the_end()
    (failed,) = [e for e in world.all_of(on.UnitFailed) if e.attempt == hit[0].attempt]
    assert failed.kind == "host" and failed.hosts == (hit[0].routing.of(OperatorName("o0"))[0].host,)


def test_an_application_that_went_back_does_not_have_epochs_made_again_that_are_new() -> None:
    """What a unit without operators hands on cannot be made again once its own input is let go: it would go back for ever."""
    one, other = (UnitShape(UnitName(f"u{n}"), (), {OperatorName(f"o{n}"): 1}, {}) for n in (0, 2))
    through = UnitShape(UnitName("u1"), (), {}, {})
    first = StreamShape(StreamName("s01"), one.name, through.name, "transient", frozenset({OperatorName("o0")}))
    second = StreamShape(StreamName("s12"), through.name, other.name, "transient", frozenset(), frozenset({first.name}))
    topology = Topology((replace(one, sources=(SourceName("in"),)), through, other), (first, second))
    gone = JobFailed("released", "an epoch is gone")
    world = TestWorld(
        calm(topology, epochs=20, scheme=parallel(60)),
        spoil=lambda c: gone if (c.unit, c.epoch, c.attempt) == ("u2", 9, min(seen)) else None,
    )
    seen: set[int] = {1 << 30}
    watched = world.spoiled

    def spoiled(command: do.RunEpoch) -> JobFailed | None:
        if (command.unit, command.epoch) == ("u2", 9):
            seen.add(command.attempt)
        return watched(command)

    world.spoiled = spoiled  # type: ignore[method-assign]
    world.to_the_end()
    assert [notice.plan.name for notice in world.all_of(notices.RecoveryStarted)] == ["application", "application"]
