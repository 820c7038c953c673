"""How a task asks a shard at its host, over connections that are kept for the next epoch of this Python worker.

A shard that has a standby is asked otherwise: ``first_answer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import connect
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
    """Where a shard is asked: at its host, and at its standbys when that is silent for longer than this."""

    shard: int
    places: tuple[Place, ...]
    patience_s: float = 0.0


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


def answers(
    place: Place, secret: bytes, request: Request, schema: pa.Schema, rows: Iterable[pa.RecordBatch] | None
) -> Iterator[pa.RecordBatch]:
    """What a shard at its one place says, as it comes. ``rows`` follow the request, if there are any. Raises ``Unreachable`` or
    ``Refused``."""
    try:
        connection, reply = send(place.address, secret, request, schema, rows)
        if isinstance(reply, Refusal):
            raise Refused(place.host, reply)
        _, batches = connection.receive_rows()
        yield from batches
    except Refused:
        raise
    except ChannelError as error:
        forget(place.address)
        raise unreachable(place, error) from error
    except BaseException:
        forget(place.address)  # half of a stream may be on its way: nothing else may follow it
        raise


def send(
    address: Address, secret: bytes, request: Request, schema: pa.Schema, rows: Iterable[pa.RecordBatch] | None
) -> tuple[Connection, Reply]:
    """Over the kept connection if there is one; it may have been closed since, which the first message shows."""
    key = key_of(address)
    connection = _connections.get(key)
    if connection is not None:
        try:
            connection.tell(request)
        except ChannelError:
            forget(address)
            connection = None
    if connection is None:
        for other in [of for of, kept in _connections.items() if kept.ended]:  # hosts that are no more
            _connections.pop(other).close()
        connection = _connections[key] = connect(address, secret, "epochs")
        connection.tell(request)
    if rows is not None:
        connection.send_rows(schema, rows)
    return connection, connection.hear(REPLY)


def forget(address: Address) -> None:
    """Close the kept connection."""
    connection = _connections.pop(key_of(address), None)
    if connection is not None:
        connection.close()


def key_of(address: Address) -> tuple[str, str, int, str]:
    return (address.machine, address.host, address.port, address.unix)


def unreachable(place: Place, error: ChannelError) -> Unreachable:
    return Unreachable(place.host, f"host {place.host} at {place.address}: {error}")


def take(address: Address) -> Connection | None:
    """The kept connection, which is the caller's from now on; it may have been closed since."""
    connection = _connections.pop(key_of(address), None)
    if connection is not None and connection.ended:
        connection.close()
        return None
    return connection


def keep(address: Address, connection: Connection) -> None:
    """Nothing is on its way over this connection: it is for whoever asks next."""
    other = _connections.get(key_of(address))
    if other is None:
        _connections[key_of(address)] = connection
    else:
        connection.close()
