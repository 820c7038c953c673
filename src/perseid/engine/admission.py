"""Admission: which rows make the next epoch, and what the ledger is told of it (M1).

The slice of every source is in the ledger before any of it is processed. Commits of finished epochs and the admission of the next one go
into one append. At the end of an input that is finished for good a last epoch without rows is admitted, in which all windows close.

Invariant: an epoch is admitted at most once, and only while it is wanted; a commit leaves the list only when the ledger has it.

A shell calls ``step`` whenever something is new, and at the moment that ``next_ms`` names. It hands in the time, the sources and the
ledger. ``commit`` and ``write_commits`` may be called by other threads than ``step``, if ``alone`` is a lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perseid.engine import events as on
from perseid.engine.event_time_alignment import EventTimeAlignment
from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.storage.records import Admitted, Committed, Record
from perseid.vocabulary import Epoch, Offset, OperatorName, SourceName, UnitName

POLL_MS = 5
IDLE_POLL_MS = 50
IDLE_AFTER_MS = 1_000
STORAGE_PATIENCE_MS = 60_000
STORAGE_RETRY_MS = 500  # a full disk may be freed: nothing is lost by waiting


class Input(Protocol):
    """A source, as far as admission has to know it."""

    def end(self, start: Offset) -> Offset:
        """How far the next epoch may read from ``start`` on; ``start`` itself when there is nothing new."""

    def finished(self, start: Offset) -> bool:
        """Will nothing ever come at or after ``start``, in this run?"""

    @property
    def pending(self) -> bool:
        """Is something being taken in that has not arrived yet?"""

    @property
    def grows(self) -> bool:
        """May there be more in another run?"""


class Ledger(Protocol):
    """What admission reads and writes of the ledger."""

    @property
    def last_admitted(self) -> Epoch: ...
    @property
    def last_time_ms(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    def committed(self, unit: UnitName, /) -> Epoch: ...
    def offset(self, source: SourceName, /) -> Offset: ...
    def append(self, *records: Record) -> None: ...


class EventTime(Protocol):
    """What operators with event time say before an epoch is admitted."""

    def idle(self, now_ms: int, /, *, quiet: bool) -> tuple[OperatorName, ...]:
        """Inputs that do not hold the watermark back in this epoch."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What users say of admission."""

    trigger_ms: int | None = None  # between two epochs; None: the next begins when the last has ended
    available_now: bool = False  # stop when all is read that is there
    close_windows_at_end: bool | None = None  # None: where all sources are finished for good


