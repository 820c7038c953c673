"""Epochs of a stream that are made again are asked for under the routing of the command that needs them."""

from __future__ import annotations

from dataclasses import replace

from worlds import TestWorld, calm

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.simulation.graphs import chain
from perseid.simulation.jobs import JobFailed
from perseid.simulation.scenario import Times
from perseid.vocabulary import OperatorName


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
