"""Who carries out a unit's jobs: its own worker, and a follower for replays that must not keep it from its epochs (a live scale).

Invariant: a job that was taken back is taken back again, until it has ended: Spark may miss a cancellation that comes before the job's
first stage. A thread of its own does that, since a Spark that is stuck does not answer, and the controller must go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from perseid.engine import commands as do
from perseid.spark.unit_worker import UnitWorker
from perseid.vocabulary import Attempt, UnitName

JOIN_S = 5.0
CANCEL_AGAIN_S = 0.1


class Workers:
    """Of all units. Used by the controller's thread."""

    def __init__(self, units: Iterable[UnitName], make: Callable[[UnitName], UnitWorker]) -> None:
        self._make = make
        self._own = {unit: make(unit) for unit in units}
        self._followers: dict[UnitName, UnitWorker] = {}
        self._followed: dict[UnitName, Attempt] = {}

    def submit(self, command: do.RunEpoch | do.ReplayShards) -> None:
        """A replay ``beside`` its unit leaves the unit's own worker to its epochs."""
        beside = isinstance(command, do.ReplayShards) and command.beside
        worker = self._follower(command.unit, command.attempt) if beside else self._own[command.unit]
        worker.submit(command)

    def _follower(self, unit: UnitName, attempt: Attempt) -> UnitWorker:
        self._followed[unit] = attempt
        if unit not in self._followers:
            self._followers[unit] = self._make(unit)
        return self._followers[unit]

    def cancel(self, unit: UnitName, attempt: Attempt) -> None:
        worker = self._own[unit] if attempt != self._followed.get(unit) else self._followers[unit]
        _cancel(worker, attempt)

    def stop(self, running: Callable[[UnitName], Attempt | None]) -> None:
        """End all; ``running`` says which job a unit's own worker is at."""
        for unit, worker in self._own.items():
            attempt = running(unit)
            if attempt is not None:
                _cancel(worker, attempt)
            worker.stop()
        for unit, worker in self._followers.items():
            _cancel(worker, self._followed[unit])
            worker.stop()

    def join(self) -> None:
        """Wait for the end of all, for a while: what does not end by then is stuck in Spark."""
        until = time.monotonic() + JOIN_S
        for worker in (*self._own.values(), *self._followers.values()):
            worker.join(max(0.0, until - time.monotonic()))


def _cancel(worker: UnitWorker, attempt: Attempt) -> None:
    threading.Thread(target=_cancel_until_it_ends, args=(worker, attempt), name="perseid-cancel", daemon=True).start()


def _cancel_until_it_ends(worker: UnitWorker, attempt: Attempt) -> None:
    while worker.is_at(attempt):
        worker.cancel(attempt)
        time.sleep(CANCEL_AGAIN_S)
