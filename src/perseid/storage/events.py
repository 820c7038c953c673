"""The recorded events of a root (``engine.event_log``): where they are, and the seal on the controllers among them.

A written controller is a pickle, and a pickle runs code. So it carries an HMAC with the key of the root, as snapshots do
(``root_key``), and is not unpickled before that was checked.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from typing import Any

from perseid.errors import CorruptData
from perseid.storage import layout
from perseid.storage.journal import JournalReader
from perseid.storage.root_key import known_key, mac_of, own_key
from perseid.storage.store import Store

_PURPOSE = b"perseid controller "


def read_events(store: Store) -> Iterator[dict[str, Any]]:
    """What is recorded, in all generations, oldest first."""
    return JournalReader(store, layout.EVENTS).new()


class EventSeal:
    """Seals and unseals written controllers of one root."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def seal(self, data: bytes) -> str:
        return f"{_mac(own_key(self._store), data)}.{base64.b64encode(data).decode()}"

    def unseal(self, text: str) -> bytes:
        """Raises ``CorruptData`` if no application of this root wrote it."""
        mac, _, encoded = text.partition(".")
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError:
            data = b""
        if not hmac.compare_digest(mac.encode(), _mac(known_key(self._store), data).encode()):
            raise CorruptData(f"{self._store.uri(layout.EVENTS)}: a written controller fails its hash")
        return data


def _mac(key: bytes, data: bytes) -> str:
    mac = mac_of(key)
    mac.update(_PURPOSE)
    mac.update(data)
    return mac.hexdigest()
