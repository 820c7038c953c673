"""The way back, step by step: what the controller commands while something is lost (M6, S4).

Units that hold lost shards come to rest → plan → hosts restore shards under a new routing version → missed epochs are replayed
into them → done. ``Recovering`` remembers how far it has come, ``recovery.plan`` decides what goes back to where.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from perseid.checkpoint.lifecycle import CompletedCheckpoint, bytes_of
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.notices import Outcome
from perseid.engine.recovering import Recovering
from perseid.recovery.plan import ApplicationRecovery, Observation, RecoveryPlan, ShardRecovery, decide
from perseid.scaling.routing import partition_routing_state, place
from perseid.state.slots import divided
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, SlotRange, UnitName

if TYPE_CHECKING:
    from perseid.engine.controller import Controller

RETRY_PAUSE_MS = 100
RETRY_PAUSE_LIMIT_MS = 5_000
BURST_PATIENCE_MS = 1_500
GROWTH_PATIENCE_MS = 5_000
REST_LIMIT_MS = 120_000  # for a job that was taken back
QUICK_MS = 3_000  # a recovery that takes no longer is nothing to speak of


class RecoverySteps:
    """Takes the controller's recovery from one step to the next."""

    def __init__(self, controller: Controller) -> None:
        self._of = controller

    def lose(self, shards: set[ShardId], reason: str, *, everything: bool = False, detect_ms: int = 0) -> list[Outcome]:
        """These shards are gone: a recovery begins, or begins anew with all that is not yet back."""
        of = self._of
        everything |= of.settings.scheme.replays_sources
        given_up = of.scale.give_up(reason, again=True)
        if of.recovering is None:
            of.recovering = Recovering(set(shards), everything, reason, of.now_ms - detect_ms, step_ms=of.now_ms)
            of.recovering.phases_ms["detect"] = detect_ms
        else:
            of.recovering.restart(shards, reason, of.now_ms)
            of.recovering.everything |= everything
        return [*given_up, *of.checkpoints.abort(reason)]

    def restore_failed(self, event: on.RestoreFailed) -> tuple[Outcome, ...]:
        of, recovering = self._of, self._of.recovering
        if recovering is None or recovering.plan is None or recovering.version != event.version:
            return ()
        if event.corrupt and recovering.plan.checkpoint is not None:
            of.checkpoints.discard(recovering.plan.checkpoint)
        elif not (event.storage and self._wait_for_storage(recovering)):
            of.error = event.message
        recovering.restart(set(), event.message, of.now_ms)
        return ()

    def advance(self) -> list[Outcome]:
        """The next step, if it can be taken."""
        of, recovering = self._of, self._of.recovering
        assert recovering is not None
        if of.phase != "starting":
            of.phase = "recovering"
        if recovering.plan is None:
            return self._plan(recovering)
        commands: list[Outcome] = []
        if recovering.refused and of.now_ms >= recovering.not_before_ms:
            commands += [self._write_down(operator) for operator in sorted(recovering.unwritten)]
            recovering.unwritten.clear()
        if not recovering.restoring:
            catching_up = recovering.to_replay | recovering.replaying
            # A unit below may have to ask the one above for an epoch once more: that one comes first.
            ready = {u for u in recovering.to_replay if not catching_up & of.topology.above(u)}
            if ready and isinstance(recovering.plan, ShardRecovery):
                commands += self._replay(recovering, recovering.plan, ready)
        if recovering.done:
            recovering.step_done("catch_up", of.now_ms)
            for state in of.pipeline.units.values():
                state.not_before_ms = 0
            of.recovering = None
            duration = of.now_ms - recovering.since_ms
            commands.append(
                notices.RecoveryFinished(
                    recovering.plan, duration, dict(recovering.phases_ms), recovering.reason == "start"
                )
            )
            again = of.checkpoints.repartitioned(of.routing.routes, of.now_ms) if recovering.divided else ()
            commands += again or of.checkpoints.running(of.now_ms)
            commands += of.trim() if of.trims else ()
        return commands

    def _plan(self, recovering: Recovering) -> list[Outcome]:
        of = self._of
        affected = set(of.pipeline.units) if recovering.everything else of.topology.units_of(recovering.lost)
        commands: list[Outcome] = []
        for unit in sorted(affected):
            commands += of.cancel(unit)
        busy = [u for u in sorted(affected) if not of.pipeline.units[u].idle]
        for unit in busy:
            if of.now_ms - of.pipeline.units[unit].cancelled_ms > REST_LIMIT_MS:
                of.error = (
                    f"unit {unit!r}: Spark has not ended its job {REST_LIMIT_MS // 1000} s after it was cancelled;"
                    " start the application again, in a new session if Spark does not answer"
                )
        if busy or not self._enough_hosts(recovering):
            return commands
        pausing = [recovering.not_before_ms]
        pausing += [s.not_before_ms for u, s in of.pipeline.units.items() if u in affected]
        if of.phase != "starting":  # hosts that die together are noticed one after the other: one burst, one recovery
            pausing.append(recovering.step_ms + of.settings.heartbeat_ms // 2)
        if of.now_ms < max(pausing, default=0):
            return commands
        seen = Observation(
            finished={u: s.finished for u, s in of.pipeline.units.items()},
            lost=frozenset(recovering.lost),
            slots={shard: route.slots for shard, route in of.routing.routes.items()},
            checkpoints=tuple(of.checkpoints.completed),
            newest=of.checkpoints.trimmed_by,
            everything=recovering.everything,
            oldest_epoch=of.oldest_epoch,
        )
        plan = decide(of.topology, seen)
        if isinstance(plan, ShardRecovery) and self._may_divide(recovering, plan):
            commands += self._divide(recovering)
            slots = {shard: route.slots for shard, route in of.routing.routes.items()}
            plan = decide(of.topology, replace(seen, lost=frozenset(recovering.lost), slots=slots))
        if isinstance(plan, ApplicationRecovery) and not recovering.everything:
            recovering.everything = True  # the units not affected so far must come to rest too
            recovering.lost |= set(of.routing.routes)
            return [*commands, *of.checkpoints.abort(recovering.reason), *self._plan(recovering)]
        recovering.plan = plan
        recovering.lost |= set(plan.shards)
        recovering.step_done("reload", of.now_ms)
        commands.append(notices.RecoveryStarted(recovering.reason, plan))
        return [*commands, *self._restore(recovering, plan)]

    def _may_divide(self, recovering: Recovering, plan: ShardRecovery) -> bool:
        """Parallel recovery: is there something to replay, and somebody to share it?"""
        of = self._of
        operators = {shard.operator for shard in recovering.lost}
        ready = operators <= of.settings.scalable and not recovering.divided
        ways = of.settings.parallel_recovery
        after = Counter(shard.operator for shard in (*of.routing.routes, *(ways - 1) * list(recovering.lost)))
        bounded = all(after[o] <= ways * of.topology.operators[o] for o in operators)  # loss after loss must not add up
        return ready and bounded and min(ways, len(of.hosts)) > 1 and bool(plan.replay)

    def _divide(self, recovering: Recovering) -> list[Outcome]:
        """Every lost shard becomes several, each of which has less to read and less to replay: a scale out of what is lost (S4)."""
        of = self._of
        recovering.divided = True
        commands: list[Outcome] = []
        for operator in sorted({shard.operator for shard in recovering.lost}):
            routes = of.routing.of(operator)
            ranges = [part for r in routes if r.shard in recovering.lost for part in self._pieces(r.slots)]
            fresh = of.scale.new_shards(operator, ranges)
            gone = {s for s in recovering.lost if s.operator == operator}
            recovering.before += tuple(r for r in routes if r.shard in gone)
            of.routing = partition_routing_state(of.routing, gone, fresh)
            recovering.lost = (recovering.lost - gone) | {ShardId(operator, index) for index, _ in fresh}
            recovering.writing[operator] = of.routing.version
            commands.append(self._write_down(operator))
        of.scale.settle_pool()
        return commands

    def _pieces(self, slots: SlotRange) -> list[SlotRange]:
        count = min(self._of.settings.parallel_recovery, len(self._of.hosts), slots[1] - slots[0])
        return divided(slots, count)

    def _write_down(self, operator: OperatorName) -> do.WritePartition:
        of, recovering = self._of, self._of.recovering
        assert recovering is not None
        shards, declared = of.routing.shards(operator), of.topology.operators[operator]
        return do.WritePartition(operator, declared, shards, recovering.writing[operator])

    def written_down(self, event: on.PartitionWritten) -> list[Outcome]:
        """The ledger knows of the division; or could not be written, which is tried until it can."""
        of, recovering = self._of, self._of.recovering
        if recovering is None or recovering.writing.get(event.operator) != event.version:
            return []
        if event.error is None:
            del recovering.writing[event.operator]
        else:
            recovering.unwritten.add(event.operator)
        if recovering.refused and not self._wait_for_storage(recovering):  # one try, however many operators there are
            of.error = event.error or "the ledger is out of reach"
        return []

    def _wait_for_storage(self, recovering: Recovering) -> bool:
        """Out of reach is not lost: there is another try after a pause, but not for ever."""
        if recovering.failed_restores >= self._of.settings.storage_retries:
            return False
        recovering.failed_restores += 1
        pause_ms = min(RETRY_PAUSE_MS * 2 ** (recovering.failed_restores - 1), RETRY_PAUSE_LIMIT_MS)
        recovering.not_before_ms = self._of.now_ms + pause_ms
        return True

    def _enough_hosts(self, recovering: Recovering) -> bool:
        """One host will do to bring back a part; after a burst it pays to wait a moment for the others."""
        of = self._of
        if len(of.hosts) >= of.pool.hosts:
            return True
        if of.phase == "starting":  # more than it was promised is waited for, but not for long
            patient = of.now_ms - recovering.step_ms < GROWTH_PATIENCE_MS
            return len(of.hosts) >= of.settings.hosts and not patient
        if not of.hosts:
            return False
        # From the first loss on: hosts that are lost one after the other must not put it off again and again.
        return len(recovering.lost) < len(of.routing.routes) or of.now_ms - recovering.since_ms >= BURST_PATIENCE_MS

    def trouble(self, recovering: Recovering) -> list[str]:
        """What a recovery waits for that takes its time."""
        of, took_ms = self._of, self._of.now_ms - recovering.since_ms
        if took_ms < QUICK_MS:
            return []
        cancelled = [unit for unit, state in of.pipeline.units.items() if state.cancelled]
        if recovering.failed_restores:
            waits = f"storage is out of reach, try {recovering.failed_restores + 1}"
        elif recovering.plan is not None:
            waits = "hosts restore shards" if recovering.restoring else "missed epochs are replayed"
        elif cancelled:
            waits = f"Spark has not yet ended the cancelled job of unit {cancelled[0]!r}"
        else:
            waits = f"{len(of.hosts)} of {of.pool.hosts} hosts are there"
        return [f"recovering for {took_ms / 1000:.0f} s, {waits} ({recovering.reason})"]

    def _restore(self, recovering: Recovering, plan: RecoveryPlan) -> list[Outcome]:
        of = self._of
        commands: list[Outcome] = []
        chosen = self.chosen(plan)
        of.restored = plan.checkpoint
        inflight = dict(chosen.inflight) if chosen else {}
        match plan:
            case ShardRecovery():
                commands.append(do.OfferInflight(inflight))
            case ApplicationRecovery():
                of.checkpoints.went_back()
                for unit, epoch in plan.base.items():
                    of.pipeline.units[unit].go_back(epoch)
                commands.append(do.ResetStreams(inflight, dict(plan.base)))
            case _:
                assert_never(plan)
        staying = {s: h for s in plan.shards if (h := of.routing.host_of(s)) in of.hosts and h is not None}
        load = {h: len([s for s in of.routing.shards_on(h) if s not in plan.shards or s in staying]) for h in of.hosts}
        working = {h: n for h, n in load.items() if n} if of.phase != "starting" else {}
        idle = sorted(h for h in of.hosts if h not in working)
        if of.phase == "starting":
            idle = idle[: of.pool.hosts]
        placed = {**place([s for s in plan.shards if s not in staying], working, idle), **staying}
        of.routing = of.routing.moved(dict(placed))
        recovering.version = of.routing.version
        shards_of: dict[HostId, list[ShardId]] = {}
        for shard in sorted(placed):
            shards_of.setdefault(placed[shard], []).append(shard)
        recovering.restoring = set(shards_of)
        replay = plan.replay if isinstance(plan, ShardRecovery) else {}
        recovering.to_replay = set(replay)
        upto = {unit: last for unit, (_, last) in replay.items()}
        for host, mine in sorted(shards_of.items()):
            of.detector.work_began(host, of.now_ms, bytes_of(part for s in mine for part in plan.shards[s]))
            units = {s: of.topology.unit_of(s.operator) for s in mine}
            retain = min(of.pipeline.consumed(unit) for unit in units.values())
            shards = tuple((of.routing.routes[s], plan.shards[s], plan.base[units[s]]) for s in mine)
            before = tuple(r for r in recovering.before if r.shard.operator in {s.operator for s in mine})
            commands.append(do.RestoreShards(host, of.routing.version, shards, Epoch(retain + 1), upto, before))
        if not placed:
            commands += self.advance()
        return commands

    def chosen(self, plan: RecoveryPlan) -> CompletedCheckpoint | None:
        """The checkpoint that a plan goes back to."""
        return next((c for c in self._of.checkpoints.completed if c.id == plan.checkpoint), None)

    def _replay(self, recovering: Recovering, plan: ShardRecovery, units: set[UnitName]) -> list[Outcome]:
        """Feed restored shards what they missed, unless kept input has brought them there already."""
        of = self._of
        commands: list[Outcome] = []
        for unit in sorted(units):
            last = plan.replay[unit][1]
            mine = [s for s in plan.shards if of.topology.unit_of(s.operator) == unit]
            stands, behind = recovering.behind(mine, plan.base[unit], last)
            recovering.to_replay.discard(unit)
            if not behind:
                continue
            recovering.replaying.add(unit)
            attempt, again = of.pipeline.started(unit, last, replaying=True), recovering.failed_replays > 0
            commands.append(of.replay(unit, attempt, behind, Epoch(stands + 1), last, of.routing, again=again))
        return commands
