"""A task asks a shard at its places, one after the other, and keeps its connections, but not to hosts that are gone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import accept
from perseid.channel.protocol import REQUEST
from perseid.engine.messages import ApplyEpoch, RowsFollow
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError
from perseid.spark import asking
from perseid.spark.asking import Asking, Place, Refused, Target, Unreachable, send
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, Version

SECRET = b"s" * 32
SCHEMA = pa.schema([("a", pa.int64())])
REQUEST_ONE = ApplyEpoch(ShardId(OperatorName("o"), 0), Epoch(1), Version(1), Epoch(0), 0)
PATIENCE_S = 0.2

Answers = Callable[[Connection, list[int]], None]


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def doubled(connection: Connection, numbers: list[int]) -> None:
    connection.tell(RowsFollow())
    connection.send_rows(SCHEMA, [rows(*(2 * n for n in numbers))])


def refused(connection: Connection, numbers: list[int]) -> None:
    connection.tell(Refusal("stale", "another one has it"))


def broken_off(connection: Connection, numbers: list[int]) -> None:
    """Dies when the first of its rows are out."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        yield rows(*range(100_000))
        connection.abort()
        yield rows(*range(1_000_000))

    connection.tell(RowsFollow())
    connection.send_rows(SCHEMA, batches())


def dead(connection: Connection, numbers: list[int]) -> None:
    connection.abort()


class AnsweringHost:
    """Takes one connection and answers every epoch, until it is ended."""

    def __init__(self, answer: Answers = doubled) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self.server.getsockname())
        self.answer = answer
        self.asked: list[list[int]] = []
        self.connection: Connection | None = None
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(ChannelError, OSError):
            self.connection = accept(self.server.accept()[0], SECRET, "", ("epochs",))
            while True:
                self.connection.hear(REQUEST)
                _, batches = self.connection.receive_rows()
                numbers = [n for batch in batches for n in batch.column(0).to_pylist()]
                self.asked.append(numbers)
                self.answer(self.connection, numbers)

    def end(self) -> None:
        if self.connection is not None:
            self.connection.abort()
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        if self.connection is not None:
            self.connection.close()
        self.server.close()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[str, str, int, str], Connection]]:
    connections: dict[tuple[str, str, int, str], Connection] = {}
    monkeypatch.setattr(asking, "_connections", connections)
    yield connections
    for connection in connections.values():
        connection.close()


@pytest.fixture
def host() -> Iterator[Callable[[Answers], AnsweringHost]]:
    with contextlib.ExitStack() as stack:

        def started(answer: Answers = doubled) -> AnsweringHost:
            one = AnsweringHost(answer)
            stack.callback(one.end)
            return one

        yield started


def ask(*hosts: AnsweringHost, sent: Iterator[pa.RecordBatch] | None = None) -> Iterator[pa.RecordBatch]:
    places = tuple(Place(HostId(number), host.address) for number, host in enumerate(hosts, start=1))
    batches = iter([rows(1, 2), rows(3)]) if sent is None else sent
    return Asking(Target(0, places, PATIENCE_S), SECRET).answers(REQUEST_ONE, SCHEMA, batches)


def numbers(answers: Iterator[pa.RecordBatch]) -> list[int]:
    return [n for batch in answers for n in batch.column(0).to_pylist()]


def test_connections_to_hosts_that_are_gone_are_closed_and_others_kept(
    kept: dict[tuple[str, str, int, str], Connection], host: Callable[..., AnsweringHost]
) -> None:
    gone, alive, new = host(), host(), host()

    def sent(to: AnsweringHost) -> Connection:
        connection, answer = send(to.address, SECRET, REQUEST_ONE, SCHEMA, iter(()))
        assert answer == RowsFollow()
        _, batches = connection.receive_rows()
        assert numbers(batches) == []
        return connection

    lost, same = sent(gone), sent(alive)
    gone.end()
    sent(new)
    assert lost not in kept.values() and len(kept) == 2
    assert sent(alive) is same, "it is used again"


@pytest.mark.usefixtures("kept")
def test_the_first_place_answers_and_no_other_is_asked(host: Callable[..., AnsweringHost]) -> None:
    primary, standby = host(), host()
    assert numbers(ask(primary, standby)) == [2, 4, 6]
    assert standby.asked == []


@pytest.mark.usefixtures("kept")
def test_who_is_silent_is_left_and_the_next_gets_all_rows(host: Callable[..., AnsweringHost]) -> None:
    woken = threading.Event()
    primary, standby = host(lambda *_: woken.wait() and None), host()
    assert numbers(ask(primary, standby)) == [2, 4, 6]
    assert primary.asked == standby.asked == [[1, 2, 3]]
    woken.set()


@pytest.mark.usefixtures("kept")
def test_who_broke_off_before_its_answer_is_left(host: Callable[..., AnsweringHost]) -> None:
    assert numbers(ask(host(dead), host())) == [2, 4, 6]


@pytest.mark.usefixtures("kept")
def test_who_is_not_there_is_left(host: Callable[..., AnsweringHost]) -> None:
    gone = host()
    gone.end()
    assert numbers(ask(gone, host())) == [2, 4, 6]


@pytest.mark.usefixtures("kept")
def test_nobody_else_is_asked_once_a_row_was_handed_on(host: Callable[..., AnsweringHost]) -> None:
    standby = host()
    answers = ask(host(broken_off), standby)
    assert next(answers).column(0).to_pylist() == [1]
    with pytest.raises(Unreachable, match="host 1 at"):
        list(answers)
    assert standby.asked == []


@pytest.mark.usefixtures("kept")
def test_a_refusal_is_an_answer(host: Callable[..., AnsweringHost]) -> None:
    standby = host()
    with pytest.raises(Refused, match="another one has it"):
        numbers(ask(host(refused), standby))
    assert standby.asked == []


@pytest.mark.usefixtures("kept")
def test_the_last_that_cannot_be_reached_is_named(host: Callable[..., AnsweringHost]) -> None:
    with pytest.raises(Unreachable, match="host 2 at") as error:
        numbers(ask(host(dead), host(dead)))
    assert error.value.host == 2


@pytest.mark.usefixtures("kept")
def test_rows_that_cannot_be_had_are_no_fault_of_a_host(host: Callable[..., AnsweringHost]) -> None:
    def cut_short() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        raise EOFError("the input ended early")

    standby = host()
    with pytest.raises(EOFError):
        numbers(ask(host(), standby, sent=cut_short()))
    assert standby.asked == []
