"""A shard's log: what may be applied, what is answered again, what is refused."""

from __future__ import annotations

import pytest

from perseid.engine.shard import Refusal, ShardLog
from perseid.vocabulary import ShardId


def log(applied: int = 3, version: int = 2) -> ShardLog[str]:
    return ShardLog(ShardId("o", 0), version, applied)  # type: ignore[arg-type]


def test_an_epoch_is_applied_only_after_the_one_before() -> None:
    shard = log()
    assert shard.ask(4, 2) == "apply"
    refused = shard.ask(5, 2)
    assert isinstance(refused, Refusal) and refused.kind == "gap"


def test_asked_again_it_gives_the_kept_answer() -> None:
    shard = log()
    shard.applied_epoch(4, "four")
    assert shard.ask(4, 2) == "answer" and shard.answers[4] == "four"
    shard.check()


def test_a_released_answer_cannot_be_had_again() -> None:
    shard = log()
    shard.applied_epoch(4, "four")
    assert shard.release(4) == ["four"]
    refused = shard.ask(4, 2)
    assert isinstance(refused, Refusal) and refused.kind == "released"


def test_a_request_from_before_the_shard_moved_is_refused() -> None:
    refused = log(version=3).ask(4, 2)
    assert isinstance(refused, Refusal) and refused.kind == "stale"


def test_a_poisoned_shard_answers_nothing() -> None:
    shard = log()
    shard.poisoned = "it raised"
    refused = shard.ask(4, 2)
    assert isinstance(refused, Refusal) and refused.kind == "poisoned"


def test_answers_nobody_will_ask_for_are_not_kept() -> None:
    shard = log()
    shard.retain_from = 6
    shard.applied_epoch(4, "four")
    assert shard.answers == {}


def test_an_epoch_cannot_be_applied_twice() -> None:
    shard = log()
    shard.applied_epoch(4, "four")
    with pytest.raises(AssertionError):
        shard.applied_epoch(4, "four")
