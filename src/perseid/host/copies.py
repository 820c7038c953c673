"""State of shards on its way between two hosts, in memory: no file is written (H2).

Who sends has captured the state under its lock, as bytes that share nothing with the shards; they are sent from a thread of its own. Who
receives makes shards of all of it before it takes any of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import connect
from perseid.channel.protocol import TAKEN
from perseid.engine.host_effects import Captured
from perseid.engine.messages import CopyNotSent, CopyShards, FetchRows, FromHost, SendCopy
from perseid.errors import ChannelError, OperatorFailed
from perseid.operators.operator import Operator
from perseid.state.changes import Sent, changes
from perseid.state.codec import decode, encode
from perseid.vocabulary import Epoch, ShardId

PATIENCE_S = 30.0  # with one read or write


@dataclass(frozen=True, slots=True)
class Image:
    """A shard's state and answers, as bytes; or why the state cannot be had."""

    state: tuple[bytes, ...]
    answers: Mapping[Epoch, bytes]
    error: str = ""


def image_of(operator: Operator, answers: Mapping[Epoch, pa.Table], before: Sent | None) -> tuple[Image, Sent | None]:
    """As it is now, or what changed since ``before``; and what to call that the next time."""
    try:
        changed, now = changes(operator, before)
        pieces = tuple([bytes(piece) for piece in encode(changed)])
    except OperatorFailed as error:
        return Image((), {}, str(error)), None
    return Image(pieces, {epoch: _as_bytes(table) for epoch, table in answers.items()}), now


class CopySender:
    """Sends what was captured to other hosts."""

    def __init__(self, secret: bytes, tell: Callable[[FromHost], None]) -> None:
        self._secret, self._tell = secret, tell

    def send(self, command: SendCopy, shards: Sequence[Captured]) -> None:
        """Beside all else that the host does."""
        arguments = (command, tuple(shards))
        threading.Thread(target=self._send, args=arguments, name="perseid-copy", daemon=True).start()

    def _send(self, command: SendCopy, shards: Sequence[Captured]) -> None:
        try:
            refusal = self._sent(command, shards)
        except ChannelError as error:
            refusal = str(error)
        if refusal:
            with contextlib.suppress(ChannelError):
                self._tell(CopyNotSent(command.number, refusal))

    def _sent(self, command: SendCopy, shards: Sequence[Captured]) -> str:
        images = [one.image for one in shards if isinstance(one.image, Image)]
        wrong = next((f"shard {s.entry.shard}: {i.error}" for s, i in zip(shards, images, strict=True) if i.error), "")
        if wrong:
            return wrong
        entries = []
        for one, image in zip(shards, images, strict=True):
            sizes = {epoch: len(data) for epoch, data in image.answers.items()}
            entries.append(replace(one.entry, state=tuple([len(piece) for piece in image.state]), answers=sizes))
        connection = connect(command.to, self._secret, "copies")
        try:
            connection.deadline(PATIENCE_S)
            connection.tell(CopyShards(command.number, tuple(entries), command.back, command.answers))
            connection.send_pieces([piece for image in images for piece in (*image.state, *image.answers.values())])
            return connection.hear(TAKEN).refusal
        finally:
            connection.close()


def receive_images(connection: Connection, message: CopyShards) -> tuple[list[tuple[dict[str, object], Image]], int]:
    """The state of every shard of the message, decoded, and its answers; and how many bytes that were."""
    found, size = [], 0
    for entry in message.shards:
        pieces = [connection.receive_piece(length) for length in entry.state]
        answers = {epoch: connection.receive_piece(length) for epoch, length in entry.answers.items()}
        size += sum(entry.state) + sum(entry.answers.values())
        found.append((decode(pieces), Image((), answers)))
    return found, size


def table_of(data: bytes) -> pa.Table:
    """An answer."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def _as_bytes(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def fetch_rows(
    peer: Address, secret: bytes, shard: ShardId, epoch: Epoch, connection_of: Callable[[Connection], None]
) -> bool:
    """Have a host elsewhere send the rows that a task kept there; ``connection_of`` takes them. Whether that went well."""
    try:
        connection = connect(peer, secret, "copies")
    except ChannelError:
        return False
    try:
        connection.deadline(PATIENCE_S)
        connection.tell(FetchRows(shard, epoch))
        connection_of(connection)
    except (ChannelError, OSError):
        return False
    finally:
        connection.close()
    return True
