"""The channel between tasks, hosts and the controller: sockets that carry small JSON messages and Arrow streams.

A message is a length (4 bytes) and JSON. Rows follow a message as a plain Arrow IPC stream: no row is pickled. No length that a peer claims
is believed beyond a bound. Connections are made by ``handshake``, where both sides prove that they belong to one application; unless the
kernel vouches for the peer, every byte after that is sealed (``sealed_stream``).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from perseid.channel.codec import Kinds, encode
from perseid.channel.sealed_stream import SealedReader, SealedWriter
from perseid.engine.messages import Address as Address
from perseid.errors import ChannelError

MESSAGE_BYTES = 16 << 20
BUFFER_BYTES = 1 << 30  # the largest single Arrow buffer taken from a peer
_LENGTH = struct.Struct(">I")
_json = json.JSONEncoder(separators=(",", ":")).encode
Json = dict[str, Any] | list[Any]
M = TypeVar("M")


def machine_id() -> str:
    """Equal for two processes exactly when they can share a Unix socket: same boot, same mount and user namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        parts.append(file.read().strip())
    for kind in ("mnt", "user"):
        with contextlib.suppress(OSError):
            parts.append(os.readlink(f"/proc/self/ns/{kind}"))  # noqa: PTH115
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
    """One authenticated connection. Not shared between threads, but for ``send`` under the owner's lock.

    ``keys``: of this session, for what is sent and for what is received; None where the kernel vouches for the peer.
    """

    def __init__(self, sock: socket.socket, *, purpose: str, keys: tuple[bytes, bytes] | None) -> None:
        self.purpose = purpose
        self.is_cut: Callable[[], bool] | None = None  # by a test
        self._sock = sock
        self._reader: Any = sock.makefile("rb", buffering=1 << 20)
        self._writer: Any
        if keys is None:
            self._writer = sock.makefile("wb", buffering=1 << 20)
        else:
            self._writer, self._reader = SealedWriter(sock, keys[0]), SealedReader(self._reader, keys[1])

    def tell(self, message: object) -> None:
        """Send one of the messages of ``perseid.channel.protocol``."""
        self.send(encode(message))

    def hear(self, kinds: Kinds[M]) -> M:
        """The next message, which is one of these kinds."""
        return kinds.decode(self.receive())

    def send(self, message: Json) -> None:
        data = _json(message).encode()
        if len(data) > MESSAGE_BYTES:
            raise ChannelError(f"a message of {len(data)} bytes is over the limit of {MESSAGE_BYTES}")
        if self.is_cut is not None and self.is_cut():
            self.abort()
            raise ChannelError("the connection was cut")
        with _translated():
            self._writer.write(_LENGTH.pack(len(data)) + data)
            self._writer.flush()

    def receive(self, limit: int = MESSAGE_BYTES) -> Any:
        with _translated():
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if length > limit:
                raise ChannelError(f"a peer claims a message of {length} bytes; at most {limit} are taken")
            data = self._exactly(length)
        try:
            message = json.loads(data)
        except ValueError as error:
            raise ChannelError(f"a peer sent something that is not a message: {error}") from None
        if not isinstance(message, dict | list):
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
        said = self.receive()
        size = said.get("bytes") if isinstance(said, dict) else None
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

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Bytes whose lengths the peer knows from a message."""
        with _translated():
            for piece in pieces:
                for start in range(0, len(piece), 1 << 20):
                    self._writer.write(memoryview(piece)[start : start + (1 << 20)])
            self._writer.flush()

    def receive_piece(self, size: int) -> bytes:
        """So many bytes."""
        if not 0 <= size <= BUFFER_BYTES:
            raise ChannelError(f"a peer claims a piece of {size} bytes; at most {BUFFER_BYTES} are taken")
        with _translated():
            return b"".join([self._exactly(min(1 << 20, size - start)) for start in range(0, size, 1 << 20)])

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

    def fileno(self) -> int:
        return self._sock.fileno()

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
