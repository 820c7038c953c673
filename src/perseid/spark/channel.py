"""The channel between tasks, hosts and the controller: authenticated sockets that carry small JSON messages and Arrow streams.

A message is a length (4 bytes) and JSON. Rows follow a message as a plain Arrow IPC stream: no row is pickled. Both sides prove
that they know the application's secret (HMAC over the other's nonce) before anything else is read; until then a peer
may send a few hundred bytes and has a few seconds. No length that a peer claims is believed beyond a bound.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import io
import json
import os
import select
import shutil
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid.errors import ChannelError, NotAuthentic
from perseid.spark import cuts

HANDSHAKE_SECONDS = 5.0
HANDSHAKE_BYTES = 256
MESSAGE_BYTES = 16 << 20
BUFFER_BYTES = 1 << 30  # the largest single Arrow buffer taken from a peer
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)  # pass by themselves
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer listens: TCP always, and a Unix socket for peers on the same machine."""

    host: str
    port: int
    unix: str = ""
    machine: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def as_dict(self) -> dict[str, Any]:
        """For a message."""
        return asdict(self)


def machine_id() -> str:
    """Equal for two processes exactly when they can share a Unix socket: same boot, same mount and network namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        parts.append(file.read().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/mnt"))  # noqa: PTH115
    return "/".join(parts)


class _BoundedReader(io.RawIOBase):
    """What Arrow reads a peer's stream from: every read must be complete, and none may be absurd."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > BUFFER_BYTES:
            raise ChannelError(f"a peer claims a buffer of {size} bytes; at most {BUFFER_BYTES} are taken")
        data: bytes = self._file.read(size)
        if len(data) < size:
            raise ChannelError("the peer closed the connection in the middle of a stream")
        return data


