"""Notices of epochs, and of rows that could not be worked on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perseid.checkpoint.notices import Notice
from perseid.vocabulary import Attempt, Epoch, OperatorName, SourceName, UnitName


@dataclass(frozen=True, slots=True)
class EpochAdmitted(Notice):
    """The slices of an epoch are in the ledger."""

    epoch: Epoch
    slices: Mapping[SourceName, tuple[int, int]]
    rows: int | None  # where the sources know it
    time_ms: int
    ms: float  # so long it took
    last: bool = False  # there is no epoch after it
    sources: Mapping[SourceName, tuple[int | None, int | None]] = field(
        default_factory=dict
    )  # rows, and rows that wait

    def record(self) -> dict[str, Any]:
        slices = {name: list(bounds) for name, bounds in self.slices.items()}
        last = {"last": True} if self.last else {}
        return {
            "epoch": self.epoch,
            "slices": slices,
            "rows": self.rows,
            "time_ms": self.time_ms,
            "ms": self.ms,
            **last,
            **({"sources": {name: list(counts) for name, counts in self.sources.items()}} if self.sources else {}),
        }


@dataclass(frozen=True, slots=True)
class EpochCommitted(Notice):
    """All units are done with an epoch."""

    epoch: Epoch
    ms: float | None  # since its admission
    rows_in: int
    rows_out: int
    state_bytes: int
    worked_ms: int  # of operators, in all shards
    sizing_ms: float  # of estimating how large states are
    time_ms: int
    parts_ms: Mapping[str, float]  # where its time went (``metrics.epoch_parts``)
    operators: Mapping[OperatorName, Mapping[str, Any]]  # what each did in it


@dataclass(frozen=True, slots=True)
class EpochFailed(Notice):
    """An attempt of a unit at an epoch came to nothing."""

    epoch: Epoch
    unit: UnitName
    attempt: Attempt
    error: str


@dataclass(frozen=True, slots=True)
class OperatorFailed(Notice):
    """An operator raised."""

    operator: OperatorName
    shard: int
    epoch: Epoch
    error: str


@dataclass(frozen=True, slots=True)
class DeadLetters(Notice):
    """Rows that an operator raised on were put aside."""

    operator: OperatorName
    shard: int
    epoch: Epoch
    rows: int
    timers: int
    error: str


@dataclass(frozen=True, slots=True)
class MalformedLines(Notice):
    """Lines of a source that do not fit its schema were put aside."""

    source: str
    epoch: Epoch
    lines: int
    files: tuple[str, ...]
    first: str
