"""A Spark worker keeps its connections to hosts, but not to those that are gone."""

from __future__ import annotations

import contextlib
import socket
import threading

import pyarrow as pa
import pytest

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import accept
from perseid.channel.protocol import REQUEST
from perseid.engine.messages import ApplyEpoch, RowsFollow
from perseid.errors import ChannelError
from perseid.spark import exchange
from perseid.spark.exchange import Exchange
from perseid.vocabulary import Epoch, OperatorName, ShardId, Version

SECRET = b"s" * 32
SCHEMA = pa.schema([("a", pa.int64())])


class AnsweringHost:
    """Takes one connection and answers every epoch with a word, until it is ended."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self.server.getsockname())
        self.connection: Connection | None = None
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self.connection = accept(self.server.accept()[0], SECRET, "", ("epochs",))
        with contextlib.suppress(ChannelError):
            while True:
                self.connection.hear(REQUEST)
                _, batches = self.connection.receive_rows()
                list(batches)
                self.connection.tell(RowsFollow())

    def end(self) -> None:
        assert self.connection is not None
        self.connection.abort()
        self.thread.join()
        self.connection.close()
        self.server.close()


def test_connections_to_hosts_that_are_gone_are_closed_and_others_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str, int, str], Connection] = {}
    monkeypatch.setattr(exchange, "_connections", kept)
    one = Exchange(OperatorName("o"), Version(1), (), Epoch(0), (), SECRET, b"", b"")
    hosts = [AnsweringHost() for _ in range(3)]
    gone, alive, new = hosts

    def ask(host: AnsweringHost) -> Connection:
        request = ApplyEpoch(ShardId(OperatorName("o"), 0), Epoch(1), Version(1), Epoch(0), 0)
        connection, answer = one._send(host.address, request, SCHEMA, iter(()))
        assert answer == RowsFollow()
        return connection

    lost, same = ask(gone), ask(alive)
    gone.end()
    ask(new)
    assert lost not in kept.values() and len(kept) == 2
    assert ask(alive) is same, "it is used again"
    for host in (alive, new):
        host.end()
    for connection in kept.values():
        connection.close()
