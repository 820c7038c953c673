"""A task asks a shard at its host, hands on the answer as it comes, and keeps its connections, but not to hosts that are gone."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from answering_hosts import SCHEMA, SECRET, Answer, AnsweringHost, breaks_off, dies, numbers, refuses, request, rows

from perseid.channel.connection import Connection
from perseid.engine.messages import RowsFollow
from perseid.spark import asking
from perseid.spark.asking import Place, Refused, Unreachable, answers, key_of, send
from perseid.vocabulary import HostId

Started = Callable[..., AnsweringHost]


@pytest.fixture(autouse=True)
def kept() -> Iterator[dict[tuple[str, str, int, str], Connection]]:
    """The connections that this Python worker keeps."""
    asking._connections.clear()
    yield asking._connections
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


def ask(host: AnsweringHost, sent: Iterator[pa.RecordBatch] | None = None) -> Iterator[pa.RecordBatch]:
    batches = iter([rows(1, 2), rows(3)]) if sent is None else sent
    return answers(Place(HostId(1), host.address), SECRET, request(), SCHEMA, batches)


def test_what_the_host_says_is_handed_on(host: Started) -> None:
    assert numbers(ask(host())) == [2, 4, 6]


def test_connections_to_hosts_that_are_gone_are_closed_and_others_kept(
    kept: dict[tuple[str, str, int, str], Connection], host: Started
) -> None:
    gone, alive, new = host(), host(), host()

    def sent(to: AnsweringHost) -> Connection:
        connection, answer = send(to.address, SECRET, request(), SCHEMA, iter(()))
        assert answer == RowsFollow()
        _, batches = connection.receive_rows()
        assert numbers(batches) == []
        return connection

    lost, same = sent(gone), sent(alive)
    gone.end()
    select.select([lost], [], [])  # until its end has arrived
    sent(new)
    assert lost not in kept.values() and len(kept) == 2
    assert sent(alive) is same, "it is used again"


def test_a_connection_that_was_taken_is_nobody_elses_until_it_is_given_back(host: Started) -> None:
    one = host()
    assert asking.take(one.address) is None
    numbers(ask(one))
    taken = asking.take(one.address)
    assert taken is not None and asking.take(one.address) is None
    asking.keep(one.address, taken)
    assert asking.take(one.address) is taken
    taken.close()


def test_of_two_connections_to_a_host_one_is_kept(
    kept: dict[tuple[str, str, int, str], Connection], host: Started
) -> None:
    one = host()
    numbers(ask(one))
    first = asking.take(one.address)
    numbers(ask(one))
    assert first is not None
    asking.keep(one.address, first)
    assert kept[key_of(one.address)] is not first


def test_a_host_that_breaks_off_is_named(host: Started) -> None:
    found = ask(host(breaks_off))
    assert next(found).column(0).to_pylist() == [1]
    with pytest.raises(Unreachable, match="host 1 at"):
        list(found)


def test_a_host_that_is_not_there_is_named(host: Started) -> None:
    gone = host()
    gone.end()
    with pytest.raises(Unreachable, match="host 1 at") as error:
        numbers(ask(gone))
    assert error.value.host == 1


def test_a_host_that_dies_is_named(host: Started) -> None:
    with pytest.raises(Unreachable, match="host 1 at"):
        numbers(ask(host(dies)))


def test_a_refusal_is_an_answer_and_the_connection_is_kept(
    kept: dict[tuple[str, str, int, str], Connection], host: Started
) -> None:
    with pytest.raises(Refused, match="it is stale") as error:
        numbers(ask(host(refuses("stale"))))
    assert (error.value.host, error.value.refusal.kind) == (1, "stale")
    assert len(kept) == 1


def test_rows_that_cannot_be_had_are_no_fault_of_the_host(
    kept: dict[tuple[str, str, int, str], Connection], host: Started
) -> None:
    def cut_short() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        raise EOFError("the input ended early")

    with pytest.raises(EOFError):
        numbers(ask(host(), cut_short()))
    assert kept == {}, "half of a stream is on its way: nothing may follow it"