class Connection:
    """One authenticated connection. Not shared between threads, but for ``send`` under the owner's lock."""

    def __init__(self, sock: socket.socket, is_cut: Callable[[], bool] | None = None) -> None:
        self._sock, self._is_cut = sock, is_cut
        self._reader = sock.makefile("rb", buffering=1 << 20)
        self._writer = sock.makefile("wb", buffering=1 << 20)

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MESSAGE_BYTES:
            raise ChannelError(f"a message of {len(data)} bytes is over the limit of {MESSAGE_BYTES}")
        if self._is_cut is not None and self._is_cut():
            self.abort()
            raise ChannelError("the connection was cut")
        with _translated():
            self._writer.write(_LENGTH.pack(len(data)) + data)
            self._writer.flush()

    def receive(self, limit: int = MESSAGE_BYTES) -> dict[str, Any]:
        with _translated():
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if length > limit:
                raise ChannelError(f"a peer claims a message of {length} bytes; at most {limit} are taken")
            data = self._exactly(length)
        try:
            message = json.loads(data)
        except ValueError as error:
            raise ChannelError(f"a peer sent something that is not a message: {error}") from None
        if not isinstance(message, dict):
            raise ChannelError("a peer sent something that is not a message")
        return message

    def send_rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """The end of the stream is written only when all batches were: if they cannot be had, the peer is left without it."""
        with _translated():
            stream = pa.ipc.new_stream(self._writer, schema)
        for batch in batches:
            with _translated():
                stream.write_batch(batch)
        with _translated():
            stream.close()
            self._writer.flush()

    def receive_rows(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The schema, and the batches as they come. The iterator must be drained before the next ``receive``."""
        with _translated():
            reader = pa.ipc.open_stream(pa.PythonFile(_BoundedReader(self._reader), mode="r"))
        return reader.schema, self._batches(reader)

    def _batches(self, reader: pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
        while True:
            with _translated():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    def send_file(self, path: Path) -> None:
        """A file, or the word that there is none."""
        try:
            file = path.open("rb")
        except OSError:
            self.send({"bytes": None})
            return
        with file:
            self.send({"bytes": os.fstat(file.fileno()).st_size})
            with _translated():
                shutil.copyfileobj(file, self._writer, 1 << 20)
                self._writer.flush()

    def receive_file(self, path: Path) -> int:
        """Its bytes, when all of it is there."""
        size = self.receive()["bytes"]
        if not isinstance(size, int):
            raise ChannelError("the peer does not have the file")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with partial.open("wb") as file, _translated():
                for start in range(0, size, 1 << 20):
                    file.write(self._exactly(min(1 << 20, size - start)))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return size

    def _exactly(self, size: int) -> bytes:
        data: bytes = self._reader.read(size)
        if len(data) < size:
            raise ChannelError("the peer closed the connection")
        return data

    def deadline(self, seconds: float | None) -> None:
        """How long one read or write may take from now on."""
        self._sock.settimeout(seconds)

    @property
    def ended(self) -> bool:
        """Has the peer of an idle connection gone? It says nothing unasked: what there is to read is the end."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def abort(self) -> None:
        """Wake up whoever waits on this connection, from any thread."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for closable in (self._reader, self._writer, self._sock):
            with contextlib.suppress(OSError, ValueError):
                closable.close()

    @property
    def local_ip(self) -> str:
        name = self._sock.getsockname()
        return str(name[0]) if isinstance(name, tuple) else "127.0.0.1"


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ChannelError("the peer did not answer in time") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ChannelError(f"the connection broke: {error}") from error


def _prove(secret: bytes, role: bytes, theirs: bytes, mine: bytes) -> str:
    return hmac.new(secret, role + theirs + mine, hashlib.sha256).hexdigest()


def connect(address: Address, secret: bytes, *, timeout: float = HANDSHAKE_SECONDS) -> Connection:
    """Open a connection and prove the secret. Takes the Unix socket where peer and caller share a machine."""
    sock: socket.socket | None = None
    is_cut = cuts.guard(address.port, driver=not address.unix)
    if is_cut is not None and is_cut():
        raise ChannelError(f"{address}: cannot connect: the connection is cut")
    if address.unix and address.machine == machine_id():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(address.unix)
        except OSError:
            sock.close()
            sock = None
    if sock is None:
        try:
            sock = socket.create_connection((address.host, address.port), timeout=timeout)
        except OSError as error:
            raise ChannelError(f"{address}: cannot connect: {error}") from error
    _tune(sock)
    connection = Connection(sock, is_cut)
    try:
        mine = os.urandom(16)
        connection.send({"nonce": mine.hex()})
        hello = connection.receive(HANDSHAKE_BYTES)
        theirs = bytes.fromhex(str(hello.get("nonce", "")))
        if not hmac.compare_digest(str(hello.get("proof", "")), _prove(secret, b"server", mine, theirs)):
            raise NotAuthentic(f"{address}: the peer does not know this application's secret")
        connection.send({"proof": _prove(secret, b"client", theirs, mine)})
        connection.receive(HANDSHAKE_BYTES)
    except (ChannelError, ValueError):
        connection.close()
        raise
    connection.deadline(None)
    return connection


def accept(sock: socket.socket, secret: bytes) -> Connection:
    """The other side of ``connect``. Raises ``ChannelError`` (and closes) for a peer that is slow, wrong or not authentic."""
    sock.settimeout(HANDSHAKE_SECONDS)
    _tune(sock)
    connection = Connection(sock)
    try:
        theirs = bytes.fromhex(str(connection.receive(HANDSHAKE_BYTES).get("nonce", "")))
        if len(theirs) != 16:
            raise NotAuthentic("a peer did not begin with a nonce")
        mine = os.urandom(16)
        connection.send({"nonce": mine.hex(), "proof": _prove(secret, b"server", theirs, mine)})
        proof = str(connection.receive(HANDSHAKE_BYTES).get("proof", ""))
        if not hmac.compare_digest(proof, _prove(secret, b"client", mine, theirs)):
            raise NotAuthentic("a peer does not know this application's secret")
        connection.send({"welcome": True})
    except (ChannelError, ValueError) as error:
        connection.close()
        raise (
            error if isinstance(error, ChannelError) else NotAuthentic(f"a peer sent no valid nonce: {error}")
        ) from None
    connection.deadline(None)
    return connection


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
