"""Makes the changes that parts of the controller want (``changes``), all of them in one place, and what follows at once from each.

Invariant: parts see changes in the order in which they were wanted: the view of a part is made after the changes before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from perseid.engine import changes as to
from perseid.engine import commands as do
from perseid.engine.controller_state import ControllerState
from perseid.engine.notices import Outcome
from perseid.engine.unit_ends import host_died
from perseid.recovery.detection import Death
from perseid.vocabulary import Epoch, ShardId, UnitName


def make(state: ControllerState, steps: Iterable[to.Step]) -> tuple[Outcome, ...]:
    """Make the changes that a part wants, in their order; return the commands among them, and those that follow."""
    commands: list[Outcome] = []
    for step in steps:
        if isinstance(step, to.Change):
            commands += _make(state, step)
        else:
            commands.append(step)
    return tuple(commands)


def _make(state: ControllerState, change: to.Change) -> list[Outcome]:
    """Make one change."""
    commands: list[Outcome] = []
    match change:
        case to.Failed(message):
            state.error = message
        case to.Routed(table):
            state.routing = table
        case to.ShardsGuarded(shards, host, standbys, patience_ms):
            state.routing = state.routing.guarded(shards, host, standbys, patience_ms)
        case to.ShardsNumbered(operator, highest):
            state.numbers[operator] = highest
        case to.PoolGrown(hosts):
            state.pool = state.pool.growing(hosts)
        case to.PoolSettled():
            state.settle_pool()
        case to.ShardsLost(shards, reason, everything):
            commands += _lose(state, shards, reason, everything=everything)
        case to.EverythingBack(divided):
            commands += _go_on(state, divided)
        case to.Repartitioned():
            commands += state.checkpoints.repartitioned(state.routing.routes, state.now_ms)
        case to.HostSuspected(host):
            state.detector.suspected(host)
        case to.HostUnreachable(host, reason):
            commands += hosts_died(state, state.detector.lost(host, reason, state.now_ms))
        case to.HostWorks(host, state_bytes):
            state.detector.work_began(host, state.now_ms, state_bytes)
        case to.HostReleased(host):
            state.hosts -= {host}
            state.detector.lost(host, "released", state.now_ms)
            commands += make(state, state.standby.host_died(host, state.view()))
        case to.UnitCancelled(unit):
            state.pipeline.cancelled(unit, state.now_ms)
            commands.append(do.CancelUnit(unit, state.pipeline.units[unit].attempt))
        case to.UnitStands(unit, standing):
            state.pipeline.units[unit] = standing
        case to.UnitsPutBack(base):
            commands += _put_back(state, base)
        case to.ReplayBegan(unit, last, attempt):
            begun = state.pipeline.started(unit, last, replaying=True)
            assert begun == attempt
        case to.ReplayFailed(unit, message, cancelled):
            state.recovery.replay_failed(unit, message, state.now_ms, cancelled=cancelled)
        case to.AttemptTaken(attempt):
            taken = state.pipeline.next_attempt()
            assert taken == attempt
        case to.RowsSetAside(unit, epoch, operators):
            known = state.set_aside.get((unit, epoch), frozenset())
            state.set_aside[(unit, epoch)] = known | operators
        case to.CheckpointWanted(decision):
            commands += state.checkpoints.start(state.now_ms, state.pipeline, state.routing, decision)
        case to.CheckpointGivenUp(reason):
            commands += state.checkpoints.abort(reason)
        case to.CheckpointCorrupt(checkpoint):
            state.checkpoints.discard(checkpoint)
            state.covered_now()
        case to.InflightCorrupt(checkpoint):
            state.checkpoints.discard(checkpoint)
            state.covered_now()
            state.recovery.inflight_corrupt()
        case _ as never:
            assert_never(never)
    return commands


def hosts_died(state: ControllerState, deaths: tuple[Death, ...]) -> tuple[Outcome, ...]:
    """Hosts died: their shards are lost. Whatever number of them, whoever saw it: one recovery."""
    commands: list[Outcome] = []
    for death in deaths:
        state.hosts -= {death.host}
        commands += make(state, host_died(death.host, state.view()))
        if state.standby.used:
            commands += make(state, state.standby.host_died(death.host, state.view()))
        commands.append(do.DropHost(death.host, death.reason))
        commands += make(state, state.scale.host_died(death.host, state.view()))
        shards = state.routing.shards_on(death.host)
        if shards:
            state.faults += 1
            reason = f"host {death.host}: {death.reason}"
            commands += _lose(state, shards, reason, detect_ms=death.silent_ms)
    return tuple(commands)


def _lose(
    state: ControllerState, shards: Iterable[ShardId], reason: str, *, everything: bool = False, detect_ms: int = 0
) -> list[Outcome]:
    """These shards are gone: what is being scaled or checkpointed is given up, and a recovery begins, or begins anew."""
    everything |= state.settings.scheme.replays_sources
    given_up = make(state, state.scale.give_up(reason, state.view(), again=True))
    lost = set(shards)
    unguarded = make(state, state.standby.shards_lost(lost, state.view())) if state.standby.used else ()
    state.recovery.shards_lost(lost, reason, state.now_ms, everything=everything, detect_ms=detect_ms)
    return [*given_up, *unguarded, *state.checkpoints.abort(reason)]


def _put_back(state: ControllerState, base: Mapping[UnitName, Epoch]) -> tuple[Outcome, ...]:
    unguarded = make(state, state.standby.put_back(base, state.view()))
    state.checkpoints.went_back()
    state.covered_now()
    for unit, epoch in base.items():
        state.pipeline.put_back(unit, epoch)
        state.acknowledgements.done(unit, epoch)
    return unguarded


def _go_on(state: ControllerState, divided: bool) -> list[Outcome]:
    """Everything lost is back."""
    state.pipeline.go_on()
    again = state.checkpoints.repartitioned(state.routing.routes, state.now_ms) if divided else ()
    return [*(again or state.checkpoints.running(state.now_ms)), *(trim(state) if state.trims else ())]


def trim(state: ControllerState) -> tuple[Outcome, ...]:
    """Let go what newer checkpoints cover; but not while a recovery is on its way back from an older one."""
    if state.recovery.planned:
        return ()
    trims, state.trims = state.trims, []
    for command in trims:
        state.oldest_epoch = Epoch(min(command.oldest.cuts.values()) + 1)
        state.set_aside = {key: mine for key, mine in state.set_aside.items() if key[1] >= state.oldest_epoch}
    return (*trims, *state.released())
