"""How a task asks a shard: its hosts in their order, over connections that are kept for the next epoch of this Python worker.

A shard may be asked at several places: its primary, then its standbys. The next place is asked when one cannot be reached, breaks
off, or stays silent for longer than the target's patience. The last one is waited for.

Invariant: once a row of an answer has been handed on, no other place is asked. A refusal is an answer, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import HANDSHAKE_SECONDS, connect
from perseid.channel.protocol import REPLY
from perseid.engine.messages import Reply, Request
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError
from perseid.vocabulary import HostId

_connections: dict[tuple[str, str, int, str], Connection] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """A host that can answer for a shard."""

    host: HostId
    address: Address


@dataclass(frozen=True, slots=True)
class Target:
    """Where a shard is asked: its places in their order, and how long any but the last may be silent."""

    shard: int
    places: tuple[Place, ...]
    patience_s: float | None = None  # None: until it answers or its connection breaks


class Unreachable(Exception):
    """No place could be asked, or one broke off in the middle of its answer."""

    def __init__(self, host: HostId, message: str) -> None:
        super().__init__(message)
        self.host = host


class Refused(Exception):
    """The shard cannot answer."""

    def __init__(self, host: HostId, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.host, self.refusal = host, refusal


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks one target. ``rows`` follow the request, if there are any."""

    target: Target
    secret: bytes = field(repr=False)

    def answers(
        self, request: Request, schema: pa.Schema, rows: Iterator[pa.RecordBatch] | None
    ) -> Iterator[pa.RecordBatch]:
        """What the shard says, as it comes. Raises ``Unreachable`` or ``Refused``."""
        *others, last = self.target.places
        sent = _Kept(rows) if rows is not None and others else rows
        for place in others:
            try:
                first, rest = self._begun(place, request, schema, sent, self.target.patience_s)
            except ChannelError:
                continue
            yield from self._whole(place, first, rest)
            return
        try:
            first, rest = self._begun(last, request, schema, sent, None)
        except ChannelError as error:
            raise _unreachable(last, error) from error
        yield from self._whole(last, first, rest)

    def _begun(
        self,
        place: Place,
        request: Request,
        schema: pa.Schema,
        rows: Iterable[pa.RecordBatch] | None,
        patience_s: float | None,
    ) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
        """The first batch of its answer, and the rest. Raises ``ChannelError`` while another place may still be asked."""
        try:
            connection, reply = send(place.address, self.secret, request, schema, rows, patience_s)
            if isinstance(reply, Refusal):
                raise Refused(place.host, reply)
            _, batches = connection.receive_rows()
            first = next(batches, None)
            connection.deadline(None)
        except Refused:
            raise
        except BaseException:
            forget(place.address)  # half of a stream may be on its way: nothing else may follow it
            raise
        return first, batches

    def _whole(
        self, place: Place, first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        try:
            if first is not None:
                yield first
                yield from rest
        except ChannelError as error:
            forget(place.address)
            raise _unreachable(place, error) from error
        except BaseException:
            forget(place.address)
            raise


class _Kept:
    """Rows that can be sent again, from the first one on."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._sent: list[pa.RecordBatch] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from tuple(self._sent)
        for batch in self._batches:
            self._sent.append(batch)
            yield batch


def send(
    address: Address,
    secret: bytes,
    request: Request,
    schema: pa.Schema,
    rows: Iterable[pa.RecordBatch] | None,
    patience_s: float | None = None,
) -> tuple[Connection, Reply]:
    """Over the kept connection if there is one; it may have been closed since, which the first message shows."""
    key = _key(address)
    connection = _connections.get(key)
    if connection is not None:
        try:
            connection.deadline(patience_s)
            connection.tell(request)
        except ChannelError:
            forget(address)
            connection = None
    if connection is None:
        for other in [of for of, kept in _connections.items() if kept.ended]:  # hosts that are no more
            _connections.pop(other).close()
        timeout = HANDSHAKE_SECONDS if patience_s is None else min(patience_s, HANDSHAKE_SECONDS)
        connection = _connections[key] = connect(address, secret, "epochs", timeout=timeout)
        connection.deadline(patience_s)
        connection.tell(request)
    if rows is not None:
        connection.send_rows(schema, rows)
    reply = connection.hear(REPLY)
    if isinstance(reply, Refusal):
        connection.deadline(None)
    return connection, reply


def forget(address: Address) -> None:
    """Close the kept connection."""
    connection = _connections.pop(_key(address), None)
    if connection is not None:
        connection.close()


def _key(address: Address) -> tuple[str, str, int, str]:
    return (address.machine, address.host, address.port, address.unix)


def _unreachable(place: Place, error: ChannelError) -> Unreachable:
    return Unreachable(place.host, f"host {place.host} at {place.address}: {error}")
