"""What the ledger says: an epoch was admitted, a unit has committed one, an operator was divided; and what follows from all of it together.

Invariant: epochs are admitted 1, 2, 3, …, each source's slices follow one another without gap or overlap, and a unit
commits epochs in order, only such as were admitted. Pure: no file here. Spec: M1.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from perseid.errors import CorruptData
from perseid.vocabulary import Epoch, Offset, OperatorName, SlotRange, SourceName, UnitName


@dataclass(frozen=True)
class Admitted:
    """An epoch's slice of every source, [start, end), and its time: durable before anything of it is processed."""

    epoch: Epoch
    time_ms: int
    slices: Mapping[SourceName, tuple[Offset, Offset]] = field(hash=False)
    idle: tuple[OperatorName, ...] = ()  # inputs that do not hold the watermark back in this epoch
    last: bool = False  # the input has ended: watermarks go to the end of time
    digest: str = field(init=False, compare=False)
    """Of the content alone: same epoch, time and slices, same digest, whoever admitted it."""

    def __post_init__(self) -> None:
        slices = sorted((name, int(start), int(end)) for name, (start, end) in self.slices.items())
        more = [list(self.idle), self.last] if self.idle or self.last else []
        content = json.dumps([int(self.epoch), int(self.time_ms), slices, *more], separators=(",", ":"))
        object.__setattr__(self, "digest", xxhash.xxh3_64_hexdigest(content.encode()))

    def slice_of(self, source: SourceName) -> tuple[Offset, Offset]:
        """What it has of a source; nothing of one that was not there yet."""
        return self.slices.get(source, (Offset(0), Offset(0)))


