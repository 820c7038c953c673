"""Where the time of an epoch went: waiting, Spark, hosts, sink; and what each operator did in it.

Pure: told what happened, with the time on a steady clock. Parts of units that run one after the other add up to the epoch; units that run
beside each other on different epochs are each counted where they worked.

Invariant: no part is negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from perseid.vocabulary import Epoch, OperatorName, ShardId, UnitName


class ShardReport(Protocol):
    """What a shard tells of an epoch, as far as it counts here."""

    @property
    def rows_in(self) -> int: ...
    @property
    def rows_out(self) -> int: ...
    @property
    def late_rows(self) -> int: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def worked_ms(self) -> float: ...
    @property
    def heard_s(self) -> float: ...
    @property
    def event_times_ms(self) -> Mapping[str, int]: ...


@dataclass(slots=True)
class OperatorEpoch:
    """One operator in one epoch, all its shards together."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    state_bytes: int = 0
    busy_ms: float = 0.0  # of its slowest shard
    event_time_ms: int | None = None  # the newest, of the input that is furthest behind

    def as_json(self) -> dict[str, Any]:
        """What the journal keeps; what is nothing is left out."""
        shown: dict[str, Any] = {
            "in": self.rows_in,
            "out": self.rows_out,
            "state": self.state_bytes,
            "busy_ms": round(self.busy_ms, 2),
        }
        if self.late_rows:
            shown["late"] = self.late_rows
        if self.event_time_ms is not None:
            shown["event_time_ms"] = self.event_time_ms
        return shown


@dataclass(slots=True)
class EpochParts:
    """One epoch, all its units together, in milliseconds."""

    spark_ms: float = 0.0
    hosts_ms: float = 0.0
    sink_ms: float = 0.0  # from the last shard's report to the end of the unit's job: output, its files, their commit
    operators: dict[OperatorName, OperatorEpoch] = field(default_factory=dict)

    def as_json(self, ms: float | None) -> dict[str, Any]:
        """What the journal keeps. The rest of the epoch's time is the wait for the epoch before."""
        known = self.spark_ms + self.hosts_ms + self.sink_ms
        parts = {"spark": self.spark_ms, "hosts": self.hosts_ms, "sink": self.sink_ms}
        if ms is not None:
            parts = {"waiting": max(0.0, ms - known), **parts}
        return {
            "parts_ms": {name: round(part, 1) for name, part in parts.items()},
            "operators": {name: operator.as_json() for name, operator in self.operators.items()},
        }


class EpochClock:
    """Adds up the parts of every epoch on its way. Many threads tell it: its owner has a lock."""

    def __init__(self) -> None:
        self._begun: dict[tuple[UnitName, Epoch], float] = {}
        self._parts: dict[Epoch, EpochParts] = {}
        self._worked: dict[ShardId, float] = {}

    def began(self, unit: UnitName, epoch: Epoch, now_s: float) -> None:
        """A unit's job was handed over. A second attempt counts from the first."""
        self._begun.setdefault((unit, epoch), now_s)

    def finished(self, unit: UnitName, epoch: Epoch, reports: Mapping[ShardId, ShardReport], now_s: float) -> None:
        parts = self._parts.setdefault(epoch, EpochParts())
        busy: dict[OperatorName, float] = {}
        for shard, report in reports.items():
            before = self._worked.get(shard, 0.0)
            worked = report.worked_ms - before if report.worked_ms >= before else report.worked_ms  # it was restored
            self._worked[shard] = report.worked_ms
            busy[shard.operator] = max(busy.get(shard.operator, 0.0), worked)
            operator = parts.operators.setdefault(shard.operator, OperatorEpoch())
            operator.rows_in += report.rows_in
            operator.rows_out += report.rows_out
            operator.late_rows += report.late_rows
            operator.state_bytes += report.state_bytes
        for name, ms in busy.items():
            parts.operators[name].busy_ms = ms
            parts.operators[name].event_time_ms = _event_time_ms(name, reports)
        begun = self._begun.pop((unit, epoch), now_s)
        heard = max((report.heard_s for report in reports.values()), default=now_s)
        total, sink = (now_s - begun) * 1000, max(0.0, now_s - max(heard, begun)) * 1000
        hosts = min(sum(busy.values()), max(0.0, total - sink))
        parts.sink_ms += sink
        parts.hosts_ms += hosts
        parts.spark_ms += max(0.0, total - sink - hosts)

    def taken(self, epoch: Epoch) -> EpochParts:
        """The whole epoch; it is forgotten here."""
        return self._parts.pop(epoch, EpochParts())

    def restart(self) -> None:
        """The application goes back: what was on its way begins again."""
        self._begun.clear()
        self._parts.clear()


def _event_time_ms(operator: OperatorName, reports: Mapping[ShardId, ShardReport]) -> int | None:
    newest: dict[str, int] = {}
    for shard, report in reports.items():
        if shard.operator == operator:
            for name, at_ms in report.event_times_ms.items():
                newest[name] = max(at_ms, newest.get(name, at_ms))
    return min(newest.values(), default=None)
