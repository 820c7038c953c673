"""The channel: messages, rows and files; nothing that a peer claims is believed."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading

import pyarrow as pa
import pytest

from perseid.channel import blocked
from perseid.channel.connection import Address
from perseid.channel.handshake import accept, connect
from perseid.errors import ChannelError, NotAuthentic

SECRET = b"s" * 32


def serve(answer, secret: bytes = SECRET, timeout: float = 5.0) -> tuple[Address, threading.Thread, list[object]]:  # type: ignore[no-untyped-def]
    server = socket.create_server(("127.0.0.1", 0))
    seen: list[object] = []

    def run() -> None:
        sock, _ = server.accept()
        with contextlib.ExitStack() as closing:
            closing.callback(server.close)
            try:
                connection = accept(sock, secret, "", ("epochs",), timeout=timeout)
                closing.callback(connection.close)
                answer(connection, seen)
            except ChannelError as error:
                seen.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return Address(*server.getsockname()), thread, seen


def test_messages_and_rows_go_both_ways() -> None:
    table = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]})

    def answer(connection, seen) -> None:  # type: ignore[no-untyped-def]
        seen.append(connection.receive())
        schema, batches = connection.receive_rows()
        rows = pa.Table.from_batches(list(batches), schema=schema)
        connection.send({"status": "ok"})
        connection.send_rows(rows.schema, rows.to_batches())

    address, thread, seen = serve(answer)
    connection = connect(address, SECRET, "epochs")
    connection.send({"hello": 1})
    connection.send_rows(table.schema, table.to_batches())
    assert connection.receive() == {"status": "ok"}
    schema, batches = connection.receive_rows()
    assert pa.Table.from_batches(list(batches), schema=schema) == table
    thread.join()
    assert seen == [{"hello": 1}]


def test_a_peer_with_another_secret_is_refused_by_both_sides() -> None:
    address, thread, seen = serve(lambda c, s: None)
    with pytest.raises(NotAuthentic):
        connect(address, b"x" * 32, "epochs")
    thread.join()
    assert isinstance(seen[0], ChannelError)


@pytest.mark.parametrize(
    "data", [struct.pack(">I", 2 << 30), b"GET / HTTP/1.1\r\n\r\n" * 40, b"\x00\x00\x00\x02{}", b""]
)
def test_a_peer_that_does_not_speak_the_protocol_is_dropped(data: bytes) -> None:
    address, thread, seen = serve(lambda c, s: None)
    with socket.create_connection((address.host, address.port)) as peer:
        peer.sendall(data)
    thread.join()
    assert isinstance(seen[0], ChannelError)


def test_a_half_open_connection_is_given_up() -> None:
    address, thread, seen = serve(lambda c, s: None, timeout=0.2)
    with socket.create_connection((address.host, address.port)):
        thread.join()
    assert "in time" in str(seen[0])


def test_an_authentic_peer_cannot_claim_a_message_of_two_gigabytes() -> None:
    def answer(connection, seen) -> None:  # type: ignore[no-untyped-def]
        connection.receive()

    address, thread, seen = serve(answer)
    connection = connect(address, SECRET, "epochs")
    connection._writer.write(struct.pack(">I", 2_000_000_000))
    connection._writer.flush()
    thread.join()
    assert "claims a message of 2000000000 bytes" in str(seen[0])


def test_an_authentic_peer_cannot_claim_an_absurd_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.channel.connection.BUFFER_BYTES", 1 << 16)

    def answer(connection, seen) -> None:  # type: ignore[no-untyped-def]
        _, batches = connection.receive_rows()
        list(batches)

    address, thread, seen = serve(answer)
    connection = connect(address, SECRET, "epochs")
    big = pa.table({"a": pa.array(range(100_000), pa.int64())})
    with pytest.raises(ChannelError):
        for _ in range(50):
            connection.send_rows(big.schema, big.to_batches())
    thread.join()
    assert "buffer" in str(seen[0])


def test_a_connection_that_breaks_in_the_middle_of_a_stream_is_an_error() -> None:
    def answer(connection, seen) -> None:  # type: ignore[no-untyped-def]
        _, batches = connection.receive_rows()
        list(batches)

    address, thread, seen = serve(answer)
    connection = connect(address, SECRET, "epochs")
    sink = pa.BufferOutputStream()
    table = pa.table({"a": pa.array(range(1000), pa.int64())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    connection._writer.write(sink.getvalue().to_pybytes()[:-600])
    connection._writer.flush()
    connection.close()
    thread.join()
    assert isinstance(seen[0], ChannelError)


def test_a_cut_drops_the_connection_and_refuses_new_ones_until_it_is_healed(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(blocked, "_allowed", None)  # whatever tests before this one have allowed
    monkeypatch.setenv("PERSEID_CUTS", "an environment variable alone cuts nothing")
    assert blocked.guard(1, driver=True) is None
    monkeypatch.setattr(blocked, "_allowed", str(tmp_path))

    def answer(connection, seen) -> None:  # type: ignore[no-untyped-def]
        seen.append(connection.receive())
        seen.append(connection.receive())

    address, thread, seen = serve(answer)
    connection = connect(address, SECRET, "epochs")
    connection.send({"first": 1})
    stranger = tmp_path / "stranger"
    stranger.write_text(json.dumps({"from": [1 << 30], "to": "driver"}))
    cut = tmp_path / "cut"
    cut.write_text(json.dumps({"from": [os.getpid()], "to": "driver"}))
    with pytest.raises(ChannelError, match="was cut"):
        connection.send({"second": 2})
    thread.join()
    assert seen[0] == {"first": 1} and isinstance(seen[1], ChannelError)
    with pytest.raises(ChannelError, match="is cut"):
        connect(address, SECRET, "epochs")
    cut.unlink()
    address, thread, seen = serve(answer)
    healed = connect(address, SECRET, "epochs")
    healed.send({"third": 3})
    healed.close()
    thread.join()
    assert seen[0] == {"third": 3}


def test_a_file_comes_whole_or_not_at_all(tmp_path) -> None:  # type: ignore[no-untyped-def]
    there = tmp_path / "there"
    there.write_bytes(os.urandom(3_000_000))

    def answer(connection, seen) -> None:  # type: ignore[no-untyped-def]
        connection.send_file(there)
        connection.send_file(tmp_path / "nowhere")
        connection.send({"bytes": 1_000})
        connection._writer.write(b"x" * 10)
        connection._writer.flush()

    address, thread, _ = serve(answer)
    connection = connect(address, SECRET, "epochs")
    assert connection.receive_file(tmp_path / "a" / "here") == 3_000_000
    assert (tmp_path / "a" / "here").read_bytes() == there.read_bytes()
    for reason in ("does not have the file", "closed the connection"):
        with pytest.raises(ChannelError, match=reason):
            connection.receive_file(tmp_path / "a" / "other")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["here"]
    connection.close()
    thread.join()


def test_a_connection_knows_that_its_peer_has_gone() -> None:
    gate = threading.Event()
    address, thread, _ = serve(lambda connection, seen: gate.wait())
    connection = connect(address, SECRET, "epochs")
    assert not connection.ended
    gate.set()
    thread.join()
    assert connection.ended
    connection.close()
