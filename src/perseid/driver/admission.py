"""Admission: which rows make the next epoch. The slice of every source is in the ledger before any of it is processed (M1).

At the end of an input that is finished for good a last epoch without rows is admitted, in which all windows close.

One thread looks at the sources, writes admissions and commits, and joins those that come together into one durable append.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from perseid.clocks import EpochTime
from perseid.driver.settings import Settings
from perseid.driver.watermarks import EventTimes
from perseid.engine import events as on
from perseid.engine.event_time_alignment import EventTimeAlignment
from perseid.errors import PerseidError, StorageFailed
from perseid.sources.source import GrowingSource, PendingSource, Source
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted, Committed
from perseid.vocabulary import Epoch, Offset, OperatorName, SourceName, UnitName

POLL_S = 0.005
IDLE_POLL_S = 0.05
STORAGE_PATIENCE_S = 60.0
SLOW_S = 10.0  # a source that takes longer to say what is new


class Admission:
    """Admits epochs when asked, as soon as there is something to admit."""

    def __init__(
        self,
        sources: Mapping[SourceName, Source],
        units: Sequence[UnitName],
        ledger: Ledger,
        ledger_lock: threading.Lock,
        settings: Settings,
        epoch_time: EpochTime,
        timer_due: Callable[[int, Sequence[OperatorName]], bool],
        post: Callable[[on.Event], None],
        admitted: Callable[[Admitted], None],
        event_times: EventTimes | None = None,
        alignment: EventTimeAlignment | None = None,
    ) -> None:
        self._sources, self._units, self._ledger = sources, units, ledger
        self._lock, self._settings = ledger_lock, settings
        self._time, self._timer_due, self._post, self._told = epoch_time, timer_due, post, admitted
        self._event_times, self._alignment = event_times, alignment
        self._items: queue.SimpleQueue[Epoch | str] = queue.SimpleQueue()
        self._wanted: Epoch | None = None
        self._finished: queue.SimpleQueue[Committed] = queue.SimpleQueue()  # epochs whose commits are not written yet
        self._commits: list[Committed] = []  # taken from there under the lock, not durable yet
        self.last_ms = 0.0  # how long the newest admission took: to ask the sources, and to make it durable
        self._due_s = 0.0
        self._idle_since = 0.0
        self._failing_since: float | None = None
        self._failing = ""
        self._asking: tuple[SourceName, float] | None = None  # what it has, and since when
        self._thread = threading.Thread(target=self._work, name="perseid-admission", daemon=True)
        self._thread.start()

    def commit(self, record: Committed) -> None:
        """To be written with the next append."""
        self._finished.put(record)

    def go_on(self, epoch: Epoch | None) -> None:
        """Write the commits, then admit this epoch."""
        self._items.put("commit" if epoch is None else epoch)

    def write_commits(self) -> None:
        """All that are known by now, for somebody who cannot wait: no checkpoint may cover an epoch that is not committed."""
        self._append()

    def abandon(self) -> None:
        """Admit nothing any more."""
        self._items.put("abandon")

    def stop(self, timeout_s: float = 10.0) -> None:
        """Write what is left and end."""
        self._items.put("stop")
        self._thread.join(timeout_s)

    @property
    def trouble(self) -> str:
        """Why no epoch is admitted, if there is more to it than that nothing is new."""
        if self._failing:
            return f"no epoch can be admitted: {self._failing}"
        asking = self._asking
        waited_s = 0.0 if asking is None else time.monotonic() - asking[1]
        return (
            "" if asking is None or waited_s < SLOW_S else f"source {asking[0]!r} has not answered for {waited_s:.0f} s"
        )

    def _work(self) -> None:
        while True:
            try:
                if not self._step():
                    return
                self._failing_since, self._failing = None, ""
            except StorageFailed as error:
                self._failing_since, self._failing = self._failing_since or time.monotonic(), str(error)
                if time.monotonic() - self._failing_since > STORAGE_PATIENCE_S:
                    self._post(on.FatalError(str(error)))
                    return
                time.sleep(0.5)  # a full disk may be freed: nothing is lost by waiting
            except (PerseidError, Exception) as error:
                message = str(error) if isinstance(error, PerseidError) else f"{type(error).__name__}: {error}"
                self._post(on.FatalError(message))
                return

    def _step(self) -> bool:
        going = self._take_in()
        if self._wanted is not None and time.monotonic() >= self._due_s:
            begun_s = time.monotonic()
            admitted = self._look(self._wanted)
            read = admitted is None and self._all_read()
            if read and self._closes_windows():
                admitted = self._last(self._wanted)
            if admitted is not None:
                self._append(admitted)
                self._wanted = None
                self.last_ms = (time.monotonic() - begun_s) * 1000
                self._told(admitted)
                self._post(on.EpochAdmitted(admitted.epoch))
            elif read:
                self._append()
                self._wanted = None
                self._post(on.NothingToAdmit(finished=True))
        self._append()
        return going

    def _take_in(self) -> bool:
        """Wait for work, or for the next look at the sources."""
        timeout: float | None = None
        if self._wanted is not None:
            idle = time.monotonic() - self._idle_since > 1.0
            timeout = max(IDLE_POLL_S if idle else POLL_S, self._due_s - time.monotonic())
        try:
            item = self._items.get(timeout=timeout)
            while True:
                if item == "stop":
                    return False
                if item == "abandon":
                    if self._wanted is not None:
                        self._wanted = None
                        self._post(on.NothingToAdmit(finished=False))
                elif isinstance(item, int):
                    self._wanted, self._idle_since = item, time.monotonic()
                item = self._items.get_nowait()
        except queue.Empty:
            return True

    def _all_read(self) -> bool:
        """Nothing is left to read: for ever, or (``available_now``) of what there was; and nothing is on its way that could make
        a timer due."""
        if not self._quiet:
            return False
        if self._settings.available_now:
            return not any(isinstance(s, PendingSource) and s.pending() for s in self._sources.values())
        return all(s.finished(self._start(n)) for n, s in self._sources.items())

    @property
    def _quiet(self) -> bool:
        """Nothing is on its way."""
        return all(self._ledger.committed(unit) >= self._ledger.last_admitted for unit in self._units)

    def _closes_windows(self) -> bool:
        """Is this the end of time? By default where every source is finished for good, and not only for this run."""
        if self._event_times is None or self._ledger.ended or not self._ledger.last_admitted:
            return False
        if self._settings.close_windows_at_end is not None:
            return self._settings.close_windows_at_end
        return all(
            s.finished(self._start(n)) and not (isinstance(s, GrowingSource) and s.grows)
            for n, s in self._sources.items()
        )

    def _last(self, epoch: Epoch) -> Admitted:
        time_ms = self._time.now_ms(self._ledger.last_time_ms)
        return Admitted(epoch, time_ms, {n: (self._start(n), self._start(n)) for n in self._sources}, last=True)

    def _start(self, source: SourceName) -> Offset:
        return self._ledger.offset(source)

    def _look(self, epoch: Epoch) -> Admitted | None:
        """The next epoch, if any source has something new or a timer has come due."""
        time_ms, source_ms = self._time.now_ms(self._ledger.last_time_ms), self._time.source_ms()
        slices: dict[SourceName, tuple[Offset, Offset]] = {}
        for name, source in self._sources.items():
            start = self._start(name)
            self._asking = name, time.monotonic()
            slices[name] = (start, source.end(start, self._settings.max_rows_per_epoch, source_ms))
        self._asking = None
        if self._alignment is not None:
            for name in self._alignment.waiting([n for n, (start, end) in slices.items() if start < end]):
                slices[name] = (slices[name][0], slices[name][0])
        idle = self._event_times.idle(time_ms, quiet=self._quiet) if self._event_times is not None else ()
        if all(start == end for start, end in slices.values()) and not self._timer_due(time_ms, idle):
            return None
        if self._settings.trigger is not None:
            self._due_s = max(self._due_s + self._settings.trigger.seconds, time.monotonic())
        return Admitted(epoch, time_ms, slices, idle)

    def _append(self, *admitted: Admitted) -> None:
        if self._finished.empty() and not self._commits and not admitted:
            return
        with self._lock:
            while not self._finished.empty():
                self._commits.append(self._finished.get())
            self._ledger.append(*self._commits, *admitted)
            self._commits.clear()
