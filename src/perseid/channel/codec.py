"""Messages as JSON and back, derived from the types of their fields (``perseid.codec``): a new field or kind of message needs nothing here.

On the wire a message is a list: its kind, then its fields in their order.

Invariant: what is read has just the types that the message declares; anything else is a ``ChannelError`` that names the field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_args

from perseid.checkpoint.lifecycle import SavedShard
from perseid.codec import Codec, Mismatch
from perseid.errors import ChannelError
from perseid.storage.manifest import ShardSnapshot

M = TypeVar("M")

_CODEC = Codec({SavedShard: ShardSnapshot})


def encode(message: Any) -> list[Any]:
    """A message as JSON takes it."""
    kind: Any = type(message)
    return [kind.__name__, *_CODEC.write(kind, message)]


class Kinds(Generic[M]):
    """The messages that may come over one kind of connection: a message type, or several as a union."""

    def __init__(self, union: Any) -> None:
        kinds = get_args(union) or (union,)
        self._readers: dict[str, Callable[[Any], Any]] = {kind.__name__: _CODEC.reader(kind) for kind in kinds}

    def decode(self, data: Any) -> M:
        """The message. Raises ``ChannelError`` if it is none of these kinds, or not whole."""
        read = self._readers.get(data[0]) if type(data) is list and data and type(data[0]) is str else None
        if read is None:
            shown = repr(data)[:80]
            raise ChannelError(f"a peer sent {shown}: expected one of {', '.join(sorted(self._readers))}")
        try:
            message: M = read(data[1:])
        except Mismatch as error:
            raise ChannelError(f"a peer sent a wrong message: {data[0]}{error}") from None
        return message
