"""The plan: only what failed where that is possible, else everything."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.checkpoint.schemes import Scheme, adaptive, baseline, source_replay
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.recovery.plan import ApplicationRecovery, Observation, ShardRecovery, decide
from perseid.vocabulary import OperatorName, ShardId, SourceName, UnitName


@dataclass(frozen=True)
class Saved:
    operator: str
    index: int
    slots: tuple[int, int]
    epoch: int
    state_bytes: int = 0


A0, A1, B0 = ShardId(OperatorName("a"), 0), ShardId(OperatorName("a"), 1), ShardId(OperatorName("b"), 0)


def topology(kind: str = "retained", stacked: bool = False) -> Topology:
    if stacked:
        unit = UnitShape(
            UnitName("main"),
            (SourceName("in"),),
            {OperatorName("a"): 2, OperatorName("b"): 1},
            {OperatorName("a"): frozenset(), OperatorName("b"): frozenset({OperatorName("a")})},
        )
        return Topology((unit,), ())
    up = UnitShape(UnitName("up"), (SourceName("in"),), {OperatorName("a"): 2}, {OperatorName("a"): frozenset()})
    down = UnitShape(UnitName("down"), (), {OperatorName("b"): 1}, {OperatorName("b"): frozenset()})
    return Topology((up, down), (StreamShape("s", "up", "down", kind),))  # type: ignore[arg-type]


def checkpoint(id: int, **cuts: int) -> CompletedCheckpoint:
    up, down = cuts.get("up", cuts.get("main", 0)), cuts.get("down", cuts.get("main", 0))
    saved = {A0: Saved("a", 0, (0, 128), up), A1: Saved("a", 1, (128, 256), up), B0: Saved("b", 0, (0, 256), down)}
    return CompletedCheckpoint(id, cuts, saved, {})  # type: ignore[arg-type]


def seen(*lost: ShardId, checkpoints: tuple[CompletedCheckpoint, ...] = (), **more: object) -> Observation:
    fields: dict[str, object] = {
        "finished": {"up": 9, "down": 8, "main": 9},
        "lost": frozenset(lost),
        "slots": {A0: (0, 128), A1: (128, 256), B0: (0, 256)},
        "checkpoints": checkpoints,
        "newest": checkpoints[0].id if checkpoints else None,
        "everything": False,
        "oldest_epoch": 1,
    }
    return Observation(**{**fields, **more})  # type: ignore[arg-type]


def test_a_shard_fed_by_a_source_goes_back_alone() -> None:
    plan = decide(topology(), seen(A1, checkpoints=(checkpoint(3, up=5, down=4),)))
    assert isinstance(plan, ShardRecovery) and set(plan.shards) == {A1}
    assert plan.replay == {"up": (6, 9)}


def test_without_a_checkpoint_it_starts_fresh_and_replays_all() -> None:
    plan = decide(topology(), seen(A0))
    assert isinstance(plan, ShardRecovery) and plan.shards == {A0: ()} and plan.replay == {"up": (1, 9)}


def test_a_shard_fed_by_a_transient_stream_takes_the_application_with_it() -> None:
    plan = decide(topology("transient"), seen(B0, checkpoints=(checkpoint(3, up=5, down=4),)))
    assert isinstance(plan, ApplicationRecovery) and set(plan.shards) == {A0, A1, B0}
    assert plan.base == {"up": 5, "down": 4}


def test_a_shard_fed_by_a_retained_stream_goes_back_alone() -> None:
    plan = decide(topology("retained"), seen(B0, checkpoints=(checkpoint(3, up=5, down=4),)))
    assert isinstance(plan, ShardRecovery) and plan.replay == {"down": (5, 8)}


def test_shards_on_both_sides_of_a_retained_stream_go_back_alone() -> None:
    plan = decide(topology(), seen(A1, B0, checkpoints=(checkpoint(3, up=5, down=4),)))
    assert isinstance(plan, ShardRecovery) and set(plan.shards) == {A1, B0}
    assert plan.replay == {"up": (6, 9), "down": (5, 8)}


@pytest.mark.parametrize(
    ("first", "mode"), [("transient", "application"), ("retained", "shards"), ("durable", "shards")]
)
def test_what_a_unit_only_passes_on_is_as_safe_as_what_it_is_given(first: str, mode: str) -> None:
    up, down = topology().units
    between = UnitShape(UnitName("between"), (), {}, {})
    streams = (
        StreamShape("s", "up", "between", first, frozenset({"a"})),  # type: ignore[arg-type]
        StreamShape("t", "between", "down", "retained", through=frozenset({"s"})),  # type: ignore[arg-type]
    )
    units = Topology((up, between, down), streams)
    assert decide(units, seen(B0, finished={"up": 9, "between": 9, "down": 8})).name == mode
    assert units.retaining == ({"a"} if first == "retained" else set())


@pytest.mark.parametrize(
    ("scheme", "kept"), [(adaptive(), "retained"), (baseline(), "buffered"), (source_replay(), "transient")]
)
def test_hosts_keep_answers_only_for_schemes_that_ask_for_them(scheme: Scheme, kept: str) -> None:
    up, down = topology().units
    shape = Topology((up, down), (StreamShape("s", "up", "down", "retained", frozenset({"a"})),))  # type: ignore[arg-type]
    seen_by = scheme.preserved(shape)
    assert {s.preservation for s in seen_by.streams} == {kept}
    assert seen_by.retaining == ({"a"} if kept == "retained" else set())


def test_a_retained_stream_reaches_back_to_the_newest_checkpoint_only() -> None:
    plan = decide(topology("retained"), seen(B0, checkpoints=(checkpoint(2, up=3, down=3),), newest=3))
    assert isinstance(plan, ApplicationRecovery)


def test_a_durable_stream_reaches_back_to_every_kept_checkpoint() -> None:
    plan = decide(topology("durable"), seen(B0, checkpoints=(checkpoint(2, up=3, down=3),), newest=3))
    assert isinstance(plan, ShardRecovery) and plan.replay == {"down": (4, 8)}


def test_an_operator_on_top_of_another_is_fed_from_the_answers_kept_since_the_newest_checkpoint() -> None:
    shape = topology(stacked=True)
    assert isinstance(decide(shape, seen(B0, checkpoints=(checkpoint(3, main=5),))), ShardRecovery)
    older = seen(B0, checkpoints=(checkpoint(2, main=3),), newest=3)
    assert isinstance(decide(shape, older), ApplicationRecovery)


def test_a_fresh_start_says_what_is_gone_for_good() -> None:
    plan = decide(topology(), seen(A0, oldest_epoch=4, newest=3))
    assert isinstance(plan, ApplicationRecovery) and plan.checkpoint is None
    assert plan.lost_epochs == 3 and set(plan.base.values()) == {3}


def test_nothing_is_replayed_into_a_shard_whose_snapshot_is_up_to_date() -> None:
    plan = decide(topology(), seen(A0, checkpoints=(checkpoint(3, up=9, down=8),)))
    assert isinstance(plan, ShardRecovery) and plan.replay == {}
