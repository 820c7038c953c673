"""How two processes of one application come to trust a connection.

    client → server   nonce, purpose, name of the server it looks for, whether what follows is sealed
    server → client   nonce, proof
    client → server   proof
    server → client   welcome

A proof is an HMAC with the application's secret over all that was said: both nonces, purpose, server and side. So a proof is of no use to
another server, for another purpose, in another connection, or sent back. The keys of the session are made of the same. Somebody in the
middle who passes a handshake on faithfully has two peers that trust each other and not him: every piece that follows is sealed
(``sealed_stream``). Not so over a Unix socket whose other end is, as the kernel says, a process of the same user: nobody can be in the
middle of that.

One deadline is for all of it, not for each read; until a peer has proved itself it is believed nothing, and may send a few hundred bytes.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Collection
from typing import Any, Literal

from perseid.channel import blocked
from perseid.channel.connection import Address, Connection, machine_id
from perseid.errors import ChannelError, NotAuthentic

HANDSHAKE_SECONDS = 5.0
HANDSHAKE_BYTES = 512
NONCE_BYTES = 16
Purpose = Literal["control", "epochs", "backups", "copies", "heart"]
_ATTEMPTS = 8  # at a server that hangs up, as one does that is flooded
_FIRST_PAUSE_S = 0.02
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")


class _HungUp(ChannelError):
    """The server closed the connection in the middle of the handshake."""


def connect(address: Address, secret: bytes, purpose: Purpose, *, timeout: float = HANDSHAKE_SECONDS) -> Connection:
    """Open a connection and prove the secret. Takes the Unix socket where peer and caller share a machine."""
    until = time.monotonic() + timeout
    is_cut = blocked.guard(address.port, driver=not address.unix)
    if is_cut is not None and is_cut():
        raise ChannelError(f"{address}: cannot connect: the connection is cut")
    for attempt in range(_ATTEMPTS):
        sock = _open(address, until)
        try:
            connection = _introduced(sock, address, secret, purpose, until)
        except _HungUp:
            sock.close()
            pause = _FIRST_PAUSE_S * 2**attempt
            if attempt == _ATTEMPTS - 1 or time.monotonic() + pause > until:
                raise
            time.sleep(pause)
        except BaseException:
            sock.close()
            raise
        else:
            connection.is_cut = is_cut
            return connection
    raise AssertionError("unreachable")


def accept(
    sock: socket.socket,
    secret: bytes,
    name: str,
    purposes: Collection[str],
    *,
    timeout: float = HANDSHAKE_SECONDS,
) -> Connection:
    """The other side of ``connect``, for the server of this name. Raises ``ChannelError`` (and closes) for a peer that is slow, wrong
    or not authentic."""
    until = time.monotonic() + timeout
    try:
        _tune(sock)
        hello = _receive(sock, until)
        theirs = _nonce(hello)
        said = _Said(str(hello.get("purpose")), str(hello.get("server")), hello.get("sealed") is not False, theirs)
        if said.purpose not in purposes or said.server != name:
            _send(sock, {"refused": "this server has another name or purpose"}, until)
            raise NotAuthentic(f"a peer looks for the server {said.server!r} ({said.purpose!r}); this one is {name!r}")
        if not said.sealed and not _same_user(sock):
            raise NotAuthentic("a peer that the kernel does not vouch for wants a connection without seals")
        mine = os.urandom(NONCE_BYTES)
        said.answered(mine)
        _send(sock, {"nonce": mine.hex(), "proof": said.proof(secret, "server")}, until)
        _check(_receive(sock, until), said.proof(secret, "client"), "a peer does not know this application's secret")
        connection = said.connection(sock, secret, mine="server", theirs="client")
        connection.deadline(_left(until))
        connection.send({"welcome": True})
        connection.deadline(None)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise ChannelError(f"the connection broke: {error}") from None
        raise
    return connection


def _introduced(sock: socket.socket, address: Address, secret: bytes, purpose: Purpose, until: float) -> Connection:
    mine = os.urandom(NONCE_BYTES)
    said = _Said(purpose, address.name, not _same_user(sock), mine)
    hello = {"nonce": mine.hex(), "purpose": purpose, "server": address.name, "sealed": said.sealed}
    try:
        _tune(sock)
        _send(sock, hello, until)
        answer = _receive(sock, until)
        if "refused" in answer:
            raise NotAuthentic(
                f"{address}: this is not the server that was looked for: {str(answer['refused'])[:80]!r}"
            )
        said.answered(_nonce(answer))
        wrong = f"{address}: the peer does not know this application's secret, or is another server"
        _check(answer, said.proof(secret, "server"), wrong)
        _send(sock, {"proof": said.proof(secret, "client")}, until)
    except OSError as error:
        raise _HungUp(f"{address}: the connection broke: {error}") from error
    connection = said.connection(sock, secret, mine="client", theirs="server")
    try:
        connection.deadline(_left(until))
        connection.receive(HANDSHAKE_BYTES)
        connection.deadline(None)
    except NotAuthentic:
        connection.close()
        raise
    except ChannelError as error:
        connection.close()
        raise _HungUp(f"{address}: {error}") from error
    return connection


class _Said:
    """All that was said before a proof."""

    def __init__(self, purpose: str, server: str, sealed: bool, nonce: bytes) -> None:
        self.purpose, self.server, self.sealed = purpose, server, sealed
        self._parts = [b"perseid 2", purpose.encode(), server.encode(), b"sealed" if sealed else b"plain", nonce]

    def answered(self, nonce: bytes) -> None:
        self._parts.append(nonce)

    def proof(self, secret: bytes, side: str) -> str:
        return self._derived(secret, f"proof of the {side}").hex()

    def connection(self, sock: socket.socket, secret: bytes, *, mine: str, theirs: str) -> Connection:
        """What follows: with keys of this session, one for each direction."""
        keys = None
        if self.sealed:
            keys = self._derived(secret, f"sent by the {mine}"), self._derived(secret, f"sent by the {theirs}")
        return Connection(sock, purpose=self.purpose, keys=keys)

    def _derived(self, secret: bytes, label: str) -> bytes:
        data = b"".join(_LENGTH.pack(len(part)) + part for part in (label.encode(), *self._parts))
        return hmac.digest(secret, data, "sha256")


def _open(address: Address, until: float) -> socket.socket:
    if address.unix and address.machine == machine_id():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_left(until))
            sock.connect(address.unix)
            return sock
        except OSError:
            sock.close()
    try:
        return socket.create_connection((address.host, address.port), timeout=_left(until))
    except OSError as error:
        raise ChannelError(f"{address}: cannot connect: {error}") from error


def _same_user(sock: socket.socket) -> bool:
    """Does the kernel say that the other end is a process of this user on this machine?"""
    if sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return False
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise ChannelError("the peer did not answer in time")
    return left


def _send(sock: socket.socket, message: dict[str, Any], until: float) -> None:
    data = json.dumps(message, separators=(",", ":")).encode()
    sock.settimeout(_left(until))
    try:
        sock.sendall(_LENGTH.pack(len(data)) + data)
    except TimeoutError:
        raise ChannelError("the peer did not answer in time") from None


def _receive(sock: socket.socket, until: float) -> dict[str, Any]:
    """One message, and no byte beyond it."""
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size, until))
    if length > HANDSHAKE_BYTES:
        raise ChannelError(f"a peer claims a message of {length} bytes; at most {HANDSHAKE_BYTES} are taken")
    try:
        message = json.loads(_exactly(sock, length, until))
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"a peer sent something that is not a message: {error}") from None
    if not isinstance(message, dict):
        raise ChannelError("a peer sent something that is not a message")
    return message


def _exactly(sock: socket.socket, size: int, until: float) -> bytes:
    data = b""
    while len(data) < size:
        sock.settimeout(_left(until))
        try:
            more = sock.recv(size - len(data))
        except TimeoutError:
            raise ChannelError("the peer did not answer in time") from None
        if not more:
            raise _HungUp("the peer closed the connection")
        data += more
    return data


def _nonce(message: dict[str, Any]) -> bytes:
    try:
        nonce = bytes.fromhex(str(message.get("nonce", "")))
    except ValueError:
        nonce = b""
    if len(nonce) != NONCE_BYTES:
        raise NotAuthentic("a peer did not begin with a nonce")
    return nonce


def _check(message: dict[str, Any], expected: str, otherwise: str) -> None:
    given = message.get("proof")
    if not isinstance(given, str) or not given.isascii() or not hmac.compare_digest(given, expected):
        raise NotAuthentic(otherwise)


def _tune(sock: socket.socket) -> None:
    """No delay for small messages; a peer that vanished without a word is noticed within seconds."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", 5),
            ("TCP_KEEPINTVL", 2),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 11_000),
        ):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
