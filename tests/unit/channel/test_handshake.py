"""The handshake and the seals after it: what strangers and somebody in the middle try, and what becomes of it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.channel.connection import Address, Connection, machine_id
from perseid.channel.handshake import accept, connect
from perseid.errors import ChannelError, NotAuthentic

SECRET = b"s" * 32


class Server:
    """Accepts connections of one purpose under one name, and keeps what it is sent."""

    def __init__(
        self, name: str, purposes: tuple[str, ...] = ("epochs",), unix: str = "", timeout: float = 5.0
    ) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        if unix:
            self.socket.close()
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.bind(unix)
            self.socket.listen()
        host, port = ("127.0.0.1", 1) if unix else self.socket.getsockname()
        self.address = Address(host, port, unix, machine_id() if unix else "", name)
        self.messages: list[dict[str, Any]] = []
        self.errors: list[ChannelError] = []
        self.connections: list[Connection] = []
        self._name, self._purposes, self._timeout = name, purposes, timeout
        self.accepted = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.socket.accept()
                try:
                    connection = accept(sock, SECRET, self._name, self._purposes, timeout=self._timeout)
                    self.connections.append(connection)
                    while True:
                        self.messages.append(connection.receive())
                except ChannelError as error:
                    self.errors.append(error)
                finally:
                    sock.close()
                    self.accepted.release()

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def servers() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(*args: Any, **options: Any) -> Server:
        made.append(Server(*args, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


class Relay:
    """Somebody in the middle: passes every frame on, as ``change`` makes it. Frames are a length and so many bytes (and a tag)."""

    def __init__(self, aim: Address, change: Callable[[str, int, bytes], list[bytes]]) -> None:
        self._aim, self._change = aim, change
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._run, daemon=True).start()

    def address(self, name: str) -> Address:
        host, port = self.socket.getsockname()
        return Address(host, port, name=name)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.socket.accept()
                far = socket.create_connection((self._aim.host, self._aim.port))
                for side, one, other in (("client", near, far), ("server", far, near)):
                    threading.Thread(target=self._pass_on, args=(side, one, other), daemon=True).start()

    def _pass_on(self, side: str, one: socket.socket, other: socket.socket) -> None:
        file, number = one.makefile("rb"), 0
        with contextlib.suppress(OSError, struct.error):
            while head := file.read(4):
                (length,) = struct.unpack(">I", head)
                plain = 2 if side == "client" else 1  # so many frames of each side are the handshake
                frame = head + file.read(length + (16 if number >= plain else 0))
                for changed in self._change(side, number, frame):
                    other.sendall(changed)
                number += 1
        for sock in (one, other):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def faithful(side: str, number: int, frame: bytes) -> list[bytes]:
    return [frame]


def test_a_handshake_passed_on_to_another_server_of_the_application_is_refused(servers: Callable[..., Server]) -> None:
    other = servers("other")
    relay = Relay(other.address, faithful)
    with pytest.raises(NotAuthentic, match="not the server that was looked for"):
        connect(relay.address("wanted"), SECRET, "epochs")

    def renamed(side: str, number: int, frame: bytes) -> list[bytes]:
        if (side, number) != ("client", 0):
            return [frame]
        body = json.dumps({**json.loads(frame[4:]), "server": "other"}).encode()
        return [struct.pack(">I", len(body)) + body]

    with pytest.raises(NotAuthentic, match="another server"):
        connect(Relay(other.address, renamed).address("wanted"), SECRET, "epochs")
    assert not other.connections


def test_a_proof_for_one_purpose_is_none_for_another(servers: Callable[..., Server]) -> None:
    server = servers("host", ("epochs", "backups"))

    def repurposed(side: str, number: int, frame: bytes) -> list[bytes]:
        if (side, number) != ("client", 0):
            return [frame]
        body = json.dumps({**json.loads(frame[4:]), "purpose": "backups"}).encode()
        return [struct.pack(">I", len(body)) + body]

    with pytest.raises(NotAuthentic):
        connect(Relay(server.address, repurposed).address("host"), SECRET, "epochs")
    with pytest.raises(NotAuthentic):
        connect(server.address, SECRET, "control")
    assert not server.connections


def test_nobody_in_the_middle_can_talk_a_peer_out_of_its_seals(servers: Callable[..., Server]) -> None:
    server = servers("host")

    def unsealed(side: str, number: int, frame: bytes) -> list[bytes]:
        if (side, number) != ("client", 0):
            return [frame]
        body = json.dumps({**json.loads(frame[4:]), "sealed": False}).encode()
        return [struct.pack(">I", len(body)) + body]

    with pytest.raises(ChannelError):
        connect(Relay(server.address, unsealed).address("host"), SECRET, "epochs", timeout=1)
    assert not server.connections


TRICKS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "flips a bit": lambda f: [f[0], f[1][:-20] + bytes([f[1][-20] ^ 1]) + f[1][-19:], f[2]],
    "flips a bit of a seal": lambda f: [f[0], f[1][:-1] + bytes([f[1][-1] ^ 1]), f[2]],
    "repeats": lambda f: [f[0], f[0], f[1], f[2]],
    "leaves out": lambda f: [f[0], f[2]],
    "puts in another order": lambda f: [f[0], f[2], f[1]],
    "cuts short": lambda f: [f[0], struct.pack(">I", len(f[1]) - 21) + f[1][4:-17] + f[1][-16:], f[2]],
    "injects": lambda f: [f[0], struct.pack(">I", 11) + b"\0\0\0\x07{\"a\":1}" + bytes(16), f[1], f[2]],
    "claims much": lambda f: [f[0], struct.pack(">I", 1 << 30) + bytes(100), f[1]],
    "begins in the middle": lambda f: [f[1], f[2]],
}  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_after_a_faithful_handshake_nothing_can_be_changed_on_the_way(
    servers: Callable[..., Server], trick: str
) -> None:
    server = servers("host")
    held: list[bytes] = []

    def meddle(side: str, number: int, frame: bytes) -> list[bytes]:
        if side == "server" or number < 2:  # hello and proof
            return [frame]
        held.append(frame)
        return TRICKS[trick](held) if len(held) == 3 else []

    connection = connect(Relay(server.address, meddle).address("host"), SECRET, "epochs")
    for number in (1, 2, 3):
        connection.send({"transfer": number})
    assert server.accepted.acquire(timeout=30)
    assert isinstance(server.errors[-1], (NotAuthentic, ChannelError))
    right = [{"transfer": number} for number in (1, 2, 3)]
    assert server.messages == right[: len(server.messages)] and len(server.messages) < 3
    if trick not in ("cuts short",):
        assert isinstance(server.errors[-1], NotAuthentic)
    connection.close()


def test_what_a_peer_sent_is_not_taken_from_it_when_it_comes_back(servers: Callable[..., Server]) -> None:
    """Both directions have keys of their own: an echo is refused."""
    server = servers("host")
    echoed: list[bytes] = []
    back: list[socket.socket] = []

    def reflect(side: str, number: int, frame: bytes) -> list[bytes]:
        if side == "client" and number >= 2:
            echoed.append(frame)
            back[0].sendall(frame)
            return []
        return [frame]

    relay = Relay(server.address, reflect)
    run = relay._pass_on

    def pass_on(side: str, one: socket.socket, other: socket.socket) -> None:
        if side == "client":
            back.append(one)
        run(side, one, other)

    relay._pass_on = pass_on  # type: ignore[method-assign]
    connection = connect(relay.address("host"), SECRET, "epochs")
    connection.send({"kind": "stop"})
    with pytest.raises(NotAuthentic, match="was not sent so"):
        connection.receive()
    assert echoed and not server.messages
    connection.close()


def test_a_proof_sent_back_is_refused(servers: Callable[..., Server]) -> None:
    server = servers("host")
    with socket.create_connection((server.address.host, server.address.port)) as peer:
        _say(peer, {"nonce": "00" * 16, "purpose": "epochs", "server": "host", "sealed": True})
        answer = _hear(peer)
        _say(peer, {"proof": answer["proof"]})
        assert server.accepted.acquire(timeout=30)
    assert isinstance(server.errors[0], NotAuthentic) and not server.connections


@pytest.mark.parametrize("proof", ["ÿ" * 64, "\ud800", 7, None, ["a"], {}, "", "00" * 32])
def test_a_proof_of_any_kind_closes_the_connection_without_a_traceback(
    servers: Callable[..., Server], proof: Any
) -> None:
    server = servers("host")
    with socket.create_connection((server.address.host, server.address.port)) as peer:
        _say(peer, {"nonce": "00" * 16, "purpose": "epochs", "server": "host", "sealed": True})
        _hear(peer)
        _say(peer, {"proof": proof})
        assert server.accepted.acquire(timeout=30)
        assert peer.recv(1) == b""
    assert isinstance(server.errors[0], NotAuthentic) and not server.connections


@pytest.mark.parametrize(
    "hello",
    [{"nonce": "é" * 32}, {"nonce": 5}, {"nonce": "0"}, {"nonce": "00" * 15}, {"purpose": ["epochs"]}, {"server": None}],
)  # fmt: skip
def test_a_hello_of_any_kind_closes_the_connection_without_a_traceback(
    servers: Callable[..., Server], hello: dict[str, Any]
) -> None:
    server = servers("host")
    with socket.create_connection((server.address.host, server.address.port)) as peer:
        _say(peer, {"nonce": "00" * 16, "purpose": "epochs", "server": "host", "sealed": True} | hello)
        assert server.accepted.acquire(timeout=30)
    assert isinstance(server.errors[0], ChannelError) and not server.connections


def test_a_peer_that_sends_one_byte_now_and_then_is_given_up_at_the_one_deadline(
    servers: Callable[..., Server],
) -> None:
    server = servers("host", timeout=0.4)
    with socket.create_connection((server.address.host, server.address.port)) as peer:
        peer.settimeout(30)
        with contextlib.suppress(OSError):
            for byte in struct.pack(">I", 400) + b" " * 400:  # 40 s at this pace: no read ever waits for long
                peer.send(bytes([byte]))
                if server.accepted.acquire(timeout=0.1):
                    break
    assert "in time" in str(server.errors[0])


def test_a_server_that_sends_one_byte_now_and_then_is_given_up_as_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            sock, _ = server.accept()
            with contextlib.suppress(OSError), sock:
                for byte in struct.pack(">I", 400) + b" " * 400:
                    sock.send(bytes([byte]))
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(ChannelError, match="in time"):
            connect(Address(*server.getsockname()), SECRET, "epochs", timeout=0.4)


def test_one_that_belongs_here_comes_again_when_it_is_shown_out(servers: Callable[..., Server]) -> None:
    turned_away = 0
    server = servers("host")
    with socket.create_server(("127.0.0.1", 0)) as door:

        def run() -> None:
            nonlocal turned_away
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = door.accept()
                    if turned_away < 3:
                        turned_away += 1
                        sock.close()
                    else:
                        accept(sock, SECRET, "host", ("epochs",))

        threading.Thread(target=run, daemon=True).start()
        host, port = door.getsockname()
        connect(Address(host, port, name="host"), SECRET, "epochs").close()
    assert turned_away == 3
    server.close()


def test_over_a_unix_socket_the_kernel_vouches_for_a_process_of_the_same_user(
    servers: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers("host", unix=str(tmp_path / "socket"))
    connection = connect(server.address, SECRET, "epochs")
    connection.send({"a": 1})
    assert not hasattr(connection._writer, "_tags"), "rows between processes of one machine cost what they did"
    connection.close()
    assert server.accepted.acquire(timeout=30)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)  # as if both ends were other users than the kernel says
    connection = connect(server.address, SECRET, "epochs")
    assert hasattr(connection._writer, "_tags")
    connection.close()
    assert server.accepted.acquire(timeout=30)
    assert server.messages == [{"a": 1}] and len(server.connections) == 2


@given(
    sizes=st.lists(st.integers(0, 300_000), max_size=6),
    reads=st.lists(st.integers(5_000, 400_000), min_size=1, max_size=6),
)
@settings(deadline=None, max_examples=20)
def test_sealed_bytes_come_as_they_were_written_in_whatever_pieces_they_are_read(
    sizes: list[int], reads: list[int]
) -> None:
    one, other = socket.socketpair()
    keys = os.urandom(32), os.urandom(32)
    sender = Connection(one, purpose="epochs", keys=keys)
    receiver = Connection(other, purpose="epochs", keys=keys[::-1])
    data = [os.urandom(size) for size in sizes]

    def write() -> None:
        for piece in data:
            sender._writer.write(piece)
        sender._writer.flush()
        sender.close()

    thread = threading.Thread(target=write)
    thread.start()
    found, number = b"", 0
    while more := receiver._reader.read(reads[number % len(reads)]):
        found, number = found + more, number + 1
    thread.join()
    receiver.close()
    assert found == b"".join(data)


def test_rows_of_all_sizes_pass_a_sealed_connection(servers: Callable[..., Server]) -> None:
    one, other = socket.socketpair()
    keys = os.urandom(32), os.urandom(32)
    sender = Connection(one, purpose="epochs", keys=keys)
    receiver = Connection(other, purpose="epochs", keys=keys[::-1])
    table = pa.table({"a": pa.array(range(300_000), pa.int64()), "s": [str(n) for n in range(300_000)]})
    thread = threading.Thread(target=lambda: sender.send_rows(table.schema, table.to_batches(max_chunksize=70_000)))
    thread.start()
    schema, batches = receiver.receive_rows()
    assert pa.Table.from_batches(list(batches), schema=schema).equals(table)
    thread.join()
    for connection in (sender, receiver):
        connection.close()


def _say(sock: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    sock.sendall(struct.pack(">I", len(data)) + data)


def _hear(sock: socket.socket) -> dict[str, Any]:
    file = sock.makefile("rb", buffering=0)
    (length,) = struct.unpack(">I", file.read(4) or b"")
    found: dict[str, Any] = json.loads(file.read(length) or b"")
    return found
