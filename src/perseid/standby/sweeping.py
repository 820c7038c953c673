"""Refreshes of second copies (H2): when the state and the unacknowledged output of a unit go to its copies. Never its input.

sweeping      right after the output of a unit was trimmed, so that there is little of it to send; the last unit by a timer
synchronous   by a timer, all operators of a unit on all hosts at once, and the unit stands still meanwhile; to compare with
individual    by a timer of its own for every operator; to compare with

A unit acknowledges an epoch when it has processed it *and* every copy of the unit has the state after it. Acknowledgements are cumulative.
When all consumers of a unit have acknowledged an epoch, the unit's output is trimmed up to it. So a sweep begins at the end of the graph,
by the timer, and runs up to the sources.

A refresh sends the keys that changed since the one before; now and then, and when the copy may have something else, all of them.

Invariants: one refresh of a pair at a time; nothing is trimmed that a copy of a consumer does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.standby.modes import Timing
from perseid.vocabulary import Epoch, OperatorName, UnitName

FULL_EVERY = 60  # refreshes; at two a second, every half minute
LATEST = 2  # periods after which a unit is refreshed though its output was not trimmed: a consumer may be switched


class Part(NamedTuple):
    """What is refreshed at once: a pair's shards of one unit, or of one of its operators."""

    pair: int
    unit: UnitName
    operator: OperatorName | None = None  # None: all of the unit's


@dataclass(frozen=True, slots=True)
class Refresh:
    """Send a part's state, as it is after the epoch worked on, and the output not yet acknowledged to the copy."""

    part: Part
    number: int
    since: Epoch | None  # the copy has the state of this epoch, and needs what changed; None: everything
    suspends: bool  # the unit stands still until all its refreshes have arrived


@dataclass(frozen=True, slots=True)
class Trim:
    """Every consumer and its copies have these epochs of the unit's output: nobody keeps them for a copy any more."""

    unit: UnitName
    upto: Epoch


Command = Refresh | Trim


@dataclass(slots=True)
class _Copy:
    """What the copy of a part has, and when it is to get more."""

    has: Epoch
    due_ms: int
    began_ms: int  # the newest refresh
    partial: int = 0  # refreshes since a full one
    full: bool = False  # must the next one be?
    paused: bool = False  # the copy is at work, or the primary reads from it


