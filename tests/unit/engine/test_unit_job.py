"""A unit's job: what a failure is told as, who takes part in a replay, and when every shard has."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.messages import Report
from perseid.engine.reports import NoReport, ReportBook
from perseid.engine.stream_store import StreamGone
from perseid.engine.unit_job import (
    REPLAY_EPOCHS,
    REPLAY_ROWS,
    Cancelled,
    Replay,
    TaskFailed,
    released,
    replay_again,
    replay_groups,
    unit_failed,
)
from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.graph.topology import UnitShape
from perseid.scaling.routing import RoutingTable
from perseid.storage.records import Admitted
from perseid.vocabulary import Attempt, Epoch, HostId, OperatorName, ShardId, UnitName, Version

U, A, B, C = UnitName("u"), OperatorName("a"), OperatorName("b"), OperatorName("c")
RUN = do.RunEpoch(U, Epoch(5), Attempt(1), RoutingTable(Version(1), {}), Epoch(4), Epoch(3))
SHARD = ShardId(A, 0)


def told(error: BaseException, *, cancelled: bool = False, fenced: bool = False, **more: Any) -> on.UnitFailed:
    return unit_failed(RUN, error, cancelled=cancelled, taken_over=lambda: fenced, **more)


@pytest.mark.parametrize(
    ("refusal", "kind", "hosts", "shards"),
    [
        ("host", "host", (HostId(7),), ()),
        ("raised", "operator", (), (SHARD,)),
        ("mistake", "mistake", (), (SHARD,)),
        ("poisoned", "poisoned", (), (SHARD,)),
        ("gap", "poisoned", (), (SHARD,)),
        ("released", "released", (), ()),
        ("storage", "storage", (), ()),
        ("stale", "other", (), ()),
    ],
)
def test_what_a_refusal_means(refusal: str, kind: str, hosts: Any, shards: Any) -> None:
    failed = told(TaskFailed(refusal, "why", host=HostId(7), shard=SHARD))
    assert failed == on.UnitFailed(U, Epoch(5), Attempt(1), kind, "why", hosts, shards)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Fenced("x"), "fenced"),
        (StreamGone("x"), "released"),
        (StorageFailed("x"), "storage"),
        (CorruptData("x"), "corrupt"),
        (NoReport(Epoch(5), [SHARD], 10), "unreported"),
        (Cancelled("x"), "cancelled"),
        (ValueError("x"), "other"),
    ],
)
def test_what_an_exception_means(error: BaseException, kind: str) -> None:
    assert told(error).kind == kind


def test_what_fails_because_another_driver_has_taken_over_is_told_so() -> None:
    assert told(StorageFailed("staging is gone"), fenced=True).kind == "fenced"
    assert told(CorruptData("x"), fenced=True).kind == "corrupt"


def test_a_job_that_was_taken_back_failed_for_that_reason() -> None:
    assert told(ValueError("x"), cancelled=True).kind == "cancelled"


def test_more_may_be_known_of_a_failure_than_its_type() -> None:
    failed = told(ValueError("x"), kind="storage", message="no space left")
    assert (failed.kind, failed.message) == ("storage", "no space left")


def admitted(epoch: int) -> Admitted:
    return Admitted(Epoch(epoch), 0, {})


def test_many_small_epochs_are_replayed_together_and_large_ones_alone() -> None:
    groups = list(replay_groups(map(admitted, range(1, 41)), lambda _: 1))
    assert [len(group) for group in groups] == [REPLAY_EPOCHS, REPLAY_EPOCHS, 8]
    assert [a.epoch for group in groups for a in group] == list(range(1, 41))
    assert [len(group) for group in replay_groups(map(admitted, range(1, 5)), lambda _: REPLAY_ROWS)] == [1, 1, 1, 1]
    assert list(replay_groups([], lambda _: 1)) == []


def test_lost_shards_are_fed_and_those_they_stand_on_say_again_what_they_said() -> None:
    shape = UnitShape(U, (), {A: 2, B: 2, C: 1}, {B: frozenset({A}), C: frozenset()})
    replay = Replay(shape, frozenset({ShardId(B, 0)}))
    assert (replay.operators, replay.stood_on, replay.lowest) == ({A, B}, {A}, {B})
    assert replay.feeds(ShardId(B, 0)) and not replay.feeds(ShardId(B, 1))
    assert replay.recalls(ShardId(A, 1)) and not replay.recalls(ShardId(C, 0)) and not replay.recalls(ShardId(B, 1))
    both = Replay(shape, frozenset({ShardId(A, 0), ShardId(B, 0)}))
    assert both.lowest == {B} and both.feeds(ShardId(A, 0)) and both.recalls(ShardId(A, 1))


def test_an_operator_that_was_left_out_is_fed_on_its_own() -> None:
    fed = frozenset({ShardId(A, 0), ShardId(A, 1), ShardId(B, 0)})
    assert replay_again([ShardId(A, 1)], fed) == {ShardId(A, 0), ShardId(A, 1)}
    assert replay_again([], fed) == frozenset()
    assert replay_again([ShardId(A, 0), ShardId(B, 0)], fed) == frozenset(), "all were asked"


def test_answers_that_others_stand_on_are_kept_until_a_checkpoint_covers_them() -> None:
    assert released([A, B], {A}, Epoch(9), Epoch(4)) == {A: 4, B: 9}


def test_an_epoch_is_done_when_every_shard_has_reported_it() -> None:
    book: ReportBook[Report] = ReportBook()
    shards = [ShardId(A, 0), ShardId(A, 1)]
    book.arrived(shards[0], Report(shards[0], Epoch(5), 0, 0))
    book.arrived(shards[1], Report(shards[1], Epoch(4), 0, 0))
    assert book.missing(shards, Epoch(5)) == [shards[1]] and book.missing(shards, Epoch(4)) == []
    assert book.of(shards)[shards[0]].epoch == 5
    book.forget(shards[:1])
    assert book.missing(shards, Epoch(4)) == shards[:1], "it was put back: what it said is no longer true"
    book.keep_only([])
    assert book.latest == {}


def test_a_timer_that_has_come_due_is_known_from_reports() -> None:
    book: ReportBook[Report] = ReportBook()
    book.arrived(SHARD, Report(SHARD, Epoch(1), 0, 0, next_timer_ms=100, next_event_timer_ms=50))
    assert not book.timer_due(99, {}) and book.timer_due(100, {})
    assert book.timer_due(0, {A: 50}) and not book.timer_due(0, {A: 49})
