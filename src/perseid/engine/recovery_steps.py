"""The way back, step by step: what the controller commands while something is lost (M6, S4).

Units that hold lost shards come to rest → plan → hosts restore shards under a new routing version → missed epochs are replayed
into them → done. ``Recovering`` remembers how far it has come, ``recovery.plan`` decides what goes back to where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import assert_never

from perseid.checkpoint.lifecycle import CompletedCheckpoint, bytes_of
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.changes import (
    CheckpointCorrupt,
    CheckpointGivenUp,
    EverythingBack,
    Failed,
    HostWorks,
    PoolSettled,
    ReplayBegan,
    Routed,
    ShardsNumbered,
    Step,
    UnitCancelled,
    UnitsPutBack,
)
from perseid.engine.recovering import RETRY_PAUSE_LIMIT_MS, RETRY_PAUSE_MS, Recovering
from perseid.engine.view import Lost, View
from perseid.recovery.plan import ApplicationRecovery, Observation, RecoveryPlan, ShardRecovery, decide
from perseid.scaling.routing import RoutingTable, new_shards, partition_routing_state, place
from perseid.state.slots import divided
from perseid.vocabulary import Attempt, CheckpointId, Epoch, HostId, OperatorName, ShardId, SlotRange, UnitName, Version

BURST_PATIENCE_MS = 1_500
GROWTH_PATIENCE_MS = 5_000
REST_LIMIT_MS = 120_000  # for a job that was taken back
QUICK_MS = 3_000  # a recovery that takes no longer is nothing to speak of


@dataclass(slots=True)
class RecoverySteps:
    """Takes a recovery from one step to the next."""

    current: Recovering | None = None
    restored: CheckpointId | None = None  # the last recovery went back to it, and reads its in-flight epochs

    @property
    def lost(self) -> Lost | None:
        """What is being brought back."""
        current = self.current
        return None if current is None else Lost(frozenset(current.lost), current.reason)

    @property
    def planned(self) -> bool:
        """Is it on its way back from a checkpoint?"""
        return self.current is not None and self.current.plan is not None

    # -- what happens ---------------------------------------------------------------------------------------------

    def shards_lost(
        self, shards: Collection[ShardId], reason: str, now_ms: int, *, everything: bool = False, detect_ms: int = 0
    ) -> None:
        """These shards are gone: a recovery begins, or begins anew with all that is not yet back."""
        if self.current is None:
            self.current = Recovering(set(shards), everything, reason, now_ms - detect_ms, step_ms=now_ms)
            self.current.phases_ms["detect"] = detect_ms
        else:
            self.current.restart(set(shards), reason, now_ms)
            self.current.everything |= everything

    def shards_restored(self, event: on.ShardsRestored, now_ms: int) -> None:
        if self.current is not None and self.current.version == event.version:
            self.current.restored(event.host, dict(event.phases_ms), dict(event.reached), now_ms)

    def restore_failed(self, event: on.RestoreFailed, seen: View) -> list[Step]:
        recovering = self.current
        if recovering is None or recovering.plan is None or recovering.version != event.version:
            return []
        steps: list[Step] = []
        if event.corrupt and recovering.plan.checkpoint is not None:
            steps.append(CheckpointCorrupt(recovering.plan.checkpoint))
        elif not (event.storage and self._wait_for_storage(recovering, seen)):
            steps.append(Failed(event.message))
        recovering.restart(set(), event.message, seen.now_ms)
        return steps

    def replay_finished(self, unit: UnitName) -> None:
        if self.current is not None:
            self.current.replaying.discard(unit)

    def replay_failed(self, unit: UnitName, message: str, now_ms: int, *, cancelled: bool) -> None:
        """Plan again: shards of the unit are half fed."""
        if self.current is not None and unit in self.current.replaying:
            self.current.restart(set(), message, now_ms)
            self.current.failed_replays += not cancelled

    def inflight_corrupt(self) -> None:
        """The checkpoint that was restored has a damaged epoch: it is not gone back to any more."""
        self.restored = None

    def partition_written(self, event: on.PartitionWritten, seen: View) -> list[Step]:
        """The ledger knows of the division; or could not be written, which is tried until it can."""
        recovering = self.current
        if recovering is None or recovering.writing.get(event.operator) != event.version:
            return []
        if event.error is None:
            del recovering.writing[event.operator]
        else:
            recovering.unwritten.add(event.operator)
        if recovering.refused and not self._wait_for_storage(recovering, seen):  # one try, however many operators
            return [Failed(event.error or "the ledger is out of reach")]
        return []

    # -- the next step --------------------------------------------------------------------------------------------

    def advance(self, seen: View) -> list[Step]:
        """The next step, if it can be taken."""
        recovering = self.current
        assert recovering is not None
        if recovering.plan is None:
            return self._plan(recovering, seen)
        steps: list[Step] = []
        if recovering.refused and seen.now_ms >= recovering.not_before_ms:
            steps += [_written_down(o, recovering, seen.routing, seen) for o in sorted(recovering.unwritten)]
            recovering.unwritten.clear()
        if not recovering.restoring:
            catching_up = recovering.to_replay | recovering.replaying
            # A unit below may have to ask the one above for an epoch once more: that one comes first.
            ready = {u for u in recovering.to_replay if not catching_up & seen.topology.above(u)}
            if ready and isinstance(recovering.plan, ShardRecovery):
                steps += self._replay(recovering, recovering.plan, ready, seen)
        if recovering.done:
            recovering.step_done("catch_up", seen.now_ms)
            self.current = None
            duration = seen.now_ms - recovering.since_ms
            phases, start = dict(recovering.phases_ms), recovering.reason == "start"
            steps.append(notices.RecoveryFinished(recovering.plan, duration, phases, start))
            steps.append(EverythingBack(recovering.divided))
        return steps

    @property
    def at_once(self) -> bool:
        """Was a plan made that leaves nothing to hosts, so that the next step follows now?"""
        return self.planned and self.current is not None and not self.current.restoring

    def _plan(self, recovering: Recovering, seen: View) -> list[Step]:
        units = seen.pipeline.units
        affected = set(units) if recovering.everything else seen.topology.units_of(recovering.lost)
        busy = [u for u in sorted(affected) if not units[u].idle]
        steps: list[Step] = [UnitCancelled(unit) for unit in busy if not units[unit].cancelled]
        stuck = (u for u in busy if units[u].cancelled and seen.now_ms - units[u].cancelled_ms > REST_LIMIT_MS)
        steps += [_never_at_rest(unit) for unit in stuck]
        if busy or not _enough_hosts(recovering, seen):
            return steps
        pausing = [recovering.not_before_ms, *(units[u].not_before_ms for u in affected)]
        if not seen.starting:  # hosts that die together are noticed one after the other: one burst, one recovery
            pausing.append(recovering.step_ms + seen.settings.heartbeat_ms // 2)
        if seen.now_ms < max(pausing):
            return steps
        routing = seen.routing
        observed = Observation(
            finished={u: s.finished for u, s in units.items()},
            lost=frozenset(recovering.lost),
            slots={shard: route.slots for shard, route in routing.routes.items()},
            checkpoints=tuple(seen.checkpoints.completed),
            newest=seen.checkpoints.trimmed_by,
            everything=recovering.everything,
            oldest_epoch=seen.oldest_epoch,
        )
        plan = decide(seen.topology, observed)
        if isinstance(plan, ShardRecovery) and _may_divide(recovering, plan, seen):
            routing, divisions = self._divide(recovering, seen)
            steps += divisions
            slots = {shard: route.slots for shard, route in routing.routes.items()}
            plan = decide(seen.topology, replace(observed, lost=frozenset(recovering.lost), slots=slots))
        if isinstance(plan, ApplicationRecovery) and not recovering.everything:
            recovering.everything = True  # the units not affected so far must come to rest too
            recovering.lost |= set(routing.routes)
            return [
                *steps,
                CheckpointGivenUp(recovering.reason),
                *self._plan(recovering, replace(seen, routing=routing)),
            ]
        recovering.plan = plan
        recovering.lost |= set(plan.shards)
        recovering.step_done("reload", seen.now_ms)
        steps.append(notices.RecoveryStarted(recovering.reason, plan))
        return [*steps, *self._restore(recovering, plan, replace(seen, routing=routing))]

    def _divide(self, recovering: Recovering, seen: View) -> tuple[RoutingTable, list[Step]]:
        """Every lost shard becomes several, each of which has less to read and less to replay: a scale out of what is lost (S4)."""
        recovering.divided = True
        routing = seen.routing
        steps: list[Step] = []
        for operator in sorted({shard.operator for shard in recovering.lost}):
            routes = routing.of(operator)
            ranges = [part for r in routes if r.shard in recovering.lost for part in _pieces(r.slots, seen)]
            fresh = new_shards(routing, operator, ranges, seen.numbers.get(operator, 0))
            gone = {s for s in recovering.lost if s.operator == operator}
            recovering.before += tuple(r for r in routes if r.shard in gone)
            routing = partition_routing_state(routing, gone, fresh)
            recovering.lost = (recovering.lost - gone) | {ShardId(operator, index) for index, _ in fresh}
            recovering.writing[operator] = routing.version
            steps += [ShardsNumbered(operator, fresh[-1][0]), _written_down(operator, recovering, routing, seen)]
        return routing, [*steps, Routed(routing), PoolSettled()]

    def _wait_for_storage(self, recovering: Recovering, seen: View) -> bool:
        """Out of reach is not lost: there is another try after a pause, but not for ever."""
        if recovering.failed_restores >= seen.settings.storage_retries:
            return False
        recovering.failed_restores += 1
        pause_ms = min(RETRY_PAUSE_MS * 2 ** (recovering.failed_restores - 1), RETRY_PAUSE_LIMIT_MS)
        recovering.not_before_ms = seen.now_ms + pause_ms
        return True

    def _restore(self, recovering: Recovering, plan: RecoveryPlan, seen: View) -> list[Step]:
        chosen = self.chosen(plan, seen.checkpoints.completed)
        self.restored = plan.checkpoint
        inflight = dict(chosen.inflight) if chosen else {}
        steps: list[Step] = []
        match plan:
            case ShardRecovery():
                replay = plan.replay
                steps.append(do.OfferInflight(inflight))
            case ApplicationRecovery():
                replay = {}
                steps += [UnitsPutBack(plan.base), do.ResetStreams(inflight, dict(plan.base))]
            case _:
                assert_never(plan)
        placed = _placed(plan, seen)
        routing = seen.routing.moved(dict(placed))
        steps.append(Routed(routing))
        recovering.version = routing.version
        shards_of: dict[HostId, list[ShardId]] = {}
        for shard in sorted(placed):
            shards_of.setdefault(placed[shard], []).append(shard)
        recovering.restoring = set(shards_of)
        recovering.to_replay = set(replay)
        upto = {unit: last for unit, (_, last) in replay.items()}
        for host, mine in sorted(shards_of.items()):
            units = {s: seen.topology.unit_of(s.operator) for s in mine}
            retain = min(_consumed(plan, unit, seen) for unit in units.values())
            shards = tuple((routing.routes[s], plan.shards[s], plan.base[units[s]]) for s in mine)
            before = tuple(r for r in recovering.before if r.shard.operator in {s.operator for s in mine})
            steps.append(HostWorks(host, bytes_of(part for s in mine for part in plan.shards[s])))
            steps.append(do.RestoreShards(host, routing.version, shards, Epoch(retain + 1), upto, before))
        return steps

    def _replay(self, recovering: Recovering, plan: ShardRecovery, units: set[UnitName], seen: View) -> list[Step]:
        """Feed restored shards what they missed, unless kept input has brought them there already."""
        steps: list[Step] = []
        attempts = seen.pipeline.attempts
        for unit in sorted(units):
            last = plan.replay[unit][1]
            mine = [s for s in plan.shards if seen.topology.unit_of(s.operator) == unit]
            stands, behind = recovering.behind(mine, plan.base[unit], last)
            recovering.to_replay.discard(unit)
            if not behind:
                continue
            recovering.replaying.add(unit)
            attempts += 1
            attempt, first, again = Attempt(attempts), Epoch(stands + 1), recovering.failed_replays > 0
            steps.append(ReplayBegan(unit, last, attempt))
            steps.append(seen.replay(unit, attempt, behind, first, last, seen.routing, again=again))
        return steps

    # -- what others ask ------------------------------------------------------------------------------------------

    @staticmethod
    def chosen(plan: RecoveryPlan, completed: Collection[CompletedCheckpoint]) -> CompletedCheckpoint | None:
        """The checkpoint that a plan goes back to."""
        return next((c for c in completed if c.id == plan.checkpoint), None)

    def trouble(self, seen: View) -> list[str]:
        """What a recovery waits for that takes its time."""
        recovering = self.current
        if recovering is None or seen.starting or seen.now_ms - recovering.since_ms < QUICK_MS:
            return []
        took_ms = seen.now_ms - recovering.since_ms
        cancelled = [unit for unit, state in seen.pipeline.units.items() if state.cancelled]
        if recovering.failed_restores:
            waits = f"storage is out of reach, try {recovering.failed_restores + 1}"
        elif recovering.plan is not None:
            waits = "hosts restore shards" if recovering.restoring else "missed epochs are replayed"
        elif cancelled:
            waits = f"Spark has not yet ended the cancelled job of unit {cancelled[0]!r}"
        else:
            waits = f"{len(seen.hosts)} of {seen.pool.hosts} hosts are there"
        return [f"recovering for {took_ms / 1000:.0f} s, {waits} ({recovering.reason})"]

    def check(self) -> None:
        if self.current is not None:
            self.current.check()


def _never_at_rest(unit: UnitName) -> Failed:
    return Failed(
        f"unit {unit!r}: Spark has not ended its job {REST_LIMIT_MS // 1000} s after it was cancelled;"
        " start the application again, in a new session if Spark does not answer"
    )


def _may_divide(recovering: Recovering, plan: ShardRecovery, seen: View) -> bool:
    """Parallel recovery: is there something to replay, and somebody to share it?"""
    operators = {shard.operator for shard in recovering.lost}
    ready = operators <= seen.settings.scalable and not recovering.divided
    ways = seen.settings.parallel_recovery
    after = Counter(shard.operator for shard in (*seen.routing.routes, *(ways - 1) * list(recovering.lost)))
    bounded = all(after[o] <= ways * seen.topology.operators[o] for o in operators)  # loss after loss must not add up
    return ready and bounded and min(ways, len(seen.hosts)) > 1 and bool(plan.replay)


def _pieces(slots: SlotRange, seen: View) -> list[SlotRange]:
    return divided(slots, min(seen.settings.parallel_recovery, len(seen.hosts), slots[1] - slots[0]))


def _written_down(
    operator: OperatorName, recovering: Recovering, routing: RoutingTable, seen: View
) -> do.WritePartition:
    version: Version = recovering.writing[operator]
    return do.WritePartition(operator, seen.topology.operators[operator], routing.shards(operator), version)


def _enough_hosts(recovering: Recovering, seen: View) -> bool:
    """One host will do to bring back a part; after a burst it pays to wait a moment for the others."""
    if len(seen.hosts) >= seen.pool.hosts:
        return True
    if seen.starting:  # more than it was promised is waited for, but not for long
        patient = seen.now_ms - recovering.step_ms < GROWTH_PATIENCE_MS
        return len(seen.hosts) >= seen.settings.hosts and not patient
    if not seen.hosts:
        return False
    # From the first loss on: hosts that are lost one after the other must not put it off again and again.
    return len(recovering.lost) < len(seen.routing.routes) or seen.now_ms - recovering.since_ms >= BURST_PATIENCE_MS


def _placed(plan: RecoveryPlan, seen: View) -> dict[ShardId, HostId]:
    """A new home for every shard that has none."""
    staying = {s: h for s in plan.shards if (h := seen.routing.host_of(s)) in seen.hosts and h is not None}
    on_host = seen.routing.shards_on
    load = {h: len([s for s in on_host(h) if s not in plan.shards or s in staying]) for h in seen.hosts}
    working = {h: n for h, n in load.items() if n} if not seen.starting else {}
    idle = sorted(h for h in seen.hosts if h not in working)
    if seen.starting:
        idle = idle[: seen.pool.hosts]
    return {**place([s for s in plan.shards if s not in staying], working, idle), **staying}


def _consumed(plan: RecoveryPlan, unit: UnitName, seen: View) -> Epoch:
    """Up to where nobody needs a unit's answers once units stand where the plan puts them."""
    if isinstance(plan, ShardRecovery):
        return seen.pipeline.consumed(unit)
    return min(plan.base[u] for u in (unit, *seen.topology.downstream(unit)))
