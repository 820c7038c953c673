"""A checkpoint or a restore asked of a running application: it happens, it is what was asked for, and the stream is none the worse."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import TestWorld, calm

from perseid.checkpoint.schemes import baseline, parallel, source
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.simulation.graphs import chain, diamond
from perseid.vocabulary import OperatorName

SCHEMES = {"parallel": parallel(600), "source": source(600), "baseline": baseline(600)}
GRAPHS = {"one unit": chain(1), "three units": chain(3), "diamond": diamond()}


def asking(world: TestWorld, event: on.Event, at_ms: int, standing: dict[Any, int] | None = None) -> None:
    def ask() -> None:
        if standing is not None:
            standing.update({unit: state.finished for unit, state in world.controller.pipeline.units.items()})
        assert world.driver is not None
        world.driver.handle(event)

    world.later(at_ms, ask)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_checkpoint_asked_for_covers_all_that_was_processed_then(graph: str, scheme: str) -> None:
    world = TestWorld(calm(GRAPHS[graph], scheme=SCHEMES[scheme], epochs=40))
    standing: dict[Any, int] = {}
    asking(world, on.CheckpointRequested(7), 1_500, standing)
    world.to_the_end()
    (answer,) = world.all_of(do.Answered)
    assert answer.number == 7 and answer.error is None
    assert any(standing.values())
    assert all(answer.checkpoint.own_cut(unit) >= epoch for unit, epoch in standing.items())


def test_a_checkpoint_asked_for_while_hosts_die_is_taken_after_the_recovery() -> None:
    world = TestWorld(calm(chain(2), scheme=parallel(600), epochs=60, hosts=3))
    asking(world, on.CheckpointRequested(1), 1_500)
    world.later(1_505, lambda: world.kill(min(world.controller.hosts)))
    world.to_the_end()
    assert [(answer.number, answer.error) for answer in world.all_of(do.Answered)] == [(1, None)]


def test_before_the_first_epoch_there_is_nothing_to_save() -> None:
    world = TestWorld(calm(chain(1)))
    asking(world, on.CheckpointRequested(1), 1)
    world.to_the_end()
    (answer,) = world.all_of(do.Answered)
    assert "nothing has been processed yet" in answer.error


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_operator_restored_on_purpose_is_where_it_was(graph: str, scheme: str) -> None:
    topology = GRAPHS[graph]
    world = TestWorld(calm(topology, scheme=SCHEMES[scheme], epochs=40))
    operator = sorted(topology.operators)[-1]
    asking(world, on.CheckpointRequested(1), 1_000)
    asking(world, on.RestoreRequested(2, OperatorName(operator)), 1_800)
    world.to_the_end()
    assert {answer.number: answer.error for answer in world.all_of(do.Answered)} == {1: None, 2: None}
    begun = [command for command in world.all_of(notices.RecoveryStarted) if "is to be restored" in command.reason]
    assert begun and {shard.operator for shard in begun[0].plan.shards} >= {operator}
