"""A shard's log: what may be applied, what is answered again, what is refused."""

from __future__ import annotations

import pytest

from perseid.engine.shard import Refusal, ShardLog
from perseid.vocabulary import Epoch, ShardId, Version


def log(applied: int = 3, version: int = 2) -> ShardLog[str]:
    return ShardLog(ShardId("o", 0), version, applied)  # type: ignore[arg-type]


def test_an_epoch_is_applied_only_after_the_one_before() -> None:
    shard = log()
    assert shard.ask(Epoch(4), Version(2)) == "apply"
    refused = shard.ask(Epoch(5), Version(2))
    assert isinstance(refused, Refusal) and refused.kind == "gap"


def test_asked_again_it_gives_the_kept_answer() -> None:
    shard = log()
    shard.applied_epoch(Epoch(4), "four")
    assert shard.ask(Epoch(4), Version(2)) == "answer" and shard.answers[Epoch(4)] == "four"
    shard.check()


def test_a_released_answer_cannot_be_had_again() -> None:
    shard = log()
    shard.applied_epoch(Epoch(4), "four")
    assert shard.release(Epoch(4)) == ["four"]
    refused = shard.ask(Epoch(4), Version(2))
    assert isinstance(refused, Refusal) and refused.kind == "released"


def test_a_request_from_before_the_shard_moved_is_refused() -> None:
    refused = log(version=3).ask(Epoch(4), Version(2))
    assert isinstance(refused, Refusal) and refused.kind == "stale"


def test_a_poisoned_shard_answers_nothing() -> None:
    shard = log()
    shard.poisoned = "it raised"
    refused = shard.ask(Epoch(4), Version(2))
    assert isinstance(refused, Refusal) and refused.kind == "poisoned"


def test_answers_nobody_will_ask_for_are_not_kept() -> None:
    shard = log()
    shard.retain_from = Epoch(6)
    shard.applied_epoch(Epoch(4), "four")
    assert shard.answers == {}


def test_an_epoch_cannot_be_applied_twice() -> None:
    shard = log()
    shard.applied_epoch(Epoch(4), "four")
    with pytest.raises(AssertionError):
        shard.applied_epoch(Epoch(4), "four")


def test_a_shard_that_was_given_too_few_rows_finds_out_when_it_is_asked_again() -> None:
    shard = log()
    shard.applied_epoch(Epoch(4), "four", rows=10)
    assert shard.ask(Epoch(4), Version(2), rows=10) == "answer"
    refused = shard.ask(Epoch(4), Version(2), rows=25)
    assert isinstance(refused, Refusal) and refused.kind == "poisoned" and "10 of 25 rows" in refused.message
    later = shard.ask(Epoch(5), Version(2), rows=25)
    assert isinstance(later, Refusal) and later.kind == "poisoned"


def test_a_task_cut_short_that_asks_again_does_no_harm() -> None:
    shard = log()
    shard.applied_epoch(Epoch(4), "four", rows=25)
    refused = shard.ask(Epoch(4), Version(2), rows=10)
    assert isinstance(refused, Refusal) and refused.kind == "stale"
    assert shard.ask(Epoch(4), Version(2), rows=25) == "answer" and shard.ask(Epoch(5), Version(2), rows=25) == "apply"


def test_an_operators_failure_is_told_again_in_full_when_spark_runs_the_task_again() -> None:
    shard = log()
    assert shard.failed(Epoch(4), "operator 'o' raised\n  first rows …").kind == "raised"
    again, other = shard.ask(Epoch(4), Version(2)), shard.ask(Epoch(5), Version(2))
    assert again == Refusal("raised", "operator 'o' raised\n  first rows …")
    assert isinstance(other, Refusal) and other.kind == "poisoned"


def test_row_counts_are_kept_no_longer_than_answers() -> None:
    shard = log()
    for epoch in range(4, 40):
        shard.release(Epoch(epoch - 3))
        shard.applied_epoch(Epoch(epoch), "answer", rows=epoch)
        shard.check()
    assert set(shard.rows) == set(shard.answers) == {37, 38, 39}
