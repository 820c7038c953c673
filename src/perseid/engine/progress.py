"""What a running application shows of itself: one frozen picture, taken whenever somebody looks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Phase = Literal["starting", "running", "recovering", "stopping", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host as the controller sees it."""

    host: int
    pid: int
    address: str
    alive: bool
    shards: tuple[str, ...]
    state_bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """One committed checkpoint."""

    id: int
    epoch: int
    bytes: int
    duration_ms: int | None  # None: an earlier driver took it


@dataclass(frozen=True, slots=True)
class EpochStatus:
    """One committed epoch."""

    epoch: int
    time_ms: int  # of the epoch, as operators see it
    duration_ms: float | None  # None: admitted by an earlier driver
    rows_in: int
    rows_out: int  # of all operators
    late_rows: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class StandbyStatus:
    """Shards of one host, and their copy on another one."""

    primary: int
    copy: int | None  # None: there is none, and a host for one is looked for
    mode: str
    phase: str  # unguarded, deploying, guarded, switched, returning, launching
    shards: tuple[str, ...]
    lag: int | None  # epochs that the hindmost of the two lacks; None: there is no copy yet

    @property
    def answering(self) -> int | None:
        """Who answers; under active standby the other one does, too. None: a new host is launched."""
        if self.phase in ("switched", "returning"):
            return self.copy
        return None if self.phase == "launching" else self.primary


@dataclass(frozen=True, slots=True)
class Progress:
    """A running application at one moment, from ``Running.progress``."""

    app: str
    phase: Phase
    epoch: int = 0  # newest epoch that every unit has committed
    rows_in: int = 0  # since the start of this driver
    rows_out: int = 0
    rows_per_s: float = 0.0  # over the last few seconds
    epoch_ms: float = 0.0  # median duration of the last epochs, from admission to commit
    state_bytes: int = 0
    late_rows: int = 0
    dead_letters: int = 0  # rows put aside since the start of this driver
    dead_letter_error: str = ""  # operator, epoch and error of the newest
    malformed_lines: int = 0  # of files, put aside since the root was new
    checkpoints: int = 0  # committed since the start of this driver
    last_checkpoint: CheckpointStatus | None = None  # also if an earlier driver took it
    failed_checkpoints: int = 0  # since the start of this driver
    checkpoint_error: str = ""  # why the newest one failed; empty as soon as a later one is committed
    hosts: tuple[HostStatus, ...] = ()
    spares: int = 0  # ready hosts without shards
    standby: tuple[StandbyStatus, ...] = ()  # of operators that have one
    switches: int = 0  # to a copy, since the start of this driver
    roll_backs: int = 0  # to a primary that answered again
    last_switch: str = ""  # the newest of both, or that a host was replaced for good, and why
    faults: int = 0  # hosts lost and survived since the start of this driver
    trouble: str = ""  # why the next epoch is not to be had, as a sentence; empty while all is well
    last_event: str = ""  # newest noteworthy thing, as a sentence
    units: dict[str, int] = field(default_factory=dict)  # newest finished epoch by unit

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)
