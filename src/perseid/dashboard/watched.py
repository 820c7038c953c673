"""A root that is watched: its journal is read as it grows, by a thread of its own, into a picture that many may look at.

Invariant: what is shown is whole: nobody looks while a batch of records is taken in. A root that
fails is told, and tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from perseid.dashboard.journal_model import JournalModel
from perseid.dashboard.picture import Picture
from perseid.dashboard.privacy import Curtain
from perseid.dashboard.views import Life
from perseid.errors import CorruptData, PerseidError
from perseid.storage.journal import JournalReader
from perseid.storage.lease import newest_generation, read_holder
from perseid.storage.store import Store

LOCAL_S, REMOTE_S = 0.5, 2.0
"""Between two looks; remote storage is asked for money."""
BATCH = 2_000
DETAILS = (
    "host_load", "snapshot_written", "snapshots_ordered", "snapshots_forked", "snapshot_awaited", "inflight_saved", "backed_up",
    "trimmed", "checkpoint_started", "alert_began", "moment_passed",
)  # fmt: skip
"""Of which nothing is shown where the journal is old: loads of hosts, and the parts of checkpoints."""
T = TypeVar("T")


class WatchedRoot:
    """One root of a dashboard."""

    def __init__(self, store: Store, *, rows: bool = False) -> None:
        self.store = store
        self.revision = 0  # of the picture
        self.trouble = ""
        self.life: Life = "unknown"
        self._model = JournalModel()
        self._reader = JournalReader(store, in_detail=DETAILS)
        self._curtain = None if rows else Curtain()
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="perseid-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        with self._changed:
            self._changed.notify_all()

    def look(self) -> bool:
        """Take in what is new. True if there was something."""
        came, batch = False, []
        for record in self._reader.new():
            batch.append(self._curtain.hide(record) if self._curtain is not None else record)
            if len(batch) == BATCH:
                self._take_in(batch)
                came, batch = True, []
        if batch:
            self._take_in(batch)
        life = self._look_at_lease()
        if came or batch or life != self.life:
            with self._changed:
                self.life = life
                self.revision += 1
                self._changed.notify_all()
            return True
        return False

    def shown(self, view: Callable[[Picture], T]) -> T:
        """What a view makes of the picture."""
        with self._changed:
            return view(self._model.picture)

    def wait(self, revision: int, timeout_s: float) -> int:
        """Until there is a newer revision than this one, or so long; the newest one."""
        with self._changed:
            self._changed.wait_for(lambda: self.revision > revision or self._ended.is_set(), timeout_s)
            return self.revision

    def _take_in(self, batch: list[Any]) -> None:
        with self._changed:
            for record in batch:
                self._model.take_in(record)

    def _look_at_lease(self) -> Life:
        try:
            generation = newest_generation(self.store)
            holder = read_holder(self.store, generation) if generation else None
        except (CorruptData, FileNotFoundError):
            return "unknown"
        if holder is None:
            return "unknown"
        return "released" if holder.released else "dead" if holder.process.is_dead() else "held"

    def _work(self) -> None:
        pause_s = LOCAL_S if self.store.local is not None else REMOTE_S
        while not self._ended.is_set():
            try:
                self.look()
                trouble = ""
            except (PerseidError, OSError) as error:
                trouble = f"the journal cannot be read: {error}"
            if trouble != self.trouble:
                with self._changed:
                    self.trouble = trouble
                    self.revision += 1
                    self._changed.notify_all()
            self._ended.wait(pause_s)
