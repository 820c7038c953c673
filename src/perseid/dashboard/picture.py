"""What the dashboard knows of one root: frozen facts, and things that have a life (hosts, checkpoints, incidents).

Made by ``journal_model``; shown by ``views``. Times are the journal's, in milliseconds of the wall clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from perseid.dashboard.curves import COLUMNS, OPERATOR_COLUMNS, SOURCE_COLUMNS, Rows

Phase = Literal["nothing yet", "starting", "running", "recovering", "stopped", "failed", "crashed"]
IncidentKind = Literal["start", "takeover", "fault", "failure", "scale", "standby", "checkpoint", "dead letters"]

KEPT_CHECKPOINTS = 2_000
KEPT_INCIDENTS = 1_000
KEPT_EVENTS = 300
"""Of one incident; what comes after is counted."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the graph."""

    name: str
    kind: str  # source, transform, union, operator, sink
    unit: str
    inputs: tuple[str, ...]
    what: str = ""
    key: tuple[str, ...] = ()
    preserved: str = ""
    delay_ms: int = 0
    guarantee: str = ""
    standby: str = ""


@dataclass(slots=True)
class Shard:
    """Where a shard lives, and what its host said of it last."""

    name: str
    host: int | None
    busy: float | None = None
    rows: int | None = None
    bytes: int | None = None  # of its newest snapshot

    @property
    def operator(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(slots=True)
class Host:
    """A host of one generation."""

    id: int
    generation: int
    ready_ms: int
    pid: int | None = None
    address: str = ""
    lost_ms: int | None = None
    reason: str = ""
    cpu: float | None = None
    memory: int | None = None
    cpu_curve: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=720))


@dataclass(slots=True)
class Pair:
    """A primary host and the copy of its shards."""

    primary: int
    since_ms: int  # of the phase
    phase: str = "unguarded"  # unguarded, deploying, guarded, switched
    copy: int | None = None
    same_fate: str = ""  # what takes both
    epoch: int | None = None  # that the copy has the state of
    refreshed_ms: int | None = None
    bytes: int = 0  # of the newest refresh, as the next two
    ms: float = 0.0
    full: bool = True
    refreshes: int = 0
    switches: int = 0
    reason: str = ""  # why there is no copy, or why it answers
    behind: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=300))  # epochs, at each commit

    @property
    def answering(self) -> int | None:
        return self.copy if self.phase == "switched" else self.primary


@dataclass(slots=True)
class SnapshotPart:
    """One shard's way into a checkpoint."""

    shard: str
    written_ms: int
    ms: float
    serialise_ms: float
    sync_ms: float
    bytes: int


@dataclass(slots=True)
class Checkpoint:
    """A checkpoint with its parts."""

    id: int
    generation: int
    decided_ms: int
    reason: str = ""
    why: str = ""  # the same as a sentence
    facts: dict[str, Any] = field(default_factory=dict)
    ordered: dict[tuple[int, str], int] = field(default_factory=dict)  # (host, unit) → when
    forked: dict[tuple[int, str], int] = field(default_factory=dict)
    holders: dict[str, tuple[int, str]] = field(default_factory=dict)  # shard → (host, unit)
    parts: dict[str, SnapshotPart] = field(default_factory=dict)
    inflight: int = 0
    inflight_bytes: int = 0
    awaited_ms: float = 0.0
    committed_ms: int | None = None
    bytes: int | None = None
    ms: int | None = None
    error: str = ""

    @property
    def key(self) -> str:
        return f"{self.generation}-{self.id}"


@dataclass(slots=True)
class Told:
    """A moment of an incident."""

    at_ms: int
    text: str
    tone: str


@dataclass(slots=True)
class Incident:
    """Something that people ask about later, from its first sign to the first epoch after it."""

    id: str
    kind: IncidentKind
    began_ms: int
    title: str
    ended_ms: int | None = None
    outage_ms: int | None = None  # the longest time without a committed epoch that it had a part in
    recovery_ms: int | None = None
    phases: list[tuple[str, int]] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)
    left_out: int = 0
    solved_ms: int | None = None  # recovered, or scaled; the next committed epoch ends it
    about: str = ""  # the host of a switch; several may be told at once
    switched_ms: int | None = None  # since when the copy answers

    @property
    def key(self) -> str:
        return f"{self.kind} {self.about}".rstrip()

    def tell(self, at_ms: int, text: str, tone: str) -> None:
        if len(self.events) < KEPT_EVENTS:
            self.events.append(Told(at_ms, text, tone))
        else:
            self.left_out += 1


@dataclass(slots=True)
class Totals:
    """Counts over all that the journal still has."""

    epochs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    dead_letters: int = 0
    malformed_lines: int = 0
    checkpoints: int = 0
    failed_checkpoints: int = 0
    faults: int = 0
    recoveries: int = 0
    scales: int = 0
    switches: int = 0  # to a copy
    roll_backs: int = 0
    promotions: int = 0
    refresh_bytes: int = 0
    epoch_seconds: float = 0.0
    recovery_seconds: float = 0.0
    longest_outage_ms: int = 0
    strange: int = 0  # records of another version


@dataclass(slots=True)
class Picture:
    """Everything about one root."""

    app: str = ""
    generation: int = 0
    phase: Phase = "nothing yet"
    stopped: str = ""  # why
    began_ms: int = 0  # of the journal
    started_ms: int = 0  # of the newest generation
    at_ms: int = 0  # of the newest record
    scheme: str = ""
    period_ms: int = 0
    threshold: float | None = None  # of adaptive checkpoints (s_max)
    epoch: int = 0
    admitted: int = 0
    nodes: tuple[Node, ...] = ()
    hosts: dict[int, Host] = field(default_factory=dict)
    gone_hosts: deque[Host] = field(default_factory=lambda: deque(maxlen=50))
    shards: dict[str, Shard] = field(default_factory=dict)
    pairs: dict[int, Pair] = field(default_factory=dict)  # by primary
    standby_modes: dict[str, str] = field(default_factory=dict)  # of operators
    standby_events: deque[Told] = field(default_factory=lambda: deque(maxlen=200))
    last_switch: Told | None = None  # to a copy, back, or for good
    hot_keys: dict[tuple[str, str], float] = field(default_factory=dict)
    epochs: Rows = field(default_factory=lambda: Rows(COLUMNS))
    operators: dict[str, Rows] = field(default_factory=dict)
    sources: dict[str, Rows] = field(default_factory=dict)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)  # newest last
    incidents: dict[str, Incident] = field(default_factory=dict)
    warnings: deque[Told] = field(default_factory=lambda: deque(maxlen=50))
    totals: Totals = field(default_factory=Totals)

    def source_rows(self, name: str) -> Rows:
        found = self.sources.get(name)
        if found is None:
            found = self.sources[name] = Rows(SOURCE_COLUMNS)
        return found

    def operator_rows(self, name: str) -> Rows:
        found = self.operators.get(name)
        if found is None:
            found = self.operators[name] = Rows(OPERATOR_COLUMNS)
        return found
