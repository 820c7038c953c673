"""What a test saw of an application while it ran: recoveries, checkpoints, the longest time without a committed epoch.

Pure: pictures and times come in. Counts go on over a crash of the driver, where those of the application start anew.
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
    running_since_s: float | None = None  # since its first epoch is committed
    _phase: str = "starting"
    _committed_s: float | None = None
    _checkpoints_now: int = 0

    def saw(self, picture: Progress | None, now_s: float) -> None:
        """A picture, or that there is none yet."""
        if picture is None:
            return
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

    def crashed(self) -> None:
        """The driver was killed; another start begins."""
        self.starts += 1
        self._phase, self._checkpoints_now = "starting", 0

    def running_s(self, now_s: float) -> float:
        """How long ago its first epoch was committed."""
        return 0.0 if self.running_since_s is None else now_s - self.running_since_s

    @property
    def silent_since_s(self) -> float | None:
        """When the last commit was seen."""
        return self._committed_s
