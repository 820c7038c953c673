"""Scale out and scale in, step by step: what the controller commands while an operator's slots are divided anew (S3).

``scaling.machine.Scaling`` remembers how far it has come. A loss, a stop or a failure at any step gives the attempt up: the new shards are
dropped, the old ones never stopped being the operator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perseid.checkpoint.lifecycle import bytes_of
from perseid.checkpoint.policy import Decision, Reason
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.notices import Outcome
from perseid.scaling.bottleneck import HostLoad
from perseid.scaling.machine import ATTEMPTS, ScaleRequest, Scaling
from perseid.scaling.routing import Route, Shards, numbered, partition_routing_state, place
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, SlotRange

if TYPE_CHECKING:
    from perseid.engine.controller import Controller

SETTLE_MS = 1_000  # from the switch to the checkpoint of the new shards: a fork must not add to the pause
HOST_PATIENCE_MS = 15_000  # so long new hosts are waited for; then those that are there have to do


class ScalingSteps:
    """Takes the controller's scale from one step to the next."""

    def __init__(self, controller: Controller) -> None:
        self._of = controller

    # -- what happens ---------------------------------------------------------------------------------------------

    def requested(self, request: ScaleRequest) -> tuple[Outcome, ...]:
        of = self._of
        refusal = self._refusal(request)
        if refusal is not None:
            return (notices.ScaleGivenUp(request, refusal, again=False),)
        if tuple(r.slots for r in of.routing.of(request.operator)) == request.slots:
            return (notices.Scaled(request, len(request.slots), 0, 0),)
        of.scaling = Scaling(request, of.topology.unit_of(request.operator), of.now_ms)
        of.pool = of.pool.growing(len(request.slots))
        return (notices.ScaleStarted(request),)

    def _refusal(self, request: ScaleRequest) -> str | None:
        of = self._of
        if of.scaling is not None and of.scaling.phase != "settling":
            return f"operator {of.scaling.operator!r} is being scaled; ask again when that is done"
        if of.stopping:
            return "the application is stopping"
        return None

    def loaded(self, load: HostLoad) -> tuple[Outcome, ...]:
        """A host says what it had to do; with a policy, an operator may want other shards (S5)."""
        of = self._of
        if of.bottlenecks is None or of.recovering is not None or of.stopping:
            return ()
        wish = of.bottlenecks.reported(load, of.routing)
        return (do.AskToScale(wish),) if wish is not None and of.scaling is None else ()

    def restored(self, event: on.ShardsRestored | on.ShardsCaughtUp) -> None:
        if self._of.scaling is not None and event.version == self._of.scaling.version:
            self._of.scaling.answered(event.host, event.reached)

    def restore_failed(self, event: on.RestoreFailed) -> list[Outcome]:
        of, scaling = self._of, self._of.scaling
        if scaling is None or event.version != scaling.version:
            return []
        newest = of.checkpoints.newest
        if event.corrupt and newest is not None:
            of.checkpoints.discard(newest.id)
        return self.give_up(event.message, again=event.corrupt or event.storage)

    def host_died(self, host: HostId) -> list[Outcome]:
        scaling = self._of.scaling
        if scaling is None or host not in scaling.hosts:
            return []
        return self.give_up(f"host {host} died while it prepared new shards", again=True)

    def replay_ended(self, failure: on.UnitFailed | None) -> list[Outcome]:
        """Epochs were fed to the new shards, or could not be."""
        of, scaling = self._of, self._of.scaling
        of.scale_replay = None
        if scaling is None or scaling.replay is None:
            return []
        scaling.replay = None
        if failure is not None:
            return self.give_up(failure.message.splitlines()[0], again=True)
        scaling.reached = dict.fromkeys(scaling.reached, scaling.upto)
        return []

    def written_down(self, event: on.PartitionWritten) -> list[Outcome]:
        """The root knows of the new division: from here on it is the one."""
        of, scaling = self._of, self._of.scaling
        if scaling is None or scaling.phase != "switching" or event.version != scaling.version:
            return []
        if event.error is not None:
            return self.give_up(event.error, again=True)
        target, held_ms = scaling.target, scaling.held_ms
        assert target is not None and held_ms is not None
        old = of.routing.of(scaling.operator)
        of.routing = target
        scaling.phase, scaling.not_before_ms = "settling", of.now_ms + SETTLE_MS
        self.settle_pool()
        ended = notices.Scaled(scaling.request, len(old), of.now_ms - held_ms, of.now_ms - scaling.asked_ms)
        return [*self._drop(old), ended, *of.checkpoints.repartitioned(of.routing.routes, of.now_ms)]

    def give_up(self, reason: str, *, again: bool) -> list[Outcome]:
        """The old shards go on as if nothing had been; later there may be another attempt."""
        of, scaling = self._of, self._of.scaling
        if scaling is None or scaling.phase in ("asked", "settling"):
            return []
        commands: list[Outcome] = []
        if scaling.phase == "switching":  # what was written, or is about to be, does not count
            commands.append(self._write_down(scaling, of.routing.shards(scaling.operator)))
        if scaling.replay is not None:
            commands.append(do.CancelUnit(scaling.unit, scaling.replay))
        if scaling.target is not None:
            commands += self._drop(scaling.target.of(scaling.operator))
        scaling.failed(of.now_ms)
        again = again and scaling.failures < ATTEMPTS and not of.stopping
        if not again:
            of.scaling = None
            self.settle_pool()
        return [*commands, notices.ScaleGivenUp(scaling.request, reason, again)]

    def _drop(self, routes: tuple[Route, ...]) -> list[Outcome]:
        homes: dict[HostId, list[ShardId]] = {}
        for route in routes:
            if route.host in self._of.hosts:
                homes.setdefault(route.host, []).append(route.shard)
        return [do.DropShards(host, tuple(shards)) for host, shards in sorted(homes.items())]

    def new_shards(self, operator: OperatorName, slots: Sequence[SlotRange]) -> Shards:
        """Shards for these slots, with numbers that none had before: not even in an attempt that was given up, for input that its
        shards kept may still lie about."""
        of = self._of
        known = (of.numbers.get(operator, 0), *(index for index, _ in of.routing.shards(operator)))
        shards = numbered(slots, 1 + max(known))
        of.numbers[operator] = shards[-1][0]
        return shards

    # -- hosts ----------------------------------------------------------------------------------------------------

    def settle_pool(self) -> None:
        """As many hosts as at the start; more where operators were scaled out beyond what they were declared with."""
        of = self._of
        counts = {o: len(of.routing.of(o)) for o in of.topology.operators}
        scaled = [count for o, count in counts.items() if count > of.topology.operators[o]]
        of.pool = of.pool.settled(max([of.settings.hosts, *scaled]))

    def release_hosts(self) -> list[Outcome]:
        """Hosts that stood ready for new shards, or held those that are gone."""
        of = self._of
        if of.recovering is not None or (of.scaling is not None and of.scaling.phase != "settling"):
            return []
        idle = sorted(host for host in of.hosts if not of.routing.shards_on(host))
        released = idle[: len(of.hosts) - of.pool.size]
        for host in released:
            of.hosts.discard(host)
            of.detector.lost(host, "released", of.now_ms)
        return [do.ReleaseHost(host) for host in released]

    # -- the next step --------------------------------------------------------------------------------------------

    def advance(self) -> list[Outcome]:
        of, scaling = self._of, self._of.scaling
        if scaling is None:
            return []
        if of.stopping and scaling.phase != "switching":
            if scaling.phase in ("asked", "settling"):
                of.scaling = None
                told = notices.ScaleGivenUp(scaling.request, "the application is stopping", again=False)
                return [told] if scaling.phase == "asked" else []
            return self.give_up("the application is stopping", again=False)
        match scaling.phase:
            case "asked":
                return self._checkpoint(scaling)
            case "checkpointing":
                return self._when_saved(scaling)
            case "following" | "holding":
                return self._bring_nearer(scaling)
            case "settling":
                return self._settle()
        return []

    def _checkpoint(self, scaling: Scaling) -> list[Outcome]:
        of = self._of
        if of.now_ms < scaling.not_before_ms or of.checkpoints.pending is not None or not of.pipeline.settled:
            return []
        fresh = sum(not of.routing.shards_on(host) for host in of.hosts)
        wanted = min(len(scaling.request.slots), of.pool.size - len(of.hosts) + fresh)
        if fresh < wanted and of.now_ms - max(scaling.asked_ms, scaling.not_before_ms) < HOST_PATIENCE_MS:
            return []
        unit = of.pipeline.units[scaling.unit]
        newest = of.checkpoints.newest
        if unit.position == (newest.own_cut(scaling.unit) if newest else Epoch(0)):
            return self._prepare(scaling)  # what is saved is all there is
        units = frozenset({scaling.unit}) if of.settings.scheme.individual else None
        scaling.checkpoint_started(of.checkpoints.next_id, unit.finished)
        decision = Decision(Reason.SCALE, units)
        return list(of.checkpoints.start(of.now_ms, of.pipeline, of.routing, decision))

    def _when_saved(self, scaling: Scaling) -> list[Outcome]:
        of = self._of
        if of.checkpoints.pending is not None:
            return []
        newest = of.checkpoints.newest
        if newest is None or newest.id != scaling.checkpoint:
            return self.give_up("its checkpoint failed", again=True)
        return self._prepare(scaling)

    def _prepare(self, scaling: Scaling) -> list[Outcome]:
        """New shards, of parts of the newest snapshots, on hosts that hold little; the old ones know nothing of it."""
        of, operator, newest = self._of, scaling.operator, self._of.checkpoints.newest
        shards = self.new_shards(operator, scaling.request.slots)
        old = {route.shard for route in of.routing.of(operator)}
        load = {h: len(set(of.routing.shards_on(h)) - old) for h in of.hosts}
        fresh = [h for h in of.hosts if not of.routing.shards_on(h)]
        placed = place([ShardId(operator, index) for index, _ in shards], load, fresh)
        base = newest.own_cut(scaling.unit) if newest is not None else Epoch(0)
        scaling.prepared_from(base, partition_routing_state(of.routing, old, shards, placed))
        of.routing = of.routing.moved({})  # whatever becomes of this attempt, no other table has its version
        assert scaling.target is not None
        commands: list[Outcome] = []
        for host in sorted(scaling.waiting):
            mine = [r for r in scaling.target.of(operator) if r.host == host]
            made = tuple(
                (r, newest.own_parts(scaling.unit, operator, r.slots) if newest is not None else (), base) for r in mine
            )
            size = bytes_of(part for _, parts, _ in made for part in parts)
            of.detector.work_began(host, of.now_ms, size)
            commands.append(do.RestoreShards(host, scaling.target.version, made, Epoch(base + 1), beside=True))
        return commands

    def _bring_nearer(self, scaling: Scaling) -> list[Outcome]:
        """Round by round: what came since the last one, until only the unit's standing still can end it."""
        of, state = self._of, self._of.pipeline.units[scaling.unit]
        if scaling.busy:
            return []
        if scaling.behind:
            return self._replay(scaling)
        if scaling.phase == "following" and scaling.near(state.finished):
            if of.pipeline.consumed(scaling.unit) < scaling.base:
                return []  # the old shards may be asked for older answers
            scaling.phase = "holding"
        if scaling.phase == "following":
            return self._catch_up(scaling, state.finished)
        if not state.idle:
            return []
        scaling.held_ms = scaling.held_ms if scaling.held_ms is not None else of.now_ms
        if state.finished > scaling.upto:
            return self._catch_up(scaling, state.finished)
        assert scaling.target is not None
        scaling.phase = "switching"
        return [self._write_down(scaling, scaling.target.shards(scaling.operator))]

    def _catch_up(self, scaling: Scaling, upto: Epoch) -> list[Outcome]:
        """From the input that the old shards keep on the same machine."""
        of = self._of
        assert scaling.target is not None
        scaling.upto, scaling.gap = upto, upto - scaling.stands
        behind, before = set(scaling.behind), of.routing.of(scaling.operator)
        commands: list[Outcome] = []
        for host in sorted(scaling.hosts):
            mine = tuple(r for r in scaling.target.of(scaling.operator) if r.host == host and r.shard in behind)
            if mine:
                scaling.waiting.add(host)
                of.detector.work_began(host, of.now_ms, 0)  # epochs only: no state is read or saved as a whole
                commands.append(do.CatchUpShards(host, scaling.target.version, mine, before, upto))
        return commands

    def _replay(self, scaling: Scaling) -> list[Outcome]:
        """What kept input could not do, a job does, beside the unit's own."""
        of = self._of
        assert scaling.target is not None
        first, again = Epoch(scaling.stands + 1), scaling.failures > 0
        attempt = of.scale_replay = scaling.replay = of.pipeline.next_attempt()
        unit, upto, target = scaling.unit, scaling.upto, scaling.target
        return [of.replay(unit, attempt, scaling.behind, first, upto, target, again=again, beside=True)]

    def _write_down(self, scaling: Scaling, shards: Shards) -> do.WritePartition:
        assert scaling.version is not None
        declared = self._of.topology.operators[scaling.operator]
        return do.WritePartition(scaling.operator, declared, shards, scaling.version)

    def _settle(self) -> list[Outcome]:
        of, scaling = self._of, self._of.scaling
        assert scaling is not None
        if of.now_ms < scaling.not_before_ms or of.checkpoints.pending is not None or not of.pipeline.settled:
            return []
        of.scaling = None
        if not of.checkpoints.worthwhile(of.pipeline):
            return []
        units = frozenset({scaling.unit}) if of.settings.scheme.individual else None
        decision = Decision(Reason.SCALE, units)
        return list(of.checkpoints.start(of.now_ms, of.pipeline, of.routing, decision))
