"""The oracle: checkpoints at the minima known from a recorded run (the paper's figures 14 and 16), for comparison.

"This checkpoint time is obtained from observing prior runs, when a complete picture of the runtime state is available. Oracle
is the optimal result." It is what ``adaptive`` is measured against, and no scheme to run in earnest.

Invariant: every period of the recording gets one checkpoint, at its smallest state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.policy import Decision, Reason, Sizeless, Standing
from perseid.checkpoint.size_reports import SizeCommand
from perseid.errors import SettingsError
from perseid.vocabulary import Epoch


@dataclass(frozen=True, slots=True)
class RecordedSize:
    """The state of a recorded run after one epoch, or at one time."""

    at_ms: int  # since the recorded run began
    bytes: int
    epoch: Epoch | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """The curve of a run's state size."""

    sizes: tuple[RecordedSize, ...]

    @classmethod
    def of(cls, recording: Any) -> Recording:
        """From ``(seconds, bytes)`` pairs, or as it is."""
        if isinstance(recording, Recording):
            return recording
        try:
            sizes = tuple(RecordedSize(round(seconds * 1000), int(size)) for seconds, size in recording)
        except (TypeError, ValueError) as error:
            raise SettingsError(
                "oracle(recording=...): expected (seconds, bytes) pairs or what perseid.checkpoints.comparison.recording(root) returns,"
                f" got {recording!r:.80}"
            ) from error
        if not sizes:
            raise SettingsError("oracle(recording=...): the recording is empty")
        return cls(tuple(sorted(sizes, key=lambda s: s.at_ms)))

    @classmethod
    def from_journal(cls, records: Iterable[Mapping[str, Any]]) -> Recording:
        """From the journal of a run: the total state size after every epoch."""
        epochs = [r for r in records if r.get("kind") == "epoch_committed" and "state_bytes" in r]
        if not epochs:
            raise SettingsError("recording: the journal tells of no epoch with its state size")
        begin = epochs[0]["at_ms"] - round(epochs[0].get("ms", 0))
        return cls(tuple(RecordedSize(r["at_ms"] - begin, r["state_bytes"], Epoch(r["epoch"])) for r in epochs))

    def minima(self, period_ms: int) -> tuple[RecordedSize, ...]:
        """The smallest state of each period."""
        best: dict[int, RecordedSize] = {}
        for size in self.sizes:
            period = size.at_ms // period_ms
            if period not in best or size.bytes < best[period].bytes:
                best[period] = size
        return tuple(best[period] for period in sorted(best))


@dataclass(slots=True)
class Oracle(Sizeless):
    """Knows the future."""

    period_ms: int
    minima: tuple[RecordedSize, ...]  # still to come
    ends_ms: int  # of the recorded periods
    begun_ms: int
    last_ms: int
    running: bool = False

    @classmethod
    def made(cls, recording: Recording, period_ms: int, now_ms: int) -> Oracle:
        minima = recording.minima(period_ms)
        ends = (recording.sizes[-1].at_ms // period_ms + 1) * period_ms
        return cls(period_ms, minima, ends, now_ms, now_ms)

    def begin(self, now_ms: int) -> tuple[SizeCommand, ...]:
        """Times are counted from the first start."""
        if not self.running:
            self.begun_ms = self.last_ms = now_ms
            self.running = True
        return ()

    def decide(self, seen: Standing) -> Decision | None:
        if not seen.moved:
            return None
        if self.minima:
            best = self.minima[0]
            reached = seen.epoch >= best.epoch if best.epoch is not None else seen.now_ms - self.begun_ms >= best.at_ms
            return Decision(Reason.RECORDED, facts={"bytes": best.bytes}) if reached else None
        past = max(self.last_ms, self.begun_ms + self.ends_ms - self.period_ms)
        return Decision(Reason.UNRECORDED) if seen.now_ms - past >= self.period_ms else None

    def started(self, decision: Decision, now_ms: int) -> tuple[SizeCommand, ...]:
        if decision.reason is Reason.RECORDED:
            self.minima = self.minima[1:]
        self.last_ms = now_ms
        return ()

    def check(self) -> None:
        """Assert the invariants."""
        times = [m.at_ms for m in self.minima]
        assert times == sorted(times)
