"""A task asks a shard that has a standby: its host first, the other one when that is silent; the first answer counts."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from answering_hosts import (
    SCHEMA,
    SECRET,
    SHARD,
    Answer,
    AnsweringHost,
    Sleeps,
    breaks_off,
    dies,
    doubled,
    numbers,
    refuses,
    request,
    rows,
    says,
)

from perseid.engine.messages import AnswerDiffered, ApplyEpoch, RecallAnswer
from perseid.spark import asking, first_answer
from perseid.spark.asking import Place, Refused, Target, Unreachable
from perseid.vocabulary import Epoch, HostId, Version

AT_ONCE_S, NEVER_S = 0.001, 1e6  # how long the first is waited for
WITH_ROWS, WITHOUT = (ApplyEpoch, [1, 2, 3]), (RecallAnswer, list[int]())

Started = Callable[..., AnsweringHost]


@pytest.fixture(autouse=True)
def no_connections() -> Iterator[None]:
    yield
    for connection in asking._connections.values():
        connection.close()
    asking._connections.clear()


@pytest.fixture
def host() -> Iterator[Started]:
    with contextlib.ExitStack() as stack:

        def started(*said: Answer) -> AnsweringHost:
            one = AnsweringHost(*said)
            stack.callback(one.end)
            return one

        yield started


def gone(host: Started) -> AnsweringHost:
    one = host()
    one.end()
    return one


def ask(*hosts: AnsweringHost, patience_s: float = NEVER_S, epoch: int = 1) -> list[int]:
    places = tuple(Place(HostId(number), host.address) for number, host in enumerate(hosts, start=1))
    sent = [rows(1, 2), rows(3)]
    return numbers(first_answer.first_answer(Target(0, places, patience_s), SECRET, request(epoch), SCHEMA, sent))


def recall(*hosts: AnsweringHost) -> list[int]:
    places = tuple(Place(HostId(number), host.address) for number, host in enumerate(hosts, start=1))
    asked = RecallAnswer(SHARD, Epoch(1), Version(1))
    return numbers(first_answer.first_answer(Target(0, places, AT_ONCE_S), SECRET, asked, SCHEMA, []))


def nobody_is_asked() -> None:
    """Wait until all that were asked have answered."""
    for thread in threading.enumerate():
        if thread.name == "perseid-ask":
            thread.join()


def test_the_host_answers_and_its_standby_is_not_asked(host: Started) -> None:
    primary, standby = host(), host()
    assert ask(primary, standby) == [2, 4, 6]
    assert primary.asked == [WITH_ROWS] and standby.asked == []


def test_a_connection_is_used_again(host: Started) -> None:
    primary, standby = host(), host()
    for epoch in (1, 2, 3):
        assert ask(primary, standby, epoch=epoch) == [2, 4, 6]
        nobody_is_asked()
    assert len(primary.connections) == 1


def test_the_host_is_silent_and_its_standby_answers_as_soon_as_it_may(host: Started) -> None:
    primary = host(Sleeps())
    standby = host(refuses("suspended"), refuses("suspended"), refuses("gap"), doubled)
    assert ask(primary, standby, patience_s=AT_ONCE_S) == [2, 4, 6]
    assert primary.asked == [WITH_ROWS], "it has not answered yet"
    assert standby.asked == [WITHOUT, WITHOUT, WITHOUT, WITH_ROWS], (
        "rows are sent once it may answer, and has no answer"
    )


def test_a_standby_that_has_the_answer_already_gets_no_rows(host: Started) -> None:
    standby = host(says(7))
    assert ask(host(Sleeps()), standby, patience_s=AT_ONCE_S) == [7]
    assert standby.asked == [WITHOUT]


def test_the_host_is_dead_and_its_standby_answers(host: Started) -> None:
    assert ask(gone(host), host()) == [2, 4, 6]


def test_the_host_dies_while_it_is_asked_and_its_standby_answers(host: Started) -> None:
    assert ask(host(dies), host()) == [2, 4, 6]


def test_half_an_answer_is_nobodys(host: Started) -> None:
    assert ask(host(breaks_off), host()) == [2, 4, 6]


def test_a_host_that_is_suspended_is_asked_again_until_it_may_answer(host: Started) -> None:
    primary, standby = host(refuses("suspended"), refuses("suspended"), says(7)), host(refuses("suspended"))
    assert ask(primary, standby) == [7]
    assert primary.asked == [WITH_ROWS, WITHOUT, WITHOUT]


def test_both_are_dead_and_the_host_is_named(host: Started) -> None:
    with pytest.raises(Unreachable, match="host 1 at") as error:
        ask(gone(host), gone(host))
    assert error.value.host == 1


def test_one_is_dead_and_the_other_has_no_such_shard(host: Started) -> None:
    with pytest.raises(Unreachable, match="host 2 at"):
        ask(host(refuses("stale")), gone(host))
    with pytest.raises(Unreachable, match="host 1 at"):
        ask(gone(host), host(refuses("stale")))


def test_neither_has_such_a_shard(host: Started) -> None:
    with pytest.raises(Refused, match="it is stale") as error:
        ask(host(refuses("stale")), host(refuses("stale")))
    assert error.value.host == 1


@pytest.mark.parametrize("kind", ["raised", "poisoned", "mistake", "storage", "gap"])
def test_a_refusal_of_who_may_answer_counts(host: Started, kind: str) -> None:
    standby = host()
    with pytest.raises(Refused, match=f"it is {kind}") as error:
        ask(host(refuses(kind)), standby)
    assert error.value.host == 1 and standby.asked == []


def test_a_refusal_of_the_standby_counts_too(host: Started) -> None:
    with pytest.raises(Refused, match="it is raised") as error:
        ask(gone(host), host(refuses("gap"), refuses("raised")))
    assert error.value.host == 2


def test_of_two_that_work_the_faster_wins_and_the_slower_is_not_asked_before_it_has_answered(host: Started) -> None:
    asleep = Sleeps()
    slow, fast = host(asleep, doubled), host()
    assert ask(slow, fast, patience_s=0) == [2, 4, 6]
    slow.is_asked()
    assert ask(slow, fast, patience_s=0, epoch=2) == [2, 4, 6]
    assert slow.asked == [WITH_ROWS] and fast.asked == [WITH_ROWS, WITH_ROWS]
    asleep.awake.set()
    nobody_is_asked()
    ask(slow, fast, patience_s=0, epoch=3)
    slow.is_asked()
    assert slow.asked == [WITH_ROWS, WITH_ROWS]


def test_whoever_gives_another_answer_later_is_told_so(host: Started) -> None:
    slow, fast = Sleeps(says(9)), host()
    slower = host(slow)
    assert ask(slower, fast, patience_s=0) == [2, 4, 6]
    slow.awake.set()
    assert slower.differed.get(timeout=60) == AnswerDiffered(SHARD, Epoch(1))
    assert fast.differed.empty()


def test_two_hosts_that_give_the_same_answer_are_told_nothing(host: Started) -> None:
    asleep = Sleeps()
    slow, fast = host(asleep), host()
    assert ask(slow, fast, patience_s=0) == [2, 4, 6]
    asleep.awake.set()
    nobody_is_asked()
    assert slow.differed.empty() and fast.differed.empty()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1.0, math.nan], [1.0, math.nan], True),
        ([1.0, None], [1.0, math.nan], False),
        ([1.0], [1.0, 1.0], False),
        ([], [], True),
    ],
)
def test_answers_are_compared_by_their_values(one: list[float], other: list[float], same: bool) -> None:
    left, right = (pa.RecordBatch.from_pylist([{"x": x} for x in found]) for found in (one, other))
    assert first_answer._same([left] if one else [], [right]) == same


def test_an_answer_that_is_asked_for_again_needs_no_rows(host: Started) -> None:
    primary, standby = host(refuses("suspended")), host(says(7))
    assert recall(primary, standby) == [7]
    assert {kind for kind, _ in (*primary.asked, *standby.asked)} == {RecallAnswer}


def test_an_answer_that_nobody_kept_is_refused(host: Started) -> None:
    with pytest.raises(Refused, match="it is gap"):
        recall(gone(host), host(refuses("gap")))
