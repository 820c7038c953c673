"""What recording events costs the controller's thread: the events of a run that was measured are recorded once more, into memory.

An epoch has events of its own; ticks and heartbeats come with time. Processor time of the thread, the least of some rounds: other work
on the machine is none of its cost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from perseid.engine import events as on
from perseid.engine.event_log import EventCodec, EventLog
from perseid.engine.notices import Outcome
from perseid.engine.rerun import Rerun
from perseid.storage.events import EventSeal, read_events
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.store import Store

ROUNDS = 5

Given = tuple[on.Event, int, tuple[Outcome, ...]]


@dataclass(frozen=True, slots=True)
class RecordingCost:
    """Of all events of a run."""

    epoch_us: float  # an epoch's own events, and all else that happened
    epoch_bytes: float
    quiet_us_per_s: float  # ticks and heartbeats, in a second of the run
    quiet_bytes_per_s: float

    def us(self, epoch_ms: float) -> float:
        """Of an epoch that takes so long."""
        return self.epoch_us + self.quiet_us_per_s * epoch_ms / 1000

    def bytes(self, epoch_ms: float) -> float:
        return self.epoch_bytes + self.quiet_bytes_per_s * epoch_ms / 1000


def recording_cost(root: str) -> RecordingCost:
    """Read from the root of a run that has ended."""
    store = Store.at(root)
    steps = list(Rerun(EventCodec(ShardSnapshot), EventSeal(store).unseal, where=root).steps(read_events(store)))
    given = [(step.event, step.at_ms, step.outcomes) for step in steps if step.event is not None]
    quiet = [one for one in given if not one[2] and isinstance(one[0], on.Ticked | on.HeartbeatArrived)]
    loud = [one for one in given if one[2] or not isinstance(one[0], on.Ticked | on.HeartbeatArrived)]
    epochs = max(1, sum(isinstance(event, on.EpochAdmitted) for event, _, _ in given))
    seconds = (given[-1][1] - given[0][1]) / 1000
    (loud_us, loud_bytes), (quiet_us, quiet_bytes) = _recorded(loud), _recorded(quiet)
    return RecordingCost(loud_us / epochs, loud_bytes / epochs, quiet_us / seconds, quiet_bytes / seconds)


def _recorded(given: Sequence[Given]) -> tuple[float, int]:
    """Microseconds and bytes."""
    best_s, size = float("inf"), 0
    for _ in range(ROUNDS):
        lines: list[bytes] = []
        log = EventLog(EventCodec(ShardSnapshot), lines.append, None)
        begun_s = time.thread_time()
        for event, at_ms, outcomes in given:
            log.handled(event, at_ms, outcomes)
        log.flush()
        best_s, size = min(best_s, time.thread_time() - begun_s), sum(map(len, lines))
    return best_s * 1e6, size
