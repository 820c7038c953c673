"""Scale out and scale in, step by step: what the controller commands while an operator's slots are divided anew (S3).

``scaling.machine.Scaling`` remembers how far it has come. A loss, a stop or a failure at any step gives the attempt up: the new shards are
dropped, the old ones never stopped being the operator's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from perseid.checkpoint.acknowledgements import Hold
from perseid.checkpoint.lifecycle import bytes_of
from perseid.checkpoint.policy import Decision, Reason
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.changes import (
    AttemptTaken,
    CheckpointCorrupt,
    CheckpointWanted,
    HostReleased,
    HostWorks,
    PoolGrown,
    PoolSettled,
    Repartitioned,
    Routed,
    ShardsNumbered,
    Step,
)
from perseid.engine.view import View
from perseid.graph.topology import Topology
from perseid.scaling.bottleneck import Bottlenecks, HostLoad
from perseid.scaling.machine import ATTEMPTS, ScaleRequest, Scaling
from perseid.scaling.routing import Route, RoutingTable, Shards, new_shards, partition_routing_state, place
from perseid.vocabulary import Attempt, Epoch, HostId, ShardId

SETTLE_MS = 1_000  # from the switch to the checkpoint of the new shards: a fork must not add to the pause
HOST_PATIENCE_MS = 15_000  # so long new hosts are waited for; then those that are there have to do


@dataclass(slots=True)
class ScalingSteps:
    """Takes a scale from one step to the next."""

    bottlenecks: Bottlenecks | None = None
    current: Scaling | None = None
    attempt: Attempt | None = None  # the job that feeds new shards, also when their scale was given up meanwhile

    # -- what happens ---------------------------------------------------------------------------------------------

    def requested(self, request: ScaleRequest, seen: View) -> list[Step]:
        refusal = self._refusal(seen)
        if refusal is not None:
            return [notices.ScaleGivenUp(request, refusal, again=False)]
        if tuple(r.slots for r in seen.routing.of(request.operator)) == request.slots:
            return [notices.Scaled(request, len(request.slots), 0, 0)]
        self.current = Scaling(request, seen.topology.unit_of(request.operator), seen.now_ms)
        return [PoolGrown(len(request.slots)), notices.ScaleStarted(request)]

    def _refusal(self, seen: View) -> str | None:
        if self.current is not None and self.current.phase != "settling":
            return f"operator {self.current.operator!r} is being scaled; ask again when that is done"
        if seen.stopping:
            return "the application is stopping"
        return None

    def loaded(self, load: HostLoad, routing: RoutingTable) -> list[Step]:
        """A host says what it had to do; with a policy, an operator may want other shards (S5)."""
        proposal = self.bottlenecks.reported(load, routing) if self.bottlenecks is not None else None
        return [do.AskToScale(proposal)] if proposal is not None and self.current is None else []

    def shards_ready(self, event: on.ShardsRestored | on.ShardsCaughtUp) -> None:
        """A host has made new shards, or brought them further."""
        if self.current is not None and event.version == self.current.version:
            self.current.answered(event.host, event.reached)

    def restore_failed(self, event: on.RestoreFailed, seen: View) -> list[Step]:
        scaling = self.current
        if scaling is None or event.version != scaling.version:
            return []
        newest = seen.checkpoints.newest
        corrupt: list[Step] = [CheckpointCorrupt(newest.id)] if event.corrupt and newest is not None else []
        return [*corrupt, *self.give_up(event.message, seen, again=event.corrupt or event.storage)]

    def host_died(self, host: HostId, seen: View) -> list[Step]:
        if self.current is None or host not in self.current.hosts:
            return []
        return self.give_up(f"host {host} died while it prepared new shards", seen, again=True)

    def replay_ended(self, failure: on.UnitFailed | None, seen: View) -> list[Step]:
        """Epochs were fed to the new shards, or could not be."""
        scaling, self.attempt = self.current, None
        if scaling is None or scaling.replay is None:
            return []
        if failure is not None:
            scaling.replay_gone()
            return self.give_up(failure.message.splitlines()[0], seen, again=True)
        scaling.replay_ended()
        return []

    def partition_written(self, event: on.PartitionWritten, seen: View) -> list[Step]:
        """The root knows of the new division: from here on it is the one."""
        scaling = self.current
        if scaling is None or scaling.phase != "switching" or event.version != scaling.version:
            return []
        if event.error is not None:
            return self.give_up(event.error, seen, again=True)
        target, held_ms = scaling.target, scaling.held_ms
        assert target is not None and held_ms is not None
        old = seen.routing.of(scaling.operator)
        scaling.switched(seen.now_ms + SETTLE_MS)
        ended = notices.Scaled(scaling.request, len(old), seen.now_ms - held_ms, seen.now_ms - scaling.asked_ms)
        return [
            Routed(seen.routing.with_shards_of(scaling.operator, target)),
            PoolSettled(),
            *_dropped(old, seen),
            ended,
            Repartitioned(),
        ]

    def give_up(self, reason: str, seen: View, *, again: bool) -> list[Step]:
        """The old shards go on as if nothing had been; later there may be another attempt."""
        scaling = self.current
        if scaling is None or scaling.phase in ("asked", "settling"):
            return []
        steps: list[Step] = []
        if scaling.phase == "switching":  # what was written, or is about to be, does not count
            steps.append(_written_down(scaling, seen.routing.shards(scaling.operator), seen))
        if scaling.replay is not None:
            steps.append(do.CancelUnit(scaling.unit, scaling.replay))
        if scaling.target is not None:
            steps += _dropped(scaling.target.of(scaling.operator), seen)
        scaling.failed(seen.now_ms)
        again = again and scaling.failures < ATTEMPTS and not seen.stopping
        if not again:
            self.current = None
            steps.append(PoolSettled())
        return [*steps, notices.ScaleGivenUp(scaling.request, reason, again)]

    def holds(self, topology: Topology) -> tuple[Hold, ...]:
        """The input that new shards must be fed with."""
        scaling = self.current
        if scaling is None or not scaling.keeps_input:
            return ()
        return tuple(Hold(s.name, scaling.base) for s in topology.streams if s.consumer == scaling.unit)

    def hosts_to_release(self, seen: View) -> list[Step]:
        """Hosts that stood ready for new shards, or held those that are gone."""
        if seen.lost is not None or (self.current is not None and self.current.phase != "settling"):
            return []
        needed = seen.copy_hosts | {host for host in seen.hosts if seen.routing.shards_on(host)}
        released = sorted(seen.hosts - needed)[: len(seen.hosts) - seen.pool.size]
        return [step for host in released for step in (HostReleased(host), do.ReleaseHost(host))]

    # -- the next step --------------------------------------------------------------------------------------------

    def advance(self, seen: View) -> list[Step]:
        scaling = self.current
        if scaling is None:
            return []
        if seen.stopping and scaling.phase != "switching":
            if scaling.phase in ("asked", "settling"):
                self.current = None
                told = notices.ScaleGivenUp(scaling.request, "the application is stopping", again=False)
                return [told] if scaling.phase == "asked" else []
            return self.give_up("the application is stopping", seen, again=False)
        match scaling.phase:
            case "asked":
                return self._checkpoint(scaling, seen)
            case "checkpointing":
                return self._when_saved(scaling, seen)
            case "following" | "holding":
                return self._bring_nearer(scaling, seen)
            case "settling":
                return self._settle(scaling, seen)
            case "preparing" | "switching":
                return []
            case _:
                assert_never(scaling.phase)

    def _checkpoint(self, scaling: Scaling, seen: View) -> list[Step]:
        if seen.now_ms < scaling.not_before_ms or seen.checkpoints.busy or not seen.pipeline.settled:
            return []
        fresh = sum(not seen.routing.shards_on(host) for host in seen.hosts)
        wanted = min(len(scaling.request.slots), seen.pool.size - len(seen.hosts) + fresh)
        if fresh < wanted and seen.now_ms - max(scaling.asked_ms, scaling.not_before_ms) < HOST_PATIENCE_MS:
            return []
        unit = seen.pipeline.units[scaling.unit]
        if unit.position == seen.own_cut(scaling.unit):
            return self._prepare(scaling, seen)  # what is saved is all there is
        scaling.checkpoint_started(seen.checkpoints.next_id, unit.finished)
        return [_wanted(scaling, seen)]

    def _when_saved(self, scaling: Scaling, seen: View) -> list[Step]:
        if seen.checkpoints.busy:
            return []
        newest = seen.checkpoints.newest
        if newest is None or newest.id != scaling.checkpoint:
            return self.give_up("its checkpoint failed", seen, again=True)
        return self._prepare(scaling, seen)

    def _prepare(self, scaling: Scaling, seen: View) -> list[Step]:
        """New shards, of parts of the newest snapshots, on hosts that hold little; the old ones know nothing of it."""
        operator, newest, routing = scaling.operator, seen.checkpoints.newest, seen.routing
        shards = new_shards(routing, operator, scaling.request.slots, seen.numbers.get(operator, 0))
        old = {route.shard for route in routing.of(operator)}
        load = {h: len(set(routing.shards_on(h)) - old) for h in seen.hosts}
        fresh = [h for h in seen.hosts if not routing.shards_on(h)]
        placed = place([ShardId(operator, index) for index, _ in shards], load, fresh)
        base, target = seen.own_cut(scaling.unit), partition_routing_state(routing, old, shards, placed)
        scaling.prepared_from(base, target)
        # Whatever becomes of this attempt, no other table has its version.
        steps: list[Step] = [ShardsNumbered(operator, shards[-1][0]), Routed(routing.moved({}))]
        for host in sorted(scaling.waiting):
            mine = [r for r in target.of(operator) if r.host == host]
            made = tuple(
                (r, newest.own_parts(scaling.unit, operator, r.slots) if newest is not None else (), base) for r in mine
            )
            steps.append(HostWorks(host, bytes_of(part for _, parts, _ in made for part in parts)))
            steps.append(do.RestoreShards(host, target.version, made, Epoch(base + 1), beside=True))
        return steps

    def _bring_nearer(self, scaling: Scaling, seen: View) -> list[Step]:
        """Round by round: what came since the last one, until only the unit's standing still can end it."""
        state = seen.pipeline.units[scaling.unit]
        if scaling.busy:
            return []
        if scaling.behind:
            return self._replay(scaling, seen)
        if scaling.phase == "following" and scaling.near(state.finished):
            if seen.pipeline.consumed(scaling.unit) < scaling.base:
                return []  # the old shards may be asked for older answers
            scaling.hold()
        if scaling.phase == "following":
            return self._catch_up(scaling, state.finished, seen)
        if not state.idle:
            return []
        scaling.unit_rests(seen.now_ms)
        if state.finished > scaling.upto:
            return self._catch_up(scaling, state.finished, seen)
        assert scaling.target is not None
        scaling.switch()
        return [_written_down(scaling, scaling.target.shards(scaling.operator), seen)]

    def _catch_up(self, scaling: Scaling, upto: Epoch, seen: View) -> list[Step]:
        """From the input that the old shards keep on the same machine."""
        assert scaling.target is not None
        scaling.round_began(upto)
        behind, before = set(scaling.behind), seen.routing.of(scaling.operator)
        steps: list[Step] = []
        for host in sorted(scaling.hosts):
            mine = tuple(r for r in scaling.target.of(scaling.operator) if r.host == host and r.shard in behind)
            if mine:
                scaling.waits_for(host)
                steps.append(HostWorks(host, 0))  # epochs only: no state is read or saved as a whole
                steps.append(do.CatchUpShards(host, scaling.target.version, mine, before, upto))
        return steps

    def _replay(self, scaling: Scaling, seen: View) -> list[Step]:
        """What kept input could not do, a job does, beside the unit's own."""
        assert scaling.target is not None
        first, again = Epoch(scaling.stands + 1), scaling.failures > 0
        attempt = self.attempt = Attempt(seen.pipeline.attempts + 1)
        scaling.replay_began(attempt)
        unit, upto, target = scaling.unit, scaling.upto, scaling.target
        replay = seen.replay(unit, attempt, scaling.behind, first, upto, target, again=again, beside=True)
        return [AttemptTaken(attempt), replay]

    def _settle(self, scaling: Scaling, seen: View) -> list[Step]:
        if seen.now_ms < scaling.not_before_ms or seen.checkpoints.busy or not seen.pipeline.settled:
            return []
        self.current = None
        return [_wanted(scaling, seen)] if seen.checkpoints.worthwhile(seen.pipeline) else []

    def check(self) -> None:
        if self.current is not None:
            self.current.check()


def _dropped(routes: tuple[Route, ...], seen: View) -> list[Step]:
    homes: dict[HostId, list[ShardId]] = {}
    for route in routes:
        if route.host is not None and route.host in seen.hosts:
            homes.setdefault(route.host, []).append(route.shard)
    return [do.DropShards(host, tuple(shards)) for host, shards in sorted(homes.items())]


def _written_down(scaling: Scaling, shards: Shards, seen: View) -> do.WritePartition:
    assert scaling.version is not None
    declared = seen.topology.operators[scaling.operator]
    return do.WritePartition(scaling.operator, declared, shards, scaling.version)


def _wanted(scaling: Scaling, seen: View) -> CheckpointWanted:
    units = frozenset({scaling.unit}) if seen.settings.scheme.individual else None
    return CheckpointWanted(Decision(Reason.SCALE, units))
