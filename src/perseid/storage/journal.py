"""The journal: what happened, one JSON object a line, for people, dashboards and tests. Nothing depends on it.

Invariant: recording never waits for storage and never takes more than a bounded amount of memory; ``flush``, called
by the shell, writes, and does not wait for the disk. A torn line is skipped by the reader. Spec: design 4.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from perseid.storage import layout
from perseid.storage.store import Store
from perseid.vocabulary import Generation

CAPACITY = 100_000
"""Records kept between two flushes; with more, or while storage fails, the oldest are dropped, and it says how many."""


class Journal:
    """The journal of one generation of the driver. Many threads may record."""

    def __init__(
        self, store: Store, generation: Generation, *, now_ms: Callable[[], int], capacity: int = CAPACITY
    ) -> None:
        self._store = store
        self._generation = generation
        self._path = layout.journal(generation)
        self._now_ms = now_ms
        self._lines: deque[bytes] = deque(maxlen=capacity)
        self._dropped = 0
        self._adding = threading.Lock()
        self._flushing = threading.Lock()

    def record(self, kind: str, **fields: Any) -> None:
        """Say that something happened now. What JSON does not know is written as text."""
        line = self._line(kind, fields)
        with self._adding:
            self._dropped += len(self._lines) == self._lines.maxlen
            self._lines.append(line)

    def flush(self) -> None:
        """Write what was recorded. If it raises ``StorageFailed``, the records are kept for the next time."""
        with self._flushing:
            with self._adding:
                lines, dropped = list(self._lines), self._dropped
                self._lines.clear()
                self._dropped = 0
            if dropped:
                lines.insert(0, self._line("journal_dropped", {"records": dropped}))
            if not lines:
                return
            try:
                self._store.append(self._path, b"".join(lines), durable=False)
            except BaseException:
                with self._adding:
                    kept = [*lines[1 if dropped else 0 :], *self._lines]
                    self._dropped += dropped + max(len(kept) - (self._lines.maxlen or len(kept)), 0)
                    self._lines.clear()
                    self._lines.extend(kept)
                raise

    def close(self) -> None:
        """Write what is left."""
        self.flush()

    def _line(self, kind: str, fields: dict[str, Any]) -> bytes:
        entry = {"at_ms": self._now_ms(), "kind": kind, "generation": self._generation, **fields}
        return json.dumps(entry, separators=(",", ":"), default=str, skipkeys=True).encode() + b"\n"


def read_journal(store: Store) -> Iterator[dict[str, Any]]:
    """What happened, in all generations, oldest first. Lines that cannot be read are skipped."""
    generations = (layout.generation_of(name) for name in store.list(layout.JOURNALS))
    for generation in sorted(g for g in generations if g is not None):
        try:
            data = store.read(layout.journal(generation))
        except FileNotFoundError:
            continue
        for line in data.split(b"\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry
