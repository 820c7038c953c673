"""Second copies of shards, step by step: who has one where, who of the two answers, what is sent when (H1 to H5, H7).

A pair (``standby.switching``) is a set of shards that live on one host, and their copy on another one. Pairs are made wherever shards with
standby have none, and end when their shards are gone, lost, or moved by somebody else.

While a pair has, or is getting, a copy, the routing table names the copy as the shards' standby: tasks then keep the rows they send
(``spark.first_answer``), so that whoever takes over can make up what it lacks. What both hosts have is forgotten.

Invariant: the answering host of a pair is the host of its shards in the routing table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.changes import CheckpointGivenUp, HostUnreachable, ShardsGuarded, ShardsLost, Step
from perseid.engine.sent_states import GuardedShards, SentStates
from perseid.engine.view import View
from perseid.scaling.routing import RoutingTable
from perseid.standby import commands as wants
from perseid.standby import events as about
from perseid.standby.modes import Standby
from perseid.standby.modes import none as no_standby
from perseid.standby.placement import Place, place_copies
from perseid.standby.switching import Pair
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName

PATIENCE_OF_TASKS_MS = 20  # least time a task waits for one host before it asks the other one, too
PATIENCE_OF_TASKS = (
    4  # this part of a heartbeat, if that is longer: to ask a copy that is suspended costs two small messages
)


@dataclass(slots=True)
class StandbySteps:
    """Takes every pair from one step to the next."""

    standby: dict[OperatorName, Standby]
    consumers: Mapping[UnitName, frozenset[UnitName]]
    operators: Mapping[UnitName, tuple[OperatorName, ...]]
    pairs: list[GuardedShards] = field(default_factory=list)
    places: dict[HostId, Place] = field(default_factory=dict)
    hearts: dict[HostId, int] = field(default_factory=dict)  # beats of so many ms were asked for
    states: SentStates = field(init=False)
    numbers: int = 0
    asked: list[tuple[int, OperatorName]] = field(default_factory=list)  # requests without an answer yet
    unplaced: frozenset[HostId] = frozenset()  # primaries for whose copy there is no host; told once

    def __post_init__(self) -> None:
        self.states = SentStates(self.pairs, self.consumers, self.operators)

    # -- what others may know -------------------------------------------------------------------------------------

    @property
    def used(self) -> bool:
        """Is there anything to do at all?"""
        return bool(self.standby or self.pairs or self.asked)

    @property
    def copy_hosts(self) -> frozenset[HostId]:
        """Hosts that have copies, or are to have some: they are not idle."""
        return frozenset([host for one in self.pairs for host in one.hosts])

    def patience_ms(self, routing: RoutingTable) -> dict[HostId, int]:
        """Hosts for which others stand in, with all that they hold: they may be silent for so long."""
        found: dict[HostId, int] = {}
        guarded = set[ShardId]()
        for one in self.pairs:
            for host in one.hosts:
                patience = one.pair.patience_ms(host)
                if patience is not None:
                    guarded.update(one.shards)
                    found[host] = max(patience, found.get(host, 0))
        return {host: ms for host, ms in found.items() if guarded.issuperset(routing.shards_on(host))}

    @property
    def launching(self) -> frozenset[UnitName]:
        """Units that wait for a host to be launched."""
        return frozenset([unit for one in self.pairs if one.pair.phase == "launching" for unit in one.units])

    @property
    def waiting_units(self) -> frozenset[UnitName]:
        """Units that may begin no epoch: a host of theirs is launched, or they stand still for a refresh."""
        return self.launching.union(self.states.suspended_units)

    # -- what happens ---------------------------------------------------------------------------------------------

    def host_registered(self, host: HostId, place: Place, seen: View) -> list[Step]:
        self.places[host] = place
        for one in self.pairs:
            if one.pair.phase == "launching" and one.pair.target is None:
                return self._happened(one, about.HostLaunched(host), seen)
        return []

    def handle(self, event: on.StandbyEvent, seen: View) -> list[Step]:
        match event:
            case on.HostSilent(host) | on.HostHeard(host):
                mine = [one for one in self.pairs if host in one.hosts and not self._shared(one, event)]
                return [step for one in mine for step in self._happened(one, event, seen)]
            case on.CopyTaken():
                return self._taken(event, seen)
            case on.CopyNotTaken(number, reason):
                sent = self.states.sent.pop(number, None)
                if sent is None or sent.to not in self.pairs:
                    return []
                if sent.part is not None:
                    failed = self.states.of(sent.to).failed(sent.part, sent.number, seen.now_ms)
                    return self.states.after(failed, seen)
                return self._happened(sent.to, about.CopyNotTaken(sent.number, reason), seen)
            case on.CopyMissing(host, shards, reason):
                lost = frozenset([s for s in shards if seen.routing.routes.get(s) and seen.routing.host_of(s) == host])
                return [ShardsLost(lost, reason)] if lost else []
            case on.CopiesStand(host, epochs):
                return self._stands(host, epochs, seen)
            case on.AnswerDiffered(host, shard):
                mine = [one for one in self.pairs if shard in one.shards]
                return [step for one in mine for step in self._happened(one, about.AnswerDiffered(host), seen)]
            case on.StandbyRequested(number, operator, standby):
                self.standby[operator] = standby
                if not standby.guards:
                    del self.standby[operator]
                self.asked.append((number, operator))
                return [notices.StandbyChanged(operator, standby.mode)]
            case _:
                assert_never(event)

    def _shared(self, one: GuardedShards, event: on.HostSilent | on.HostHeard) -> bool:
        """Is the host as slow as its machine, on which the other one is, too? Nobody is better off elsewhere then."""
        starved = isinstance(event, on.HostSilent) and event.why == "starved"
        return starved and len({self.places[host].machine for host in one.hosts if host in self.places}) < 2

    def host_died(self, host: HostId, seen: View) -> list[Step]:
        """Its shards move to their copies, where they have one; copies that it had are made elsewhere."""
        self.places.pop(host, None)
        self.hearts.pop(host, None)
        steps: list[Step] = []
        for one in [one for one in self.pairs if host in one.hosts]:
            pair = one.pair
            alone = pair.phase in ("unguarded", "deploying") and host == pair.primary
            if alone:
                steps += self._end(one, f"host {host} died", seen)
            else:
                steps += self._happened(one, about.HostDied(host), seen)
        return steps

    def shards_lost(self, shards: Iterable[ShardId], seen: View) -> list[Step]:
        """They come back by the usual recovery, made anew: what copies there are of them is worth nothing."""
        gone, steps = set(shards), list[Step]()
        for one in [one for one in self.pairs if not gone.isdisjoint(one.shards)]:
            steps += self._end(one, "its shards are restored", seen)
        return steps

    def put_back(self, base: Mapping[UnitName, Epoch], seen: View) -> list[Step]:
        """The whole application goes back to a checkpoint."""
        steps = self.shards_lost([shard for one in self.pairs for shard in one.shards], seen)
        self.states.put_back(base)
        return steps

    def unit_finished(self, unit: UnitName, epoch: Epoch, seen: View) -> list[Step]:
        """All its shards are done with an epoch, wherever they were asked."""
        return self.states.processed(unit, epoch, seen)

    # -- the next step --------------------------------------------------------------------------------------------

    def advance(self, seen: View) -> list[Step]:
        """What follows from what is true now."""
        if seen.starting or not self.used:
            return []
        steps: list[Step] = []
        for one in [one for one in self.pairs if not self._holds(one, seen)]:
            steps += self._end(one, "its shards are elsewhere, or have another standby", seen)
        if seen.lost is None:
            self._pair_up(seen)
            steps += self._place(seen)
        for one in list(self.pairs) if seen.lost is not None else ():
            steps += self._commanded(one, one.pair.not_launched(seen.now_ms), seen)
        for one in list(self.pairs):
            waits = one.waiting
            if waits is not None and all(seen.pipeline.units[u].finished >= e for u, e in one.mark.items()):
                one.waiting = None
                steps += self.states.send(one, waits, seen)
            steps += self._commanded(one, one.pair.tick(seen.now_ms), seen)
        steps += self.states.tick(seen)
        steps += self._start_hearts(seen)
        return [*steps, *self._answer_requests(seen)]

    def _holds(self, one: GuardedShards, seen: View) -> bool:
        """Are the pair's shards where it thinks they are, and is its standby the one that is wanted?"""
        pair, routes = one.pair, seen.routing.routes
        settled = pair.phase in ("unguarded", "deploying", "guarded")
        if settled and any(self.standby.get(shard.operator) != pair.standby for shard in one.shards):
            return False
        home = pair.copy if pair.phase == "launching" else pair.answering
        return all(shard in routes and routes[shard].host == home for shard in one.shards)

    def _pair_up(self, seen: View) -> None:
        """Shards with standby that are in no pair yet, by host and standby."""
        paired = {shard for one in self.pairs for shard in one.shards}
        free: dict[tuple[HostId, Standby], list[ShardId]] = {}
        for operator, standby in sorted(self.standby.items()):
            for route in seen.routing.of(operator):
                if route.shard not in paired and route.host is not None:
                    free.setdefault((route.host, standby), []).append(route.shard)
        for (host, standby), shards in free.items():
            self.numbers += 1
            units = tuple(sorted({seen.topology.unit_of(shard.operator) for shard in shards}))
            self.pairs.append(GuardedShards(self.numbers, Pair(standby, host), tuple(shards), units))

    def _place(self, seen: View) -> list[Step]:
        """Look for hosts for the copies that are wanted."""
        steps: list[Step] = []
        for standby in {one.pair.standby: None for one in self.pairs if one.wants_copy(seen.now_ms)}:
            mine = [one for one in self.pairs if one.pair.standby == standby and one.pair.primary in seen.hosts]
            primaries = {one.pair.primary for one in mine}
            current = {one.pair.primary: one.pair.copy for one in mine if one.pair.copy in seen.hosts}
            hosts = {host: place for host, place in self.places.items() if host in seen.hosts}
            busy = {host for host in hosts if seen.routing.shards_on(host)}
            placement = place_copies(primaries, hosts, share=standby.share, busy=busy, current=current)
            steps += self._unplaced(placement.unplaced, standby)
            for one in [one for one in mine if one.wants_copy(seen.now_ms)]:
                copy = placement.copies.get(one.pair.primary)
                if copy is not None:
                    fate = placement.same_fate.get(one.pair.primary)
                    steps.append(notices.CopyDeploying(one.pair.primary, copy, fate))
                    steps += self._happened(one, about.PlaceFound(copy), seen)
        return steps

    def _unplaced(self, unplaced: frozenset[HostId], standby: Standby) -> list[Step]:
        """Told once, until there is a place."""
        new = sorted(unplaced - self.unplaced)
        self.unplaced = unplaced
        reason = f"{standby.mode} standby: no host is free for a copy (one carries up to {standby.share} of others)"
        return [notices.CopyWanted(host, reason) for host in new]

    def _start_hearts(self, seen: View) -> list[Step]:
        """Whoever is one of a pair says often how it is."""
        steps: list[Step] = []
        for one in self.pairs:
            beat_ms = one.pair.standby.heartbeat.ms
            for host in one.hosts if one.pair.copy is not None else ():
                if host in seen.hosts and self.hearts.get(host, beat_ms + 1) > beat_ms:
                    self.hearts[host] = beat_ms
                    steps.append(do.StartHeart(host, beat_ms))
        return steps

    def _answer_requests(self, seen: View) -> list[Step]:
        """Whoever asked for another standby hears when it holds, or why it cannot."""
        steps: list[Step] = []
        for number, operator in list(self.asked):
            mine = [one for one in self.pairs if any(shard.operator == operator for shard in one.shards)]
            standby = self.standby.get(operator, no_standby())
            if any(one.pair.standby != standby for one in mine):
                continue
            degraded = [one.pair.primary for one in mine if one.pair.primary in self.unplaced]
            if degraded:
                error = (
                    f"{standby.mode} standby of {operator!r}: no host is free for a copy of host {degraded[0]}'s shards"
                )
                steps.append(do.Answered(number, error=f"{error}; it is made as soon as there is one"))
            elif not standby.guards or (mine and all(one.pair.guarded for one in mine)):
                steps.append(do.Answered(number))
            else:
                continue
            self.asked.remove((number, operator))
        return steps

    # -- what a pair wants ----------------------------------------------------------------------------------------

    def _happened(self, one: GuardedShards, event: about.Event, seen: View) -> list[Step]:
        return self._commanded(one, one.pair.handle(event, seen.now_ms), seen)

    def _commanded(self, one: GuardedShards, commands: tuple[wants.Command, ...], seen: View) -> list[Step]:
        return [step for command in commands for step in self._carry_out(one, command, seen)]

    def _carry_out(self, one: GuardedShards, command: wants.Command, seen: View) -> list[Step]:
        pair, shards, refreshes = one.pair, one.shards, self.states.of(one)
        upto = {shard: seen.pipeline.units[seen.topology.unit_of(shard.operator)].finished for shard in shards}
        match command:
            case wants.SendState(host, to):
                if pair.phase != "deploying":
                    return self.states.send(one, command, seen)
                one.waiting = command
                one.mark = {unit: seen.pipeline.units[unit].tried for unit in one.units}
                if pair.standby.guards:
                    finished = {unit: seen.pipeline.units[unit].finished for unit in one.units}
                    refreshes.deploying(one.number, finished, seen.now_ms)
                for unit in one.units:
                    self.states.forgotten.setdefault(unit, Epoch(0))
                return [ShardsGuarded(shards, host, (to,), _patience_ms(pair.standby))]
            case wants.Guard():
                ready = refreshes.guarded if pair.standby.refreshes else refreshes.stood
                return self.states.after(ready(one.number, pair.stands, seen.now_ms), seen)
            case wants.Switch(primary, copy):
                self.states.drop(one)
                refreshes.paused(one.number)
                silent_ms = seen.now_ms - pair.silent.get(primary, seen.now_ms)
                reason = f"{pair.why}, {pair.standby.misses} missed heartbeat"
                return [
                    *([CheckpointGivenUp(f"host {primary} is silent")] if seen.checkpoints.busy else []),
                    ShardsGuarded(shards, copy, (primary,), _patience_ms(pair.standby)),
                    do.AnswerShards(copy, upto),
                    do.SuspendShards(primary, shards),
                    notices.Switched(primary, copy, pair.stands, silent_ms, reason),
                ]
            case wants.Swap(primary, copy, reason):
                return [
                    *([CheckpointGivenUp(f"host {primary}: {reason}")] if seen.checkpoints.busy else []),
                    ShardsGuarded(shards, copy, (primary,), _patience_ms(pair.standby)),
                    do.AnswerShards(copy, upto, both=True),
                    do.SuspendShards(primary, shards),
                    notices.Swapped(primary, copy, reason),
                ]
            case wants.Return(primary, copy):
                ms = seen.now_ms - pair.heard_ms
                return [
                    ShardsGuarded(shards, primary, (copy,), _patience_ms(pair.standby)),
                    do.AnswerShards(primary, upto),
                    do.SuspendShards(copy, shards),
                    *self.states.after(refreshes.guarded(one.number, pair.stands, seen.now_ms), seen),
                    notices.RolledBack(primary, copy, pair.stands, ms),
                ]
            case wants.GiveUp(host, reason):
                return [HostUnreachable(host, reason)]
            case wants.Promote(old, promoted, reason):
                self.states.drop(one)
                refreshes.paused(one.number)
                one.to_make_up = upto
                one.stands = {}
                return [
                    *([CheckpointGivenUp(f"host {old} is gone")] if seen.checkpoints.busy else []),
                    ShardsGuarded(shards, promoted),
                    do.AnswerShards(promoted, upto),
                    notices.GivenUp(old, promoted, reason),
                ]
            case wants.Launch():
                assert pair.copy is not None
                self.states.drop(one)
                refreshes.paused(one.number)
                given_up: list[Step] = [CheckpointGivenUp("a host is launched")] if seen.checkpoints.busy else []
                return [*given_up, ShardsGuarded(shards, pair.copy)]
            case wants.DropCopy(host, reason):
                one.waiting = None
                self.states.drop(one)
                steps = [] if one.to_make_up is not None else self.states.unguarded(one, seen)
                steps.append(ShardsGuarded(shards, pair.primary))
                if host in seen.hosts:
                    steps.append(do.DropShards(host, shards))
                return [*steps, notices.CopyLost(pair.primary, host, reason)]
            case wants.Recover(reason):
                return [*self._end(one, reason, seen), ShardsLost(frozenset(shards), reason)]
            case _:
                assert_never(command)

    def _end(self, one: GuardedShards, reason: str, seen: View) -> list[Step]:
        """There is no such pair any more: nobody but the shards' host has anything of them."""
        self.pairs.remove(one)
        self.states.drop(one)
        steps = self.states.unguarded(one, seen)
        homes = {s: seen.routing.host_of(s) for s in one.shards if s in seen.routing.routes}
        for home in sorted({host for host in homes.values() if host is not None}):
            steps.append(ShardsGuarded(tuple([s for s in one.shards if homes.get(s) == home]), home))
        for host in one.hosts:
            gone = tuple([s for s in one.shards if homes.get(s) != host])
            if host in seen.hosts and gone:
                steps.append(do.DropShards(host, gone))
        if one.pair.copy is not None:
            steps.append(notices.CopyLost(one.pair.primary, one.pair.copy, reason))
        return steps

    # -- state on its way -----------------------------------------------------------------------------------------

    def _taken(self, event: on.CopyTaken, seen: View) -> list[Step]:
        sent = self.states.sent.pop(event.number, None)
        if sent is None or sent.to not in self.pairs or not event.epochs:
            return []
        one, epoch = sent.to, min(event.epochs.values())
        pair, ms = one.pair, seen.now_ms - sent.at_ms
        if sent.part is not None:
            if event.host != pair.copy:
                return []  # that copy is no more
            pair.refreshed(epoch)
            told = notices.CopyRefreshed(pair.primary, pair.copy, epoch, event.bytes, ms, event.full)
            return [
                told,
                *self.states.after(self.states.of(one).refreshed(sent.part, sent.number, epoch, seen.now_ms), seen),
            ]
        deploying = pair.phase == "deploying"
        steps = self._happened(one, about.CopyTaken(sent.number, epoch), seen)
        if deploying and pair.copy is not None:
            steps.append(notices.CopyDeployed(pair.primary, pair.copy, epoch, event.bytes, ms))
        return steps

    def _stands(self, host: HostId, epochs: Mapping[ShardId, Epoch], seen: View) -> list[Step]:
        """Where both copies stand, under active standby: what both have applied is forgotten. Or where a promoted one does."""
        steps: list[Step] = []
        for one in self.pairs:
            if one.to_make_up is not None and host == one.pair.primary:
                one.to_make_up = {s: e for s, e in one.to_make_up.items() if epochs.get(s, Epoch(0)) < e} or None
                steps += self.states.unguarded(one, seen) if one.to_make_up is None else []
            if one.pair.standby.mode == "active" and host in one.hosts and one.pair.guarded:
                stands = one.stands.setdefault(host, {})
                stands.update({shard: epoch for shard, epoch in epochs.items() if shard in one.shards})
                both = [one.stands.get(h, {}).get(s, one.pair.stands) for h in one.hosts for s in one.shards]
                one.pair.refreshed(min(both))
                refreshes = self.states.of(one)
                steps += self.states.after(refreshes.stood(one.number, one.pair.stands, seen.now_ms), seen)
        return steps

    def check(self) -> None:
        """Assert the invariants."""
        shards = [shard for one in self.pairs for shard in one.shards]
        assert len(shards) == len(set(shards)), f"shards in two pairs: {shards}"
        for one in self.pairs:
            one.pair.check()
        self.states.check()


def _patience_ms(standby: Standby) -> int:
    """How long a task waits for the host that should answer, before it asks the other one as well."""
    return 0 if standby.mode == "active" else max(PATIENCE_OF_TASKS_MS, standby.heartbeat.ms // PATIENCE_OF_TASKS)
