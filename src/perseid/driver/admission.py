"""The thread that admits epochs: it looks at the sources and writes the ledger as ``engine.admission`` decides."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perseid.clocks import EpochTime, steady_ms
from perseid.driver.settings import Settings
from perseid.driver.watermarks import EventTimes
from perseid.engine import events as on
from perseid.engine.admission import Admission, AdmissionRules
from perseid.engine.event_time_alignment import EventTimeAlignment
from perseid.errors import PerseidError
from perseid.sources.source import GrowingSource, PendingSource, Source, WaitingSource
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted, Committed
from perseid.vocabulary import Epoch, Offset, OperatorName, SourceName, UnitName

SLOW_MS = 10_000  # a source that takes longer to say what is new


@dataclass(slots=True)
class SourceInput:
    """A source of the application; ``asked_ms`` says since when it has not answered."""

    source: Source
    max_rows: int | None
    now_ms: Callable[[], int]
    asked_ms: int | None = None
    waiting: WaitingSource | None = field(init=False)  # the source, if it knows what waits

    def __post_init__(self) -> None:
        self.waiting = (
            self.source if isinstance(self.source, WaitingSource) else None
        )  # is slow: once, not in every epoch

    def end(self, start: Offset) -> Offset:
        self.asked_ms = steady_ms()
        end = self.source.end(start, self.max_rows, self.now_ms())
        self.asked_ms = None
        return end

    def finished(self, start: Offset) -> bool:
        return self.source.finished(start)

    def counts(self, start: Offset, end: Offset) -> tuple[int | None, int | None]:
        """Rows of a slice, and rows that wait behind it, as far as they are known."""
        return self.source.rows(start, end), None if self.waiting is None else self.waiting.waiting(end)

    @property
    def pending(self) -> bool:
        return isinstance(self.source, PendingSource) and self.source.pending()

    @property
    def grows(self) -> bool:
        return isinstance(self.source, GrowingSource) and self.source.grows


class AdmissionThread:
    """Runs an ``Admission``: what the controller wants comes over a queue, what came of it goes to ``post``."""

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
        self._ledger, self._post, self._told = ledger, post, admitted
        self._inputs = {
            n: SourceInput(source, settings.max_rows_per_epoch, epoch_time.source_ms) for n, source in sources.items()
        }
        trigger_ms = settings.trigger.ms if settings.trigger is not None else None
        self._admission = Admission(
            self._inputs,
            units,
            ledger,
            AdmissionRules(trigger_ms, settings.available_now, settings.close_windows_at_end),
            epoch_time.now_ms,
            timer_due,
            event_times,
            alignment,
            alone=ledger_lock,
        )
        self.last_ms = 0.0  # how long the newest admission took: to ask the sources, and to make it durable
        self._items: queue.SimpleQueue[Epoch | str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="perseid-admission", daemon=True)
        self._thread.start()

    def counts(self, admitted: Admitted) -> dict[SourceName, tuple[int | None, int | None]]:
        """Of every source: its rows in the epoch, and those that wait for a later one, as far as they are known."""
        return {name: source.counts(*admitted.slices[name]) for name, source in self._inputs.items()}

    def commit(self, record: Committed) -> None:
        """To be written with the next append."""
        self._admission.commit(record)

    def go_on(self, epoch: Epoch | None) -> None:
        """Write the commits, then admit this epoch."""
        self._items.put("commit" if epoch is None else epoch)

    def write_commits(self) -> None:
        """All that are known by now, whatever the thread is waiting for."""
        self._admission.write_commits()

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
        if self._admission.trouble:
            return self._admission.trouble
        for name, source in self._inputs.items():
            waited_ms = 0 if (asked_ms := source.asked_ms) is None else steady_ms() - asked_ms
            if waited_ms >= SLOW_MS:
                return f"source {name!r} has not answered for {waited_ms // 1000} s"
        return ""

    def _work(self) -> None:
        try:
            while self._take_in():
                begun_s = time.monotonic()
                for event in self._admission.step(steady_ms()):
                    self._tell(event, (time.monotonic() - begun_s) * 1000)
            self._admission.finish()
        except Exception as error:
            message = str(error) if isinstance(error, PerseidError) else f"{type(error).__name__}: {error}"
            self._post(on.FatalError(message))

    def _tell(self, event: on.Event, ms: float) -> None:
        if isinstance(event, on.EpochAdmitted):
            self.last_ms = ms
            admitted = self._ledger.admitted(event.epoch)
            assert admitted is not None
            self._told(admitted)
        self._post(event)

    def _take_in(self) -> bool:
        """Wait for work, or for the next look at the sources. False: this was the last."""
        now_ms = steady_ms()
        next_ms = self._admission.next_ms(now_ms)
        try:
            item = self._items.get(timeout=None if next_ms is None else max(0, next_ms - now_ms) / 1000)
            while True:
                match item:
                    case "stop":
                        return False
                    case "abandon":
                        for event in self._admission.abandon():
                            self._post(event)
                    case int():
                        self._admission.want(item, steady_ms())
                item = self._items.get_nowait()
        except queue.Empty:
            return True