@dataclass(frozen=True)
class Committed:
    """A unit has finished an epoch and its sinks have it; the newest event time each of its operators saw in it."""

    epoch: Epoch
    unit: UnitName
    event_times_ms: Mapping[OperatorName, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Partitioned:
    """From now on an operator's slots are divided among these shards: their numbers and slots, in the order of the slots."""

    operator: OperatorName
    declared: int  # how many the application's author wrote; with another number there, that one counts
    shards: tuple[tuple[int, SlotRange], ...]


Record = Admitted | Committed | Partitioned


NO_EPOCH = Epoch(0)


@dataclass(frozen=True)
class Trimmed:
    """What stays of all the records up to an epoch."""

    epoch: Epoch = NO_EPOCH
    time_ms: int = 0  # of that epoch
    offsets: Mapping[SourceName, Offset] = field(default_factory=dict)
    committed: Mapping[UnitName, Epoch] = field(default_factory=dict)
    event_times_ms: Mapping[OperatorName, int] = field(default_factory=dict)
    ended: bool = False


class Index:
    """All that can be asked of the ledger, kept in memory."""

    def __init__(self, base: Trimmed, records: Iterable[Record] = ()) -> None:
        self.base = base
        self.records: list[Record] = []
        self.admitted: dict[Epoch, Admitted] = {}
        self.last_admitted = base.epoch
        self.last_time_ms = base.time_ms
        self.offsets = dict(base.offsets)
        self.committed = dict(base.committed)
        self.ended = base.ended  # the last epoch of the input was admitted
        self.partitioned: dict[OperatorName, Partitioned] = {}
        self._maxima = {name: ([base.epoch], [at_ms]) for name, at_ms in base.event_times_ms.items()}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Take in a record that ``news`` let through, or that was read back."""
        self.records.append(record)
        if isinstance(record, Partitioned):
            self.partitioned[record.operator] = record
            return
        if isinstance(record, Admitted):
            self.admitted[record.epoch] = record
            self.last_admitted, self.last_time_ms = record.epoch, record.time_ms
            self.ended = self.ended or record.last
            self.offsets.update((name, end) for name, (_, end) in record.slices.items())
            return
        self.committed[record.unit] = record.epoch
        for name, at_ms in record.event_times_ms.items():
            epochs, maxima = self._maxima.setdefault(name, ([], []))
            if not maxima or at_ms > maxima[-1]:
                epochs.append(record.epoch if not epochs else max(record.epoch, epochs[-1]))
                maxima.append(at_ms)

    def news(self, records: Iterable[Record]) -> list[Record]:
        """Those records that are not known yet, checked against all before. An epoch committed again is no news."""
        last, offsets, committed, news = self.last_admitted, dict(self.offsets), dict(self.committed), list[Record]()
        for record in records:
            if isinstance(record, Admitted):
                assert record.epoch == last + 1, f"epoch {record.epoch} admitted after epoch {last}"
                for name, (start, end) in record.slices.items():
                    expected = offsets.get(name, start)
                    assert expected == start <= end, (
                        f"source {name!r}: slice [{start}, {end}) does not begin at {expected}"
                    )
                    offsets[name] = end
                last = record.epoch
            elif isinstance(record, Partitioned):
                if self.partitioned.get(record.operator) == record:
                    continue
            else:
                done = committed.get(record.unit, NO_EPOCH)
                if record.epoch <= done:
                    continue
                assert record.epoch <= last, (
                    f"unit {record.unit!r} commits epoch {record.epoch}; admitted: up to {last}"
                )
                after = max(done, self.base.epoch)
                assert record.epoch <= after + 1, f"unit {record.unit!r} commits epoch {record.epoch} after {after}"
                committed[record.unit] = record.epoch
            news.append(record)
        return news

    def event_times_ms(self, epoch: Epoch) -> dict[OperatorName, int]:
        """The newest event time each operator has seen in all epochs up to and including this one."""
        assert epoch >= self.base.epoch, f"event times up to epoch {epoch}: trimmed up to epoch {self.base.epoch}"
        found = {}
        for name, (epochs, maxima) in self._maxima.items():
            if at := bisect_right(epochs, epoch):
                found[name] = maxima[at - 1]
        return found

    def trimmed(self, epoch: Epoch) -> Index:
        """The same without the records up to ``epoch``."""
        assert epoch <= self.last_admitted, f"trim up to epoch {epoch}; admitted: up to {self.last_admitted}"
        if epoch <= self.base.epoch:
            return self
        offsets, committed, ended = dict(self.base.offsets), dict(self.base.committed), self.base.ended
        for record in self.records:
            if isinstance(record, Partitioned) or record.epoch > epoch:
                continue
            if isinstance(record, Admitted):
                offsets.update((name, end) for name, (_, end) in record.slices.items())
                ended = ended or record.last
            else:
                committed[record.unit] = record.epoch
        time_ms = self.admitted[epoch].time_ms
        base = Trimmed(epoch, time_ms, offsets, committed, self.event_times_ms(epoch), ended)
        later = [r for r in self.records if not isinstance(r, Partitioned) and r.epoch > epoch]
        return Index(base, [*self.partitioned.values(), *later])


def to_json(record: Record) -> dict[str, Any]:
    if isinstance(record, Admitted):
        slices = {name: [int(start), int(end)] for name, (start, end) in record.slices.items()}
        admitted = {
            "admitted": int(record.epoch),
            "time_ms": int(record.time_ms),
            "slices": slices,
            "digest": record.digest,
        }
        seldom = {"idle": list(record.idle), "last": record.last}
        return admitted | {name: value for name, value in seldom.items() if value}
    if isinstance(record, Partitioned):
        shards = [[index, *slots] for index, slots in record.shards]
        return {"partitioned": record.operator, "declared": record.declared, "shards": shards}
    return {"committed": int(record.epoch), "unit": record.unit, "event_times_ms": _plain(record.event_times_ms)}


def from_json(data: Mapping[str, Any]) -> Record:
    if "committed" in data:
        return Committed(Epoch(data["committed"]), UnitName(data["unit"]), data["event_times_ms"])
    if "partitioned" in data:
        shards = tuple((index, (first, last)) for index, first, last in data["shards"])
        return Partitioned(OperatorName(data["partitioned"]), data["declared"], shards)
    slices = {SourceName(name): (Offset(start), Offset(end)) for name, (start, end) in data["slices"].items()}
    idle = tuple(OperatorName(name) for name in data.get("idle", ()))
    record = Admitted(Epoch(data["admitted"]), data["time_ms"], slices, idle, data.get("last", False))
    if record.digest != data["digest"]:
        raise CorruptData(f"epoch {record.epoch} has digest {record.digest}; the ledger says {data['digest']}")
    return record


def _plain(numbers: Mapping[OperatorName, int]) -> dict[OperatorName, int]:
    return {name: int(number) for name, number in numbers.items()}  # NumPy's integers are none to JSON
