"""Runs a recorded log of events again: the real controller must answer every event as it did (``event_log``).

A log may have lost its beginning (old segments are dropped), or lines in the middle (a full disk, a torn file). It is run from the first
start or state that is there, and from the next one after every gap; what lies between cannot be run, and is counted.

Invariant: an event counts as run again only if the controller stood exactly where it did when it was given the event.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perseid.codec import Mismatch
from perseid.engine import events as on
from perseid.engine.commands import Command
from perseid.engine.controller import Controller
from perseid.engine.event_log import FORMAT, EventCodec, commands_of
from perseid.engine.notices import Outcome
from perseid.engine.settings import EngineSettings, RootHistory
from perseid.errors import CorruptData, RootError
from perseid.graph.topology import Topology
from perseid.vocabulary import HostId

Unseal = Callable[[str], bytes]
"""Gives back what was sealed. Raises ``CorruptData`` if nobody knows who wrote it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that was answered otherwise."""

    number: int
    date_ms: int  # on the wall clock
    event: on.Event
    recorded: tuple[str, ...]  # names of commands
    given: tuple[Command, ...]

    def __str__(self) -> str:
        names = tuple(type(command).__name__ for command in self.given)
        recorded, given = (", ".join(each) or "nothing" for each in (self.recorded, names))
        what = f"{given}, with other contents" if self.recorded == names else given
        return f"event {self.number}, {self.event}: recorded is {recorded}; the controller now gives {what}"


@dataclass(slots=True)
class Step:
    """One event, run again."""

    number: int
    at_ms: int  # of the steady clock
    date_ms: int  # of the wall clock
    event: on.Event | None  # None: the controller was just made, or read
    outcomes: tuple[Outcome, ...]
    difference: Difference | None


class Rerun:
    """One log, line after line."""

    def __init__(
        self,
        codec: EventCodec,
        unseal: Unseal,
        controller: Callable[..., Controller] = Controller,
        *,
        where: str = "the log",
    ) -> None:
        self._codec, self._unseal, self._made_by, self._where = codec, unseal, controller, where
        self.controller: Controller | None = None  # None: nobody knows where it stood
        self.run = self.commands = 0  # events that were run again, and what they commanded
        self.skipped = 0  # events that cannot be run, as far as their numbers tell
        self.beginnings = 0  # from starts and states
        self._number = self._digest = 0
        self._date_ms = 0  # at time 0 of the steady clock
        self._until_ms: int | None = None
        self._over = False  # the next event is later than that

    def steps(self, records: Iterable[Mapping[str, Any]], until_ms: int | None = None) -> Iterator[Step]:
        """Run all of it, or up to a time of the wall clock. After a difference the controller is not where it was: the run ends there."""
        self._until_ms = until_ms
        for record in records:
            for step in self._line(record):
                yield step
                if step.difference is not None:
                    return
            if self._over:
                return

    def _line(self, record: Mapping[str, Any]) -> Iterator[Step]:
        match record:
            case {"start": [*head, topology, settings, past]}:
                now_ms = self._head(head)
                if self._later(now_ms):
                    return
                read = self._codec.values.read
                made_of = self._read(
                    lambda: (read(Topology, topology), read(EngineSettings, settings), read(RootHistory, past))
                )
                self._number = self._digest = 0
                self.controller = self._made_by(*made_of, now_ms)
                yield self._begun(now_ms)
            case {"state": [*head, int(number), int(digest), str(sealed)]}:
                if self.controller is not None and number == self._number:
                    return  # it is known better by having been run
                now_ms = self._head(head)
                if self._later(now_ms):
                    return
                self.skipped += max(0, number - self._number)
                self.controller = self._known(sealed)
                self._number, self._digest = number, digest
                yield self._begun(now_ms)
            case {"e": [int(number), int(at_ms), event, *answer]}:
                if not self._later(at_ms) and self._goes_on(number, 1):
                    yield self._handled(number, at_ms, self._read(lambda: self._codec.read_event(event)), answer)
            case {"q": [int(number), int(at_ms), *numbers]}:
                events = list(_quiet(at_ms, numbers))
                if not self._later(at_ms) and self._goes_on(number, len(events)):
                    for more, (when_ms, quiet) in enumerate(events):
                        if self._later(when_ms):
                            return
                        yield self._handled(number + more, when_ms, quiet, [])

    def _later(self, at_ms: int) -> bool:
        self._over = self._until_ms is not None and self._date_ms + at_ms > self._until_ms
        return self._over

    def _begun(self, now_ms: int) -> Step:
        self.beginnings += 1
        return Step(self._number, now_ms, self._date_ms + now_ms, None, (), None)

    def _head(self, head: Sequence[Any]) -> int:
        """The time; raises if this version does not know what follows."""
        if len(head) != 4 or head[0] != FORMAT or head[1] != self._codec.version:
            raise RootError(
                f"{self._where} was recorded by another version of Perseid: its events are of version {_version(head)}, this is"
                f" {FORMAT}.{self._codec.version}; run it again with the version that recorded it. `perseid replay` without --verify"
                " and --at tells what happened in any version"
            )
        _, _, now_ms, date_ms = head
        self._date_ms = date_ms - now_ms
        return int(now_ms)

    def _known(self, sealed: str) -> Controller:
        controller = pickle.loads(zlib.decompress(self._unseal(sealed)))
        assert isinstance(controller, Controller)
        return controller

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Mismatch as error:
            raise CorruptData(f"{self._where}, after event {self._number}: a line cannot be read: {error}") from None

    def _goes_on(self, number: int, events: int) -> bool:
        """Does this line follow the one before? Else nobody knows where the controller stood."""
        if self.controller is not None and number == self._number + 1:
            return True
        if number > self._number:
            self.controller = None
            self.skipped += number - 1 - self._number + events
            self._number = number - 1 + events
        return False

    def _handled(self, number: int, at_ms: int, event: on.Event, answer: Sequence[Any]) -> Step:
        assert self.controller is not None
        outcomes = self.controller.handle(event, at_ms)
        commands = commands_of(outcomes)
        self._number, self.run = number, self.run + 1
        self.commands += len(commands)
        recorded, digest = (tuple(answer[0]), answer[1]) if answer else ((), self._digest)
        if commands:
            self._digest = self._codec.digest(commands, self._digest)
        date_ms = self._date_ms + at_ms
        same = self._digest == digest and len(recorded) == len(commands)
        difference = None if same else Difference(number, date_ms, event, recorded, commands)
        return Step(number, at_ms, date_ms, event, outcomes, difference)


def _quiet(at_ms: int, numbers: Sequence[int]) -> Iterator[tuple[int, on.Event]]:
    """Ticks and heartbeats, each with its time."""
    rest = iter(numbers)
    for passed_ms in rest:
        if passed_ms < 0:
            at_ms += -1 - passed_ms
            yield at_ms, on.Ticked()
        else:
            at_ms += passed_ms
            yield at_ms, on.HeartbeatArrived(HostId(next(rest)))


def _version(head: Sequence[Any]) -> str:
    return ".".join(map(str, head[:2])) or "?"
