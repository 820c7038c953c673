"""Records what the controller is given (``engine.event_log``), beside the journal, and writes both from a thread of its own.

Invariant: the controller's thread never waits for storage here, and nothing that goes wrong here ends the application: recording ends
then, and the journal says so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from perseid.clocks import wall_ms
from perseid.driver.journal_writer import JournalWriter
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.event_log import EventCodec, EventLog
from perseid.engine.notices import Outcome
from perseid.errors import StorageFailed
from perseid.storage import layout
from perseid.storage.events import EventSeal
from perseid.storage.journal import Journal
from perseid.storage.journal_segments import Limits
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.store import Store
from perseid.vocabulary import Generation

FLUSH_S = 0.25
EVENTS_EVERY = 4
"""Events are written every so many flushes: they are read after the fact."""


class EventRecorder:
    """The events of one driver."""

    def __init__(self, store: Store, generation: Generation, limits: Limits, journal_writer: JournalWriter) -> None:
        self._journal_writer = journal_writer
        self._journal = Journal(store, generation, now_ms=wall_ms, limits=limits, folder=layout.EVENTS)
        self._log: EventLog | None = EventLog(EventCodec(ShardSnapshot), self._journal.add, EventSeal(store).seal)
        self._recording = threading.Lock()  # the controller's thread, and whoever ends it
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write, name="perseid-journal-writer", daemon=True)

    def started(self, controller: Controller) -> None:
        """A controller was made, and was not given anything yet. From here on what is recorded is written."""
        made_of = (controller.topology, controller.settings, controller.past, controller.now_ms, wall_ms())
        self._record(lambda log: log.started(*made_of))
        self._thread.start()

    def handled(self, event: on.Event, now_ms: int, outcomes: Sequence[Outcome], controller: Controller) -> None:
        """The controller was given this event, and this came of it."""
        self._record(lambda log: self._written(log, event, now_ms, outcomes, controller))

    @staticmethod
    def _written(
        log: EventLog, event: on.Event, now_ms: int, outcomes: Sequence[Outcome], controller: Controller
    ) -> None:
        log.handled(event, now_ms, outcomes)
        if log.wants_state:
            log.state(controller, now_ms, wall_ms())

    def close(self) -> None:
        """Write what is left."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(10.0)
        self._record(lambda log: log.flush())
        self._log = None
        with contextlib.suppress(StorageFailed):
            self._journal.close()

    def _record(self, record: Callable[[EventLog], None]) -> None:
        with self._recording:
            if self._log is not None:
                try:
                    record(self._log)
                except Exception as error:
                    self._log = None
                    message = f"events are not recorded any longer: {type(error).__name__}: {error}"
                    self._journal_writer.warning(message)

    def _write(self) -> None:
        flushes = 0
        while not self._end.wait(FLUSH_S):
            flushes += 1
            with contextlib.suppress(StorageFailed):  # they keep what they could not write
                self._journal_writer.flush()
                if flushes % EVENTS_EVERY == 0:
                    self._journal.flush()
