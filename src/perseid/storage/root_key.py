"""The key of a checkpoint root: snapshots carry an HMAC with it, and no byte of a snapshot is unpickled before that is checked.

A snapshot is a pickle, and a pickle runs code. So a file that merely lies where a snapshot is expected (a second copy in the temporary
folder, a backup from another machine, a file under the root) proves first that an application of this root wrote it. The key is made at
the first start. In a local root it is a file that only its owner reads; elsewhere it is an object like any other. Hosts get it with
their store, from the driver.

Who may write to the root may put another key there: who may write to the root may run code. See docs/running-on-a-cluster.md.
"""

from __future__ import annotations

import functools
import hmac
import secrets

from perseid.errors import CorruptData, RootError
from perseid.storage import layout
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store

KEY_BYTES = 32
MAC_BYTES = 32


def own_key(store: Store) -> bytes:
    """The key of a root that is written to; a root that has none yet gets one.

    Raises ``RootError`` for a root that has checkpoints but no key: nobody can tell who wrote them.
    """
    if store.key is None:
        if not store.exists(layout.KEY):
            if any(layout.checkpoint_of(name) for name in store.list(layout.CHECKPOINTS)):
                raise RootError(
                    f"{store.root} has checkpoints but no {layout.KEY}, the key that proves who wrote them: it was deleted, or an "
                    "older version of Perseid wrote this root; put it back, or use another root"
                )
            made = store.create(layout.KEY, seal({"key": secrets.token_hex(KEY_BYTES)}), private=True)
            if not made and not store.exists(layout.KEY):
                raise RootError(
                    f"{store.root}: another driver began to write {layout.KEY}, the root's key, and has not finished: try again when it"
                    " has; if it died, nothing is in this root yet, so delete it, or use another root"
                )
        _read(store)
    assert store.key is not None
    return store.key


def known_key(store: Store) -> bytes:
    """The key of a root that is read. Raises ``CorruptData`` if there is none: then nothing in the root can be trusted."""
    if store.key is None:
        try:
            _read(store)
        except FileNotFoundError:
            raise CorruptData(f"{store.uri(layout.KEY)} is missing: without it no snapshot can be trusted") from None
    assert store.key is not None
    return store.key


def mac_of(key: bytes) -> hmac.HMAC:
    """A new HMAC-SHA256. In a forked child, one whose parent has called this before: libraries of cryptography take locks at first use."""
    return _prepared(key).copy()


def derived(key: bytes, purpose: str) -> bytes:
    """A value that only who knows the key can tell, and that does not tell the key."""
    return hmac.digest(key, f"perseid {purpose}".encode(), "sha256")


@functools.lru_cache(maxsize=8)
def _prepared(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")


def _read(store: Store) -> None:
    where = store.uri(layout.KEY)
    body = unseal(store.read(layout.KEY), where)
    try:
        key = bytes.fromhex(body["key"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"{where} was written by another version of Perseid: {error!r}") from error
    if len(key) != KEY_BYTES:
        raise CorruptData(f"{where} holds {len(key)} bytes; expected a key of {KEY_BYTES}")
    store.key = key
