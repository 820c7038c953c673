"""State of pairs on its way from host to host: sent in full when a copy is made or read back, and refreshed now and then (H2).

Invariant: what comes of state that was sent for a pair counts only as long as nothing else was sent, and the pair is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from perseid.engine import commands as do
from perseid.engine.changes import Step
from perseid.engine.view import View
from perseid.standby import commands as wants
from perseid.standby.sweeping import Part, Refresh, Refreshes, Trim
from perseid.standby.switching import Pair
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName


@dataclass(slots=True)
class GuardedShards:
    """A pair, and what it is about."""

    number: int
    pair: Pair
    shards: tuple[ShardId, ...]
    units: tuple[UnitName, ...]
    waiting: wants.SendState | None = None  # to be sent when all epochs begun before are done
    mark: Mapping[UnitName, Epoch] = field(default_factory=dict)  # and these are they
    stands: dict[HostId, dict[ShardId, Epoch]] = field(default_factory=dict)  # under active standby
    to_make_up: Mapping[ShardId, Epoch] | None = (
        None  # a promoted copy must come to these first, from rows that tasks keep
    )

    def wants_copy(self, now_ms: int) -> bool:
        """Is a place for a copy looked for?"""
        return self.to_make_up is None and self.pair.wants_copy(now_ms)

    @property
    def hosts(self) -> tuple[HostId, ...]:
        """Both of them, as far as there are two; and the one that is being launched."""
        pair = self.pair
        return tuple([host for host in (pair.primary, pair.copy, pair.target) if host is not None])


@dataclass(frozen=True, slots=True)
class Sent:
    """State on its way from one host to another: for a pair, or (``part``) as a refresh."""

    to: GuardedShards
    number: int  # as the pair, or the refreshes, count
    at_ms: int
    part: Part | None = None
    suspends: bool = False  # its unit stands still until it has arrived


@dataclass(slots=True)
class SentStates:
    """All that is on its way, and when more is to be sent."""

    pairs: list[GuardedShards]
    consumers: Mapping[UnitName, frozenset[UnitName]]
    operators: Mapping[UnitName, tuple[OperatorName, ...]]
    refreshes: dict[tuple[int, str], Refreshes] = field(default_factory=dict)  # by period and timing
    sent: dict[int, Sent] = field(default_factory=dict)
    number: int = 0
    forgotten: dict[UnitName, Epoch] = field(default_factory=dict)  # kept rows, of units that had a pair

    @property
    def suspended_units(self) -> list[UnitName]:
        """They stand still for a refresh."""
        return [sent.part.unit for sent in self.sent.values() if sent.part is not None and sent.suspends]

    def of(self, one: GuardedShards) -> Refreshes:
        """The refreshes that its standby asks for."""
        standby = one.pair.standby
        key = (standby.refresh.ms, standby.timing)
        if key not in self.refreshes:
            self.refreshes[key] = Refreshes(standby.refresh.ms, self.consumers, self.operators, standby.timing)
        return self.refreshes[key]

    def send(self, one: GuardedShards, command: wants.SendState, seen: View) -> list[Step]:
        """All state of a pair."""
        self.number += 1
        self.sent[self.number] = Sent(one, command.number, seen.now_ms)
        both = one.pair.standby.mode == "active"
        shards = {s: seen.pipeline.consumed(seen.topology.unit_of(s.operator)) for s in one.shards}
        return [do.SendCopy(command.host, command.to, self.number, shards, full=True, back=command.back, answers=both)]

    def drop(self, one: GuardedShards) -> None:
        """What comes of state that was sent for a pair is of no interest any more."""
        self.sent = {number: sent for number, sent in self.sent.items() if sent.to is not one}

    def unguarded(self, one: GuardedShards, seen: View) -> list[Step]:
        """It has no copy any more."""
        return self.after(self.of(one).unguarded(one.number, seen.now_ms), seen)

    def after(self, commands: Iterable[Refresh | Trim], seen: View) -> list[Step]:
        """What follows from what refreshes want."""
        steps: list[Step] = []
        for command in commands:
            match command:
                case Refresh(part, number, since, suspends):
                    one = next(one for one in self.pairs if one.number == part.pair)
                    if one.pair.copy is None:
                        continue  # it was lost in the same step, and what is to follow from that will
                    self.number += 1
                    self.sent[self.number] = Sent(one, number, seen.now_ms, part, suspends)
                    mine = {s: seen.pipeline.consumed(part.unit) for s in one.shards if _in(part, s, seen)}
                    steps.append(do.SendCopy(one.pair.primary, one.pair.copy, self.number, mine, full=since is None))
                case Trim():
                    pass  # what is kept of a unit's input goes by the unit's own acknowledgement (``_forget``)
                case _:
                    assert_never(command)
        return [*steps, *self._forget()]

    def processed(self, unit: UnitName, epoch: Epoch, seen: View) -> list[Step]:
        """All shards of a unit are done with an epoch."""
        return self.after([c for r in self.refreshes.values() for c in r.processed(unit, epoch, seen.now_ms)], seen)

    def tick(self, seen: View) -> list[Step]:
        """Time has passed."""
        at_work = frozenset([unit for unit, state in seen.pipeline.units.items() if state.tried > state.finished])
        return self.after([c for r in self.refreshes.values() for c in r.tick(seen.now_ms, at_work)], seen)

    def put_back(self, base: Mapping[UnitName, Epoch]) -> None:
        """The whole application went back to a checkpoint."""
        for refreshes in self.refreshes.values():
            refreshes.put_back(base)
        self.forgotten = {unit: min(upto, base.get(unit, upto)) for unit, upto in self.forgotten.items()}

    def _forget(self) -> list[Step]:
        """Rows that tasks keep, up to where all copies of a unit stand."""
        upto: dict[ShardId, Epoch] = {}
        for unit, before in self.forgotten.items():
            acknowledged = min([r.acknowledged(unit) for r in self.refreshes.values()], default=Epoch(0))
            if acknowledged > before:
                self.forgotten[unit] = acknowledged
                mine = [shard for one in self.pairs if unit in one.units for shard in one.shards]
                upto |= {s: acknowledged for s in mine if s.operator in self.operators[unit]}
        return [do.ForgetRows(upto)] if upto else []

    def check(self) -> None:
        """Assert the invariants."""
        for refreshes in self.refreshes.values():
            refreshes.check()


def _in(part: Part, shard: ShardId, seen: View) -> bool:
    if part.operator is not None:
        return shard.operator == part.operator
    return seen.topology.unit_of(shard.operator) == part.unit
