"""Little hosts that listen, prove the secret, and say what a test wants them to say; and what a task asks them."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from perseid.channel.connection import Address, Connection
from perseid.channel.listener import Listener
from perseid.channel.protocol import FROM_TASK
from perseid.engine.messages import AnswerDiffered, ApplyEpoch, Request, RowsFollow
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError
from perseid.vocabulary import Epoch, OperatorName, ShardId, Version

SECRET = b"s" * 32
SCHEMA = pa.schema([("a", pa.int64())])
SHARD = ShardId(OperatorName("o"), 0)

Answer = Callable[[Connection, list[int] | None], None]
"""To these rows, or (None) to the question whether the answer is there."""


def request(epoch: int = 1) -> ApplyEpoch:
    return ApplyEpoch(SHARD, Epoch(epoch), Version(1), Epoch(0), 0)


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [n for batch in batches for n in batch.column(0).to_pylist()]


def says(*answer: int) -> Answer:
    def say(connection: Connection, numbers: list[int] | None) -> None:
        connection.tell(RowsFollow())
        connection.send_rows(SCHEMA, [rows(*answer)])

    return say


def doubled(connection: Connection, numbers: list[int] | None) -> None:
    if numbers is None:
        connection.tell(Refusal("gap", "there is no answer to recall"))
        return
    says(*(2 * n for n in numbers))(connection, numbers)


def refuses(kind: str) -> Answer:
    return lambda connection, numbers: connection.tell(Refusal(kind, f"it is {kind}"))  # type: ignore[arg-type]


def dies(connection: Connection, numbers: list[int] | None) -> None:
    connection.abort()


def breaks_off(connection: Connection, numbers: list[int] | None) -> None:
    """Dies when the first of its rows are out."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        yield rows(*range(100_000))
        connection.abort()
        yield rows(*range(1_000_000))

    connection.tell(RowsFollow())
    connection.send_rows(SCHEMA, batches())


class Sleeps:
    """Says nothing before it is woken, and then what it would have said."""

    def __init__(self, then: Answer = doubled) -> None:
        self.then, self.awake = then, threading.Event()

    def __call__(self, connection: Connection, numbers: list[int] | None) -> None:
        self.awake.wait()
        self.then(connection, numbers)


class AnsweringHost:
    """Says one thing after the other, and the last again and again."""

    def __init__(self, *answers: Answer) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*server.getsockname())
        self.answers = list(answers) or [doubled]
        self.asked: list[tuple[type[Request], list[int]]] = []
        self.differed: queue.Queue[AnswerDiffered] = queue.Queue()  # what it was told of its answers
        self.coming: queue.Queue[None] = queue.Queue()  # one for each that it was asked
        self.connections: list[Connection] = []
        self.listener = Listener(server, SECRET, "", ("epochs",), self._serve)

    def _serve(self, connection: Connection) -> None:
        self.connections.append(connection)
        with contextlib.suppress(ChannelError, OSError):
            while True:
                asked = connection.hear(FROM_TASK)
                if isinstance(asked, AnswerDiffered):
                    self.differed.put(asked)
                    continue
                sent = numbers(connection.receive_rows()[1]) if isinstance(asked, ApplyEpoch) else None
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                self.asked.append((type(asked), sent or []))
                self.coming.put(None)
                answer(connection, sent)
        connection.close()

    def is_asked(self) -> None:
        """Wait until it is asked, once more than the last time."""
        self.coming.get(timeout=60)

    def end(self) -> None:
        self.listener.close()
        for answer in self.answers:
            if isinstance(answer, Sleeps):
                answer.awake.set()
        for connection in self.connections:
            connection.abort()
