"""A root that is watched: its journal is read as it grows, by a thread of its own, into a picture that many may look at.

Of a long journal the newest part is shown at once, and the whole of it when it was read.

Invariant: what is shown is whole: nobody looks while a batch of records is taken in. A root that
fails is told, and tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
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
NEWEST = 2 << 20
"""So many of the newest bytes are shown before all others are read: about an eighth of a second."""
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
        self.older = False  # is the older part of the journal still to come?
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
        came = False
        for batch in self._batches(self._reader):
            came = True
            with self._changed:
                for record in batch:
                    self._model.take_in(record)
        life = self._look_at_lease()
        if came or life != self.life:
            self.life = life
            self._tell()
            return True
        return False

    def open(self) -> None:
        """The first look. Of a long journal the newest part is shown before the rest is read, and as it grows meanwhile."""
        self._reader, self._model = JournalReader(self.store, in_detail=DETAILS, newest_bytes=NEWEST), JournalModel()
        self.look()
        if not self._reader.leaves_out:
            return
        self.older, looked_s = True, time.monotonic()
        self._tell()
        reader, model = JournalReader(self.store, in_detail=DETAILS), JournalModel()
        for batch in self._batches(reader):
            if self._ended.is_set():
                return
            for record in batch:
                model.take_in(record)
            if time.monotonic() - looked_s > LOCAL_S:
                self.look()
                looked_s = time.monotonic()
        with self._changed:
            self._reader, self._model, self.older = reader, model, False
        self._tell()
        self.look()

    @property
    def torn(self) -> int:
        """Lines of the journal that could not be read."""
        return self._reader.torn

    def shown(self, view: Callable[[Picture], T]) -> T:
        """What a view makes of the picture."""
        with self._changed:
            return view(self._model.picture)

    def wait(self, revision: int, timeout_s: float) -> int:
        """Until there is a newer revision than this one, or so long; the newest one."""
        with self._changed:
            self._changed.wait_for(lambda: self.revision > revision or self._ended.is_set(), timeout_s)
            return self.revision

    def _tell(self) -> None:
        with self._changed:
            self.revision += 1
            self._changed.notify_all()

    def _batches(self, reader: JournalReader) -> Iterator[list[Any]]:
        records = reader.new()
        while batch := list(islice(records, BATCH)):
            yield batch if self._curtain is None else [self._curtain.hide(record) for record in batch]

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
        look = self.look if self.revision else self.open
        while not self._ended.is_set():
            try:
                look()
                look, trouble = self.look, ""
            except (PerseidError, OSError) as error:
                trouble = f"the journal cannot be read: {error}"
            if trouble != self.trouble:
                self.trouble = trouble
                self._tell()
            self._ended.wait(pause_s)