@dataclass(slots=True)
class Refreshes:
    """Decides when which part is refreshed. Time arrives with every call."""

    period_ms: int
    consumers: Mapping[UnitName, frozenset[UnitName]]  # of every unit's output
    operators: Mapping[UnitName, tuple[OperatorName, ...]]
    timing: Timing = "sweeping"
    copies: dict[Part, _Copy] = field(default_factory=dict)
    running: dict[int, tuple[Part, int]] = field(default_factory=dict)  # by pair, and its number
    done: dict[UnitName, Epoch] = field(default_factory=dict)
    trimmed: dict[UnitName, Epoch] = field(default_factory=dict)
    number: int = 0  # of the last refresh

    # -- pairs ----------------------------------------------------------------------------------------------------

    def deploying(self, pair: int, done: Mapping[UnitName, Epoch], now_ms: int) -> None:
        """A copy of a pair's shards is being made: what comes after these epochs is not trimmed until the copy has it."""
        for part in self._parts(pair, done):
            self.copies[part] = _Copy(done[part.unit], self._first_ms(part, now_ms), now_ms, paused=True)

    def guarded(self, pair: int, epoch: Epoch, now_ms: int) -> tuple[Command, ...]:
        """The copy is deployed, or suspended again, and needs only what comes after this epoch (``Pair.needs_after``)."""
        for copy in self._of(pair):
            copy.has, copy.paused = max(copy.has, epoch), False
        return self._advance(now_ms)

    def stood(self, pair: int, epoch: Epoch, now_ms: int) -> tuple[Command, ...]:
        """The copy, which gets every epoch and is never refreshed, has applied this one."""
        for copy in self._of(pair):
            copy.has = max(copy.has, epoch)
        return self._advance(now_ms)

    def paused(self, pair: int) -> None:
        """The copy answers: it is not refreshed, and what it and the primary may need is not trimmed. It works itself, so that the
        next refresh is a full one."""
        self.running.pop(pair, None)
        for copy in self._of(pair):
            copy.paused = copy.full = True

    def unguarded(self, pair: int, now_ms: int) -> tuple[Command, ...]:
        """There is no copy any more: it was dropped, or promoted and has applied all that was answered before."""
        self.running.pop(pair, None)
        self.copies = {part: copy for part, copy in self.copies.items() if part.pair != pair}
        return self._advance(now_ms)

    # -- epochs and refreshes -------------------------------------------------------------------------------------

    def processed(self, unit: UnitName, epoch: Epoch, now_ms: int) -> tuple[Command, ...]:
        """All shards of a unit are done with an epoch."""
        self.done[unit] = epoch
        return self._advance(now_ms)

    def put_back(self, epochs: Mapping[UnitName, Epoch]) -> None:
        """The whole application went back to these epochs: no copy is worth anything."""
        self.copies, self.running, self.done = {}, {}, dict(epochs)
        self.trimmed = {
            unit: min([upto, *(epochs.get(consumer, upto) for consumer in self.consumers[unit])])
            for unit, upto in self.trimmed.items()
        }

    def refreshed(self, part: Part, number: int, epoch: Epoch, now_ms: int) -> tuple[Command, ...]:
        """The copy has a part's state as of this epoch."""
        if self.running.get(part.pair) == (part, number):
            del self.running[part.pair]
            copy = self.copies[part]
            copy.has = max(copy.has, epoch)
            copy.partial = 0 if copy.full else copy.partial + 1
            copy.full = copy.partial >= FULL_EVERY
        return self._advance(now_ms)

    def failed(self, part: Part, number: int, now_ms: int) -> tuple[Command, ...]:
        """A refresh came to nothing, or to half of it."""
        if self.running.get(part.pair) == (part, number):
            del self.running[part.pair]
            self.copies[part].full, self.copies[part].due_ms = True, now_ms + self.period_ms
        return self._advance(now_ms)

    def tick(self, now_ms: int, at_work: frozenset[UnitName] = frozenset()) -> tuple[Command, ...]:
        """Time has passed. Units ``at_work`` are in the middle of an epoch."""
        return (*self._trim(now_ms), *self._begin(now_ms, at_work))

    def acknowledged(self, unit: UnitName) -> Epoch:
        """Up to where the unit has processed its input, and all its copies have the state after it."""
        has = [copy.has for part, copy in self.copies.items() if part.unit == unit]
        return min([self.done.get(unit, Epoch(0)), *has])

    # -- the next step --------------------------------------------------------------------------------------------

    def _advance(self, now_ms: int) -> tuple[Command, ...]:
        return (*self._trim(now_ms), *self._begin(now_ms))

    def _trim(self, now_ms: int) -> list[Command]:
        commands: list[Command] = []
        for unit, consumers in sorted(self.consumers.items()):
            upto = min((self.acknowledged(consumer) for consumer in consumers), default=Epoch(0))
            if upto <= self.trimmed.get(unit, 0):
                continue
            self.trimmed[unit] = upto
            commands.append(Trim(unit, upto))
            for part, copy in self.copies.items():
                if (
                    self.timing == "sweeping" and part.unit == unit
                ):  # not with every epoch where consumers have no copies
                    copy.due_ms = min(copy.due_ms, max(now_ms, copy.began_ms + self.period_ms // 2))
        return commands

    def _begin(self, now_ms: int, at_work: frozenset[UnitName] = frozenset()) -> list[Command]:
        """Whose turn it is, the longest due first. A sweep waits for a moment between two epochs, though not for long: there is no output
        to send then."""
        commands: list[Command] = []
        for part, copy in sorted(self.copies.items(), key=lambda item: (item[1].due_ms, item[0])):
            fresh = copy.has < self.done.get(part.unit, 0)
            if copy.due_ms > now_ms or copy.paused or part.pair in self.running or not fresh:
                continue
            early = self.timing == "sweeping" and now_ms < copy.began_ms + self.period_ms * LATEST
            if early and (part.unit in at_work or self._in_use(part.unit)):
                continue
            self.number += 1
            self.running[part.pair] = (part, self.number)
            copy.began_ms = now_ms
            copy.due_ms = self._next_ms(part, copy.due_ms, now_ms)
            since = None if copy.full else copy.has
            commands.append(Refresh(part, self.number, since, self.timing == "synchronous"))
        return commands

    def _in_use(self, unit: UnitName) -> bool:
        """Is there output that a consumer has not processed?"""
        return any(self.done.get(consumer, 0) < self.done[unit] for consumer in self.consumers[unit])

    def _of(self, pair: int) -> list[_Copy]:
        return [copy for part, copy in self.copies.items() if part.pair == pair]

    def _parts(self, pair: int, units: Iterable[UnitName]) -> list[Part]:
        if self.timing == "individual":
            return [Part(pair, unit, operator) for unit in units for operator in self.operators[unit]]
        return [Part(pair, unit) for unit in units]

    def _wait_ms(self, part: Part) -> int:
        """From one refresh to the next, if nothing else asks for it."""
        swept = self.timing == "sweeping" and self.consumers.get(part.unit)
        return self.period_ms * LATEST if swept else self.period_ms

    def _first_ms(self, part: Part, now_ms: int) -> int:
        """All hosts of a unit have one timer, operators have timers that are spread over the period."""
        if self.timing == "individual" and part.operator is not None:
            operators = [operator for mine in self.operators.values() for operator in mine]
            return now_ms + self.period_ms * (1 + operators.index(part.operator)) // len(operators)
        return self._next_ms(part, 0, now_ms) if self.timing == "synchronous" else now_ms + self._wait_ms(part)

    def _next_ms(self, part: Part, due_ms: int, now_ms: int) -> int:
        """The first time by the part's timer that is still to come."""
        wait_ms = self._wait_ms(part)
        if self.timing == "sweeping":
            return now_ms + wait_ms
        return due_ms + wait_ms * (1 + max(0, now_ms - due_ms) // wait_ms)

    def check(self) -> None:
        """Assert the invariants."""
        assert all(part.pair == pair and part in self.copies for pair, (part, _) in self.running.items())
        assert not any(self.copies[part].paused for part, _ in self.running.values())
        for unit, upto in self.trimmed.items():
            assert all(self.acknowledged(consumer) >= upto for consumer in self.consumers[unit])
