"""Who carries out a unit's jobs: its own worker, and a follower for replays that must not keep it from its epochs (a live scale).

Invariant: a job that was taken back is taken back again, until its worker is given another; Spark may miss a cancellation that
comes before the job's first stage.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from perseid.engine import commands as do
from perseid.spark.unit_worker import UnitWorker
from perseid.vocabulary import Attempt, UnitName

JOIN_S = 10.0


class Workers:
    """Of all units. Used by the controller's thread."""

    def __init__(self, units: Iterable[UnitName], make: Callable[[UnitName], UnitWorker]) -> None:
        self._make = make
        self._own = {unit: make(unit) for unit in units}
        self._followers: dict[UnitName, UnitWorker] = {}
        self._followed: dict[UnitName, Attempt] = {}
        self._cancelling: dict[UnitWorker, Attempt] = {}

    def submit(self, command: do.RunEpoch | do.ReplayShards, *, beside: bool) -> None:
        """``beside``: the unit's own worker goes on with its epochs."""
        worker = self._follower(command.unit, command.attempt) if beside else self._own[command.unit]
        self._cancelling.pop(worker, None)
        worker.submit(command)

    def _follower(self, unit: UnitName, attempt: Attempt) -> UnitWorker:
        self._followed[unit] = attempt
        if unit not in self._followers:
            self._followers[unit] = self._make(unit)
        return self._followers[unit]

    def cancel(self, unit: UnitName, attempt: Attempt) -> None:
        worker = self._own[unit] if attempt != self._followed.get(unit) else self._followers[unit]
        self._cancelling[worker] = attempt
        threading.Thread(target=worker.cancel, args=(attempt,), daemon=True).start()

    def cancel_again(self) -> None:
        """What was taken back and may not have heard."""
        for worker, attempt in list(self._cancelling.items()):
            worker.cancel(attempt)

    def stop(self, running: Callable[[UnitName], Attempt | None]) -> None:
        """End all; ``running`` says which job a unit's own worker is at."""
        for unit, worker in self._own.items():
            attempt = running(unit)
            if attempt is not None:
                worker.cancel(attempt)
            worker.stop()
        for unit, worker in self._followers.items():
            worker.cancel(self._followed[unit])
            worker.stop()

    def join(self) -> None:
        for worker in self._own.values():
            worker.join(JOIN_S)
