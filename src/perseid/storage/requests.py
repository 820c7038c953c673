"""Requests put to a running application from another process, by way of its root: a file for the request, a file for the answer.

Whoever asks needs nothing but the root. The driver looks into the folder now and then; one that takes over finds what the one before it
left without an answer.

Invariant: an answer is given once; a request and its answer are whole or not there.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from perseid.errors import CorruptData, NoAnswer
from perseid.storage import layout
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store

POLL_S = 0.1
KEPT = 20  # answers that are left lying, for whoever may still look


def ask(store: Store, request: Mapping[str, Any]) -> str:
    """Put a request to whoever runs the application; returns the name to find the answer by."""
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    store.write(layout.request(name), [seal(dict(request))])
    return name


def pending(store: Store) -> list[tuple[str, dict[str, Any]]]:
    """Requests without an answer, the oldest first; what is damaged is passed over."""
    names = store.list(layout.REQUESTS)
    answered = {n.removesuffix(layout.ANSWER) for n in names if n.endswith(layout.ANSWER)}
    found = []
    for name in sorted(n.removesuffix(layout.REQUEST) for n in names if n.endswith(layout.REQUEST)):
        if name not in answered:
            try:
                found.append((name, unseal(store.read(layout.request(name)), name)))
            except (CorruptData, FileNotFoundError):
                continue
    return found


def answer(store: Store, name: str, said: Mapping[str, Any]) -> None:
    store.write(layout.answer(name), [seal(dict(said))])
    names = store.list(layout.REQUESTS)
    for old in sorted(n.removesuffix(layout.ANSWER) for n in names if n.endswith(layout.ANSWER))[:-KEPT]:
        store.delete(layout.request(old))
        store.delete(layout.answer(old))


def wait(store: Store, name: str, timeout_s: float) -> dict[str, Any]:
    """The answer. Raises ``NoAnswer``, and takes the request back."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            return unseal(store.read(layout.answer(name)), name)
        except FileNotFoundError:
            if time.monotonic() > until:
                store.delete(layout.request(name))
                raise NoAnswer(f"no answer within {timeout_s:g} s") from None
        time.sleep(POLL_S)
