"""Timers: a shard's appointments, by processing time or by event time.

A timer is the four things (key, at_ms, kind, name); setting the same four twice is setting them once. It fires in the
first epoch whose time (processing) or watermark (event) is at or after ``at_ms``, after the rows of that epoch were
processed. A timer set while timers fire waits for the next epoch at least.

Invariant: the order of firing is (kind: processing first, at_ms, order of setting). Nothing depends on ``hash()``, and
a snapshot keeps the order of setting.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple, get_args

from perseid.errors import OperatorMistake

TimerKind = Literal["processing", "event"]
_KINDS: tuple[TimerKind, ...] = get_args(TimerKind)


class Timer(NamedTuple):
    """One appointment of one key."""

    key: Hashable
    at_ms: int
    kind: TimerKind = "processing"
    name: str = ""


class Timers:
    """The timers of one shard.

    self.context.timers.at_processing_time(key, self.context.time_ms + 30_000)
    self.context.timers.at_event_time(key, window_end_ms, name="close")
    self.context.timers.cancel(key)
    """

    __slots__ = ("_by_key", "_count", "_heaps", "_sequence", "has_event_time", "silent")

    def __init__(self) -> None:
        self._by_key: dict[
            Hashable, dict[tuple[int, TimerKind, str], int]
        ] = {}  # pending timers and when they were set
        self._heaps: dict[TimerKind, list[tuple[int, int, Timer]]] = {
            kind: [] for kind in _KINDS
        }  # may hold cancelled ones
        self._sequence = 0
        self._count = 0
        self.has_event_time = True  # of the operator, in the epoch that runs
        self.silent = False  # they fire when there is an epoch, and are no reason to have one

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def at_processing_time(self, key: Hashable, at_ms: int, *, name: str = "") -> None:
        """Fire in the first epoch whose time (``self.context.time_ms``) is at or after ``at_ms``."""
        self._set(key, at_ms, "processing", name)

    def at_event_time(self, key: Hashable, at_ms: int, *, name: str = "") -> None:
        """Fire in the first epoch whose watermark (``self.context.watermark_ms``) is at or after ``at_ms``."""
        if not self.has_event_time:
            raise OperatorMistake(
                "timers.at_event_time: the operator has no event time, so the timer would never fire; give stateful()"
                " event_time=perseid.event_time(column, delay=…), or use timers.at_processing_time"
            )
        self._set(key, at_ms, "event", name)

    def _set(self, key: Hashable, at_ms: int, kind: TimerKind, name: str) -> None:
        at_ms = int(at_ms)
        of_key = self._by_key.setdefault(key, {})
        if (at_ms, kind, name) in of_key:
            return
        of_key[(at_ms, kind, name)] = self._sequence
        heapq.heappush(self._heaps[kind], (at_ms, self._sequence, Timer(key, at_ms, kind, name)))
        self._sequence += 1
        self._count += 1

    def cancel(self, key: Hashable, at_ms: int | None = None, *, name: str = "") -> None:
        """Take back the key's timers of this name, by either clock; with ``at_ms`` only those set for then. No error if none."""
        of_key = self._by_key.get(key)
        if of_key is None:
            return
        for pending in list(of_key):
            if pending[2] == name and at_ms in (None, pending[0]):
                self._remove(of_key, pending, key)
        self._compact()

    def cancel_all(self, key: Hashable) -> None:
        """Take back every timer of the key, of any kind and name."""
        self._count -= len(self._by_key.pop(key, ()))
        self._compact()

    def pending(self, key: Hashable) -> list[Timer]:
        """The timers of the key that have not fired, in the order they were set."""
        return [Timer(key, *pending) for pending in self._by_key.get(key, ())]

    def has(self, key: Hashable) -> bool:
        """Whether the key has a timer that has not fired."""
        return key in self._by_key

    def due(self, time_ms: int, watermark_ms: int | None) -> list[Timer]:
        """Take out the timers that fire now, in order."""
        fired: list[Timer] = []
        for kind, now_ms in zip(_KINDS, (time_ms, watermark_ms), strict=True):
            while now_ms is not None and (timer := self._first(kind)) is not None and timer.at_ms <= now_ms:
                heapq.heappop(self._heaps[kind])
                self._remove(self._by_key[timer.key], timer[1:], timer.key)
                fired.append(timer)
        return fired

    def next_ms(self, kind: TimerKind) -> int | None:
        """When the next timer of that kind is due; None if there is none, or if that is no reason for an epoch."""
        if self.silent:
            return None
        timer = self._first(kind)
        return None if timer is None else timer.at_ms

    def capture(self) -> list[tuple[Hashable, int, TimerKind, str]]:
        """Every pending timer in the order of setting, as plain tuples: what a snapshot holds."""
        pending = [(sequence, key, timer) for key, of_key in self._by_key.items() for timer, sequence in of_key.items()]
        pending.sort(key=lambda entry: entry[0])
        return [(key, *timer) for _, key, timer in pending]

    @classmethod
    def restored(cls, captured: Iterable[tuple[Hashable, int, TimerKind, str]]) -> Timers:
        """The timers of a snapshot."""
        timers = cls()
        for key, at_ms, kind, name in captured:
            timers._set(key, at_ms, kind, name)
        return timers

    def check(self) -> None:
        """Assert the invariants."""
        assert self._count == sum(map(len, self._by_key.values()))
        assert all(self._by_key.values()), "a key without timers is not kept"
        assert self._count <= sum(map(len, self._heaps.values())), "every pending timer is in its heap"

    def _first(self, kind: TimerKind) -> Timer | None:
        """The next pending timer; drops cancelled ones before it from the heap."""
        heap = self._heaps[kind]
        while heap:
            _, sequence, timer = heap[0]
            of_key = self._by_key.get(timer.key)
            if of_key is not None and of_key.get(timer[1:]) == sequence:
                return timer
            heapq.heappop(heap)
        return None

    def _remove(
        self, of_key: dict[tuple[int, TimerKind, str], int], pending: tuple[int, TimerKind, str], key: Hashable
    ) -> None:
        del of_key[pending]
        self._count -= 1
        if not of_key:
            del self._by_key[key]

    def _compact(self) -> None:
        """Cancelled timers stay in a heap until they come up; no more of them than pending ones and a few."""
        if sum(map(len, self._heaps.values())) <= 2 * self._count + 64:
            return
        for kind in _KINDS:
            self._heaps[kind] = []
        for key, of_key in self._by_key.items():
            for (at_ms, kind, name), sequence in of_key.items():
                self._heaps[kind].append((at_ms, sequence, Timer(key, at_ms, kind, name)))
        for heap in self._heaps.values():
            heapq.heapify(heap)
