"""Epochs on their way through the units: who may work on what (back-pressure, admission, order).

Every unit works on its own epoch. It may start epoch n when n is admitted, every unit above has finished n, and no
unit below lags more than ``queue`` epochs: a slow unit stops the one before it only when the queue between is full.

Invariant: along every stream, producer.finished >= consumer.finished >= producer.finished - queue (the last but for
what a recovery has put back).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from perseid.graph.topology import Topology
from perseid.vocabulary import Attempt, Epoch, HostId, UnitName

NOBODY: Mapping[HostId, int] = {}


class UnitState(NamedTuple):
    """Where one unit stands. Every epoch makes two."""

    finished: Epoch = Epoch(0)
    put_back: Epoch = Epoch(0)  # where the last recovery of the whole application put it
    running: Epoch | None = None  # the epoch its job works on (a replay: the last epoch it feeds)
    attempt: Attempt = Attempt(0)  # of the running job
    replaying: bool = False
    cancelled: bool = False
    failures: int = 0  # of the epoch after ``finished``, in a row
    blamed: Mapping[HostId, int] = NOBODY  # of these failures, on hosts that seemed to be alive
    setbacks: int = 0  # tries of that epoch that ended because hosts were lost or shards had to be restored
    error: str = ""  # why the last try of that epoch did not end well
    cancelled_ms: int = 0  # when the running job was taken back
    not_before_ms: int = 0  # pause after a failure
    tried: Epoch = Epoch(0)  # the newest epoch that was begun

    @property
    def idle(self) -> bool:
        return self.running is None

    @property
    def tries(self) -> int:
        """Of the epoch after ``finished``, that have failed."""
        return self.failures + self.setbacks

    @property
    def position(self) -> Epoch:
        """The newest boundary its state will stand at without any further command."""
        return self.finished if self.running is None else max(self.running, self.finished)


class Standings(Protocol):
    """Where all units stand: what others may know of the pipeline."""

    @property
    def units(self) -> Mapping[UnitName, UnitState]: ...

    @property
    def attempts(self) -> int:
        """How many jobs there have been: the next attempt is one more."""
        ...

    @property
    def committed(self) -> Epoch: ...

    @property
    def settled(self) -> bool: ...

    def consumed(self, unit: UnitName) -> Epoch: ...


@dataclass(slots=True)
class Pipeline:
    """All units, and the newest admitted epoch."""

    topology: Topology
    queue: int
    admitted: Epoch
    units: dict[UnitName, UnitState] = field(default_factory=dict)
    attempts: int = 0

    def __post_init__(self) -> None:
        self.units = {u.name: UnitState() for u in self.topology.units}

    def may_run(self, unit: UnitName, now_ms: int) -> Epoch | None:
        """The epoch this unit can start now, if any."""
        state = self.units[unit]
        epoch = Epoch(state.finished + 1)
        if not state.idle or epoch > self.admitted or now_ms < state.not_before_ms:
            return None
        for above in self.topology.upstream(unit):
            if self.units[above].finished < epoch:
                return None
        for below in self.topology.downstream(unit):
            if epoch - self.units[below].finished > self.queue:
                return None
        return epoch

    def may_admit(self) -> bool:
        """Is everything admitted already taken in by the units that read sources?"""
        return all(self.units[u].finished >= self.admitted for u in self.topology.source_units)

    def started(self, unit: UnitName, epoch: Epoch, *, replaying: bool = False) -> Attempt:
        state, attempt = self.units[unit], self.next_attempt()
        assert state.idle, f"unit {unit!r} is still working on epoch {state.running}"
        tried = max(state.tried, epoch)
        self._set(unit, running=epoch, attempt=attempt, tried=tried, replaying=replaying, cancelled=False)
        return attempt

    def next_attempt(self) -> Attempt:
        self.attempts += 1
        return Attempt(self.attempts)

    def is_current(self, unit: UnitName, attempt: Attempt) -> bool:
        state = self.units[unit]
        return not state.idle and state.attempt == attempt

    def ended(self, unit: UnitName) -> None:
        self._set(unit, running=None, replaying=False, cancelled=False)

    def cancelled(self, unit: UnitName, now_ms: int) -> None:
        """Its job is taken back."""
        self._set(unit, cancelled=True, cancelled_ms=now_ms)

    def put_back(self, unit: UnitName, epoch: Epoch) -> None:
        """The whole application goes back: what is made from here on is new, nothing of it was tried before."""
        self._set(unit, finished=epoch, put_back=epoch, tried=epoch)

    def go_on(self) -> None:
        """Every unit may try again now."""
        for unit, state in self.units.items():
            if state.not_before_ms:
                self._set(unit, not_before_ms=0)

    def _set(self, unit: UnitName, **changes: Any) -> None:
        self.units[unit] = self.units[unit]._replace(**changes)

    def finished(self, unit: UnitName) -> Epoch:
        """The running epoch is done."""
        state = self.units[unit]
        epoch = state.running
        assert epoch is not None and epoch == state.finished + 1
        self.units[unit] = UnitState(
            finished=epoch,
            put_back=state.put_back,
            attempt=state.attempt,
            cancelled_ms=state.cancelled_ms,
            tried=state.tried,
        )
        return epoch

    def consumed(self, unit: UnitName) -> Epoch:
        """Up to where nobody needs this unit's output any more: itself, and all units below, are past it."""
        return min([self.units[unit].finished, *(self.units[d].finished for d in self.topology.downstream(unit))])

    @property
    def committed(self) -> Epoch:
        """The newest epoch that every unit has finished."""
        return min(state.finished for state in self.units.values())

    @property
    def settled(self) -> bool:
        """Is no consumer ahead of its producer, which was put back further than it (M2)?"""
        return all(self.units[s.producer].finished >= self.units[s.consumer].finished for s in self.topology.streams)

    @property
    def quiet(self) -> bool:
        """Nothing runs and nothing is left to run."""
        return all(s.idle and s.finished >= self.admitted for s in self.units.values())

    def check(self) -> None:
        for stream in self.topology.streams:
            above, below = self.units[stream.producer], self.units[stream.consumer]
            waiting = below.finished == below.put_back  # for a producer that was put back further
            assert above.finished >= below.finished or waiting, f"{stream.name}: the consumer is ahead of the producer"
        for name, state in self.units.items():
            assert state.finished <= self.admitted, f"unit {name!r} finished an epoch that was never admitted"
