"""Hands progress to listeners in a thread of its own: a slow or broken one keeps nobody else waiting.

Invariant: ``told`` never waits and keeps a bounded amount; what a listener raises is told once and goes no further.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from perseid.metrics.query_progress import QueryProgress

WAITING = 10_000
END_S = 5.0
KINDS = frozenset(
    {
        "app_started",
        "app_stopped",
        "scaled",
        "checkpoint_committed",
        "host_lost",
        "recovery_finished",
        "epoch_admitted",
        "epoch_committed",
    }
)
Listener = Callable[[dict[str, Any]], None]


class ProgressFeed:
    """The listeners of one run. ``wanted``: is anybody there to hear it?"""

    def __init__(
        self,
        progress: QueryProgress,
        listeners: list[Listener],
        wanted: Callable[[], bool] = lambda: True,
        ended: Callable[[str | None], None] = lambda error: None,
    ) -> None:
        self._progress, self._listeners, self._wanted, self._ended = progress, listeners, wanted, ended
        self._records: queue.Queue[tuple[str, Mapping[str, Any]] | None] = queue.Queue(WAITING)
        self._failed: set[int] = set()
        self.dropped = 0
        self._thread = threading.Thread(target=self._work, name="perseid-progress", daemon=True)
        self._thread.start()

    def told(self, kind: str, record: Mapping[str, Any]) -> None:
        """Something has happened."""
        if kind in KINDS:
            try:
                self._records.put_nowait((kind, record))
            except queue.Full:
                self.dropped += 1

    def close(self) -> None:
        """Hand over what is left, for a while."""
        try:
            self._records.put(None, timeout=END_S)
        except queue.Full:
            return
        self._thread.join(END_S)

    def _work(self) -> None:
        while (item := self._records.get()) is not None:
            kind, record = item
            try:
                progress = self._progress.take_in(kind, record)
            except (KeyError, TypeError, ValueError):
                logging.getLogger("perseid.metrics").exception("a record cannot be told as progress: %s", kind)
                continue
            if kind == "app_stopped":
                self._tell(-1, self._at_end(record), {})
            elif progress is not None and self._wanted():
                for number, listener in enumerate(self._listeners):
                    self._tell(number, listener, progress)

    def _at_end(self, record: Mapping[str, Any]) -> Listener:
        error = None if record["reason"] == "finished" else str(record["reason"])
        return lambda _: self._ended(error)

    def _tell(self, number: int, listener: Listener, progress: dict[str, Any]) -> None:
        try:
            listener(progress)
        except Exception:
            if number not in self._failed:
                self._failed.add(number)
                logging.getLogger("perseid.metrics").exception(
                    "a listener of progress failed; it is told no more of such"
                )
