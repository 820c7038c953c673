"""What a test saw of an application while it ran: recoveries, checkpoints, the longest time without a committed epoch.

Pure: pictures and times come in. Counts go on over a crash of the driver, where those of the application start anew. Its time stands still
until the driver is heard of again: how long a machine needs to start Spark must not decide how many faults of a plan come at once then.
"""

from __future__ import annotations

from dataclasses import dataclass

from perseid.engine.progress import Progress


@dataclass(slots=True)
class Watch:
    """Fed with one picture after the other."""

    epoch: int = 0
    recoveries: int = 0  # begun
    checkpoints: int = 0  # committed, over all starts
    starts: int = 1
    longest_outage_s: float = 0.0  # between two commits
    running_since_s: float | None = (
        None  # since its first epoch is committed, later by what crashed drivers took to start again
    )
    _phase: str = "starting"
    _committed_s: float | None = None
    _checkpoints_now: int = 0
    _crashed_s: float | None = None  # when the driver was killed that has not been heard of since

    def saw(self, picture: Progress | None, now_s: float) -> None:
        """A picture, or that there is none yet."""
        if picture is None:
            return
        if self._crashed_s is not None:
            if self.running_since_s is not None:
                self.running_since_s += now_s - self._crashed_s
            self._crashed_s = None
        if picture.epoch and self.running_since_s is None:
            self.running_since_s = now_s
        if picture.phase == "recovering" and self._phase != "recovering":
            self.recoveries += 1
        self._phase = picture.phase
        if picture.checkpoints > self._checkpoints_now:
            self.checkpoints += picture.checkpoints - self._checkpoints_now
        self._checkpoints_now = picture.checkpoints
        if picture.epoch > self.epoch:
            if self._committed_s is not None:
                self.longest_outage_s = max(self.longest_outage_s, now_s - self._committed_s)
            self.epoch, self._committed_s = picture.epoch, now_s

    def crashed(self, now_s: float) -> None:
        """The driver was killed; another start begins."""
        self.starts += 1
        self._crashed_s = now_s
        self._phase, self._checkpoints_now = "starting", 0

    def running_s(self, now_s: float) -> float:
        """How long ago its first epoch was committed, without the time in which there was no driver."""
        if self.running_since_s is None:
            return 0.0
        return (now_s if self._crashed_s is None else self._crashed_s) - self.running_since_s

    @property
    def silent_since_s(self) -> float | None:
        """When the last commit was seen."""
        return self._committed_s