class Admission:
    """Admits epochs when asked, as soon as there is something to admit, and writes down which are done."""

    def __init__(
        self,
        inputs: Mapping[SourceName, Input],
        units: Sequence[UnitName],
        ledger: Ledger,
        rules: AdmissionRules,
        time_ms: Callable[[int], int],  # of an epoch that begins now, after one of that time
        timer_due: Callable[[int, Sequence[OperatorName]], bool] = lambda at_ms, idle: False,
        event_time: EventTime | None = None,
        alignment: EventTimeAlignment | None = None,
        alone: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        self._inputs, self._units, self._ledger, self._rules = inputs, units, ledger, rules
        self._time_ms, self._timer_due, self._event_time, self._alignment = time_ms, timer_due, event_time, alignment
        self._alone = contextlib.nullcontext() if alone is None else alone
        self._commits: list[Committed] = []  # not in the ledger yet
        self._wanted: Epoch | None = None
        self._wanted_ms = 0  # since when
        self._due_ms = 0  # the wanted epoch is not looked for before this moment
        self._failing_ms: int | None = None  # since when the ledger cannot be written
        self._retry_ms = 0
        self._failing = ""
        self.ended = False  # an error was told that nothing can be done about

    # -- what the controller wants --------------------------------------------------------------------------------

    def want(self, epoch: Epoch, now_ms: int) -> None:
        """Admit this epoch as soon as there is something to admit."""
        self._wanted, self._wanted_ms = epoch, now_ms

    def not_before(self, at_ms: int) -> None:
        """Look for the next epoch at this moment, not earlier."""
        self._due_ms = at_ms

    def abandon(self) -> tuple[on.Event, ...]:
        """Admit nothing any more."""
        if self._wanted is None:
            return ()
        self._wanted = None
        return (on.NothingToAdmit(finished=False),)

    def commit(self, record: Committed) -> None:
        """To be written with the next append."""
        self._commits.append(record)

    def write_commits(self) -> None:
        """All that are known by now, for somebody who cannot wait: no checkpoint may cover an epoch that is not committed."""
        self._append()

    @property
    def wanted(self) -> Epoch | None:
        """The epoch that was asked for and is not admitted yet."""
        return self._wanted

    @property
    def trouble(self) -> str:
        """Why no epoch is admitted, if there is more to it than that nothing is new."""
        return f"no epoch can be admitted: {self._failing}" if self._failing else ""

    # -- time passes ----------------------------------------------------------------------------------------------

    def next_ms(self, now_ms: int) -> int | None:
        """When there is something to do again, if nothing new comes before; None: never."""
        if self.ended:
            return None
        if self._failing_ms is not None:
            return max(now_ms, self._retry_ms)
        if self._wanted is None:
            return None
        idle = now_ms - self._wanted_ms > IDLE_AFTER_MS
        return max(now_ms + (IDLE_POLL_MS if idle else POLL_MS), self._due_ms)

    def step(self, now_ms: int) -> tuple[on.Event, ...]:
        """Look at the sources if an epoch is wanted; write what is to be written, in one append."""
        if self.ended or (self._failing_ms is not None and now_ms < self._retry_ms):
            return ()
        try:
            events = self._step(now_ms)
        except StorageFailed as error:
            self._failing_ms, self._failing = self._failing_ms or now_ms, str(error)
            self._retry_ms = now_ms + STORAGE_RETRY_MS
            return self._fail(str(error)) if now_ms - self._failing_ms > STORAGE_PATIENCE_MS else ()
        except (Fenced, CorruptData) as error:
            return self._fail(str(error))
        self._failing_ms, self._failing = None, ""
        return events

    def finish(self) -> None:
        """The application ends: write the commits that are left, if they can be written. Else the next driver runs these epochs again."""
        self._wanted = None
        with contextlib.suppress(StorageFailed, Fenced):
            self._append()

    def _fail(self, message: str) -> tuple[on.Event, ...]:
        self.ended = True
        return (on.FatalError(message),)

    def _step(self, now_ms: int) -> tuple[on.Event, ...]:
        admitted, read = None, False
        if self._wanted is not None and now_ms >= self._due_ms:
            admitted = self._look(self._wanted)
            read = admitted is None and self._all_read()
            if read and self._closes_windows():
                admitted = self._last(self._wanted)
        if admitted is not None:
            self._append(admitted)
            self._wanted = None
            if self._rules.trigger_ms is not None:
                self._due_ms = max(self._due_ms + self._rules.trigger_ms, now_ms)
            return (on.EpochAdmitted(admitted.epoch),)
        self._append()
        if read:
            self._wanted = None
            return (on.NothingToAdmit(finished=True),)
        return ()

    # -- what is there --------------------------------------------------------------------------------------------

    def _look(self, epoch: Epoch) -> Admitted | None:
        """The next epoch, if any source has something new or a timer has come due."""
        time_ms = self._time_ms(self._ledger.last_time_ms)
        slices: dict[SourceName, tuple[Offset, Offset]] = {}
        for name, source in self._inputs.items():
            start = self._ledger.offset(name)
            slices[name] = (start, source.end(start))
        if self._alignment is not None:
            for name in self._alignment.waiting([n for n, (start, end) in slices.items() if start < end]):
                slices[name] = (slices[name][0], slices[name][0])
        idle = self._event_time.idle(time_ms, quiet=self._quiet) if self._event_time is not None else ()
        if all(start == end for start, end in slices.values()) and not self._timer_due(time_ms, idle):
            return None
        return Admitted(epoch, time_ms, slices, idle)

    def _all_read(self) -> bool:
        """Nothing is left to read: for ever, or (``available_now``) of what there was; and nothing is on its way that could make
        a timer due."""
        if not self._quiet:
            return False
        if self._rules.available_now:
            return not any(source.pending for source in self._inputs.values())
        return all(source.finished(self._ledger.offset(name)) for name, source in self._inputs.items())

    @property
    def _quiet(self) -> bool:
        """Nothing is on its way."""
        ledger = self._ledger
        return all(ledger.committed(unit) >= ledger.last_admitted for unit in self._units)

    def _closes_windows(self) -> bool:
        """Is this the end of time? By default where every source is finished for good, and not only for this run."""
        if self._event_time is None or self._ledger.ended or not self._ledger.last_admitted:
            return False
        if self._rules.close_windows_at_end is not None:
            return self._rules.close_windows_at_end
        inputs = self._inputs.items()
        return all(source.finished(self._ledger.offset(name)) and not source.grows for name, source in inputs)

    def _last(self, epoch: Epoch) -> Admitted:
        starts = {name: self._ledger.offset(name) for name in self._inputs}
        time_ms = self._time_ms(self._ledger.last_time_ms)
        return Admitted(epoch, time_ms, {name: (start, start) for name, start in starts.items()}, last=True)

    def _append(self, *admitted: Admitted) -> None:
        if not self._commits and not admitted:
            return
        with self._alone:
            commits = self._commits[:]
            self._ledger.append(*commits, *admitted)
            del self._commits[: len(commits)]
