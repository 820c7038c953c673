"""A byte stream whose every piece proves that the peer of this session sent it, as the next one in its direction.

On the wire: length (4 bytes) · bytes · the first 16 bytes of HMAC-SHA256 over the number of the piece, its length and its bytes, with the
key of this session and direction. Numbers are not sent: both sides count. So what is changed, left out, repeated, put in another order, or
sent back to its sender is refused, and no byte is handed out before it is proved. An end between two pieces is a closed connection, as
anywhere.
"""

from __future__ import annotations

import hmac
import io
import socket
import struct
from typing import Any

from perseid.errors import ChannelError, NotAuthentic

PIECE_BYTES = 1 << 18
TAG_BYTES = 16
_SMALL_BYTES = 1 << 16  # smaller writes are put together
_LENGTH = struct.Struct(">I")
_NUMBERED = struct.Struct(">QI")


class _Counted:
    """The tags of one direction, in their order."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")
        self._number = 0

    def next(self, data: memoryview) -> bytes:
        mac = self._keyed.copy()
        mac.update(_NUMBERED.pack(self._number, data.nbytes))
        mac.update(data)
        self._number += 1
        return mac.digest()[:TAG_BYTES]


class SealedWriter(io.RawIOBase):
    """What is written to a socket."""

    def __init__(self, sock: socket.socket, key: bytes) -> None:
        self._sock, self._tags = sock, _Counted(key)
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if view.nbytes < _SMALL_BYTES:
            self._held += view
            if len(self._held) >= PIECE_BYTES:
                self.flush()
            return view.nbytes
        self.flush()
        for start in range(0, view.nbytes, PIECE_BYTES):
            self._send(view[start : start + PIECE_BYTES])
        return view.nbytes

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, bytearray()
            for start in range(0, len(held), PIECE_BYTES):
                self._send(memoryview(held)[start : start + PIECE_BYTES])

    def close(self) -> None:
        """Nothing is sent any more."""
        self._held.clear()
        super().close()

    def _send(self, piece: memoryview) -> None:
        parts = [memoryview(_LENGTH.pack(piece.nbytes)), piece, memoryview(self._tags.next(piece))]
        while parts:
            sent = self._sock.sendmsg(parts)
            while parts and sent >= parts[0].nbytes:
                sent -= parts.pop(0).nbytes
            if parts and sent:
                parts[0] = parts[0][sent:]


class SealedReader:
    """What is read from a socket, by way of its buffered file."""

    def __init__(self, file: Any, key: bytes) -> None:
        self._file, self._tags = file, _Counted(key)
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytearray:
        """So many bytes; fewer only if the peer has closed the connection between two pieces."""
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            if not self._rest.nbytes:
                length = self._length()
                if length is None:
                    view.release()
                    del data[at:]
                    break
                if length <= size - at:
                    self._fill(view[at : at + length])
                    at += length
                    continue
                piece = memoryview(bytearray(length))
                self._fill(piece)
                self._rest = piece
            taken = min(self._rest.nbytes, size - at)
            view[at : at + taken] = self._rest[:taken]
            self._rest = self._rest[taken:]
            at += taken
        return data

    def close(self) -> None:
        self._file.close()

    def _length(self) -> int | None:
        head = self._file.read(_LENGTH.size)
        if not head:
            return None
        if len(head) < _LENGTH.size:
            raise ChannelError("the peer closed the connection in the middle of a piece")
        (length,) = _LENGTH.unpack(head)
        if not 0 < length <= PIECE_BYTES:
            raise NotAuthentic(f"a peer claims a piece of {length} bytes; at most {PIECE_BYTES} are taken")
        return int(length)

    def _fill(self, piece: memoryview) -> None:
        got = 0
        while got < piece.nbytes:
            more = self._file.readinto(piece[got:])
            if not more:
                raise ChannelError("the peer closed the connection in the middle of a piece")
            got += more
        tag = self._file.read(TAG_BYTES)
        if not hmac.compare_digest(tag, self._tags.next(piece)):
            raise NotAuthentic("what came was not sent so by the peer of this connection")
