"""What follows when a unit's job fails: nothing is done here, changes are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perseid.checkpoint.schemes import UnitSchemes, parallel
from perseid.engine import changes as to
from perseid.engine import events as on
from perseid.engine.checkpointing import Checkpointing
from perseid.engine.pipeline import Pipeline
from perseid.engine.settings import EngineSettings
from perseid.engine.unit_ends import SETBACKS_LIMIT, UNREACHABLE_FAILURES, host_died, unit_failed
from perseid.engine.view import Lost, View
from perseid.graph.topology import Topology, UnitShape
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.vocabulary import CheckpointId, Epoch, HostId, OperatorName, ShardId, SourceName, UnitName

UNIT, OPERATOR = UnitName("main"), OperatorName("count")
SHARDS = frozenset({ShardId(OPERATOR, 0), ShardId(OPERATOR, 1)})
HOST = HostId(1)


def view(**more: object) -> View:
    topology = Topology((UnitShape(UNIT, (SourceName("in"),), {OPERATOR: 2}, {OPERATOR: frozenset()}),), ())
    settings = EngineSettings(parallel(10), hosts=1)
    routing = RoutingTable.initial({OPERATOR: numbered(even_slots(2))})
    pipeline = Pipeline(topology, 2, Epoch(3))
    pipeline.started(UNIT, Epoch(1))
    checkpoints = Checkpointing(topology, UnitSchemes(settings.scheme), 3, CheckpointId(1), [], 0, routing.routes)
    seen = View(
        1_000, topology, settings, False, False, frozenset({HOST}), Pool(1, 1), routing, pipeline, checkpoints, None,
        None, Epoch(1), {}, {},
    )  # fmt: skip
    return replace(seen, **more)  # type: ignore[arg-type]


def failed(kind: on.FailureKind, seen: View, **more: object) -> on.UnitFailed:
    event = on.UnitFailed(UNIT, Epoch(1), seen.pipeline.units[UNIT].attempt, kind, "it broke\nhere")
    return replace(event, **more)  # type: ignore[arg-type]


def stands(changes: list[to.Change]) -> to.UnitStands:
    (found,) = [change for change in changes if isinstance(change, to.UnitStands)]
    return found


def test_a_failure_is_counted_and_followed_by_a_pause() -> None:
    seen = view()
    changes = unit_failed(failed("other", seen), seen)
    state = stands(changes).state
    assert (state.running, state.failures, state.not_before_ms, state.error) == (None, 1, 1_100, "it broke")
    assert len(changes) == 1


def test_an_operator_that_raises_loses_its_shards() -> None:
    seen = view()
    lost = unit_failed(failed("operator", seen, shards=(min(SHARDS),)), seen)
    assert to.ShardsLost(frozenset({min(SHARDS)}), "it broke") in lost


def test_what_is_known_to_be_lost_is_not_lost_again() -> None:
    seen = view(lost=Lost(SHARDS, "host 1"))
    changes = unit_failed(failed("poisoned", seen, shards=tuple(SHARDS)), seen)
    assert [type(change) for change in changes] == [to.UnitStands]
    assert stands(changes).state.setbacks == 1


def test_a_stream_that_is_gone_takes_the_application_back() -> None:
    seen = view()
    assert to.ShardsLost(SHARDS, "it broke\nhere", everything=True) in unit_failed(failed("released", seen), seen)


def test_a_damaged_epoch_in_flight_condemns_the_checkpoint_that_was_restored() -> None:
    seen = view(restored=CheckpointId(7))
    assert to.InflightCorrupt(CheckpointId(7)) in unit_failed(failed("corrupt", seen), seen)
    assert to.InflightCorrupt(CheckpointId(7)) not in unit_failed(failed("corrupt", view()), view())


def test_a_driver_that_was_replaced_ends() -> None:
    seen = view()
    assert unit_failed(failed("fenced", seen), seen)[-1] == to.Failed("it broke\nhere")


def test_a_host_that_no_task_reaches_counts_as_dead_after_some_tries() -> None:
    seen = view()
    pipeline = seen.pipeline
    assert isinstance(pipeline, Pipeline)
    for tries in range(1, UNREACHABLE_FAILURES + 1):
        changes = unit_failed(failed("host", seen, hosts=(HOST,)), seen)
        assert to.HostSuspected(HOST) in changes
        unreachable = to.HostUnreachable(HOST, "it broke\nhere") in changes
        assert unreachable == (tries == UNREACHABLE_FAILURES)
        pipeline.units[UNIT] = stands(changes).state
        assert pipeline.units[UNIT].blamed == ({} if unreachable else {HOST: tries})


def test_what_a_dead_host_is_blamed_for_does_not_count() -> None:
    seen = view()
    pipeline = seen.pipeline
    assert isinstance(pipeline, Pipeline)
    pipeline.units[UNIT] = stands(unit_failed(failed("host", seen, hosts=(HOST,)), seen)).state
    state = stands(host_died(HOST, seen)).state
    assert (state.failures, state.setbacks, state.not_before_ms, dict(state.blamed)) == (0, 1, 0, {})


@pytest.mark.parametrize("setbacks", [SETBACKS_LIMIT - 1, SETBACKS_LIMIT])
def test_an_epoch_that_always_loses_hosts_ends_the_application(setbacks: int) -> None:
    seen = view()
    pipeline = seen.pipeline
    assert isinstance(pipeline, Pipeline)
    pipeline.units[UNIT] = pipeline.units[UNIT]._replace(setbacks=setbacks)
    changes = unit_failed(failed("cancelled", seen), seen)
    assert any(isinstance(change, to.Failed) for change in changes) == (setbacks == SETBACKS_LIMIT)
