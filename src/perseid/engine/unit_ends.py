"""The end of a unit's job: an epoch or a replay is done, or it failed. What is lost with it, and when it is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.notices import Outcome
from perseid.engine.recovery_steps import RETRY_PAUSE_LIMIT_MS, RETRY_PAUSE_MS
from perseid.vocabulary import Epoch, HostId, ShardId, UnitName

if TYPE_CHECKING:
    from perseid.engine.controller import Controller

UNREACHABLE_FAILURES = 3
UNREPORTED_RETRIES = 2  # each takes as long as reports are waited for, and the next is no better
SETBACKS_LIMIT = 100  # hosts that are lost again and again in one epoch: it may be the epoch that kills them


class UnitEnds:
    """Draws the controller's conclusions from them."""

    def __init__(self, controller: Controller) -> None:
        self._of = controller

    def handle(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[Outcome, ...]:
        of = self._of
        if event.attempt == of.scale_replay:
            return self._scale_replay_ended(event)
        if not of.pipeline.is_current(event.unit, event.attempt):
            return ()
        state = of.pipeline.units[event.unit]
        match event:
            case on.UnitFinished(unit, epoch):
                assert not state.replaying
                of.pipeline.finished(unit)
                return (do.CommitEpoch(unit, epoch), *of.released())
            case on.ReplayFinished(unit):
                of.pipeline.ended(unit)
                if of.recovering is not None:
                    of.recovering.replaying.discard(unit)
                return ()
            case on.UnitFailed():
                return self._failed(event)

    def _scale_replay_ended(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[Outcome, ...]:
        """Its shards are nobody's yet: nothing is lost with them."""
        of = self._of
        failure = event if isinstance(event, on.UnitFailed) else None
        if failure is not None:
            for host in failure.hosts:
                of.detector.suspected(host)
            of.error = failure.message if failure.kind == "fenced" else of.error
        return tuple(of.scale.replay_ended(failure))

    def _failed(self, event: on.UnitFailed) -> tuple[Outcome, ...]:
        of = self._of
        state = of.pipeline.units[event.unit]
        cancelled, replaying = state.cancelled, state.replaying
        of.pipeline.ended(event.unit)
        if replaying and of.recovering is not None and event.unit in of.recovering.replaying:
            of.recovering.restart(set(), event.message, of.now_ms)  # plan again: its shards are half fed
            of.recovering.failed_replays += event.kind != "cancelled"
        for host in event.hosts:
            of.detector.suspected(host)
        if event.kind == "fenced":
            of.error = event.message
            return ()
        commands: list[Outcome] = []
        known = of.recovering.lost if of.recovering is not None and not replaying else set[ShardId]()
        if event.kind in ("operator", "mistake", "poisoned") and not known.issuperset(event.shards):
            commands += of.recovery.lose(set(event.shards), event.message.splitlines()[0])
        elif event.kind == "released":
            commands += of.recovery.lose(set(of.routing.routes), event.message, everything=True)
        elif event.kind == "corrupt" and of.restored is not None:  # an in-flight epoch: the one before has its own
            of.checkpoints.discard(of.restored)
            of.restored = None
            commands += of.recovery.lose(set(of.routing.routes), event.message, everything=True)
        lost = of.recovering.reason if cancelled and of.recovering is not None else ""
        state.error = lost or (event.message.splitlines() or [event.kind])[0]
        gone = event.kind == "host" and not of.hosts.intersection(event.hosts)
        if (
            cancelled or gone or event.kind in ("poisoned", "cancelled")
        ):  # what was lost is recovered: that is no failure
            self._set_back(event.unit)
            return tuple(commands)
        state.failures += 1
        for host in event.hosts:
            state.blamed[host] = state.blamed.get(host, 0) + 1
        state.not_before_ms = of.now_ms + min(RETRY_PAUSE_MS * 2 ** (state.failures - 1), RETRY_PAUSE_LIMIT_MS)
        if state.failures >= UNREACHABLE_FAILURES:
            for host in event.hosts:  # its heart beats, and yet no task gets through to it
                state.blamed.pop(host, None)
                commands += of.bury(of.detector.lost(host, event.message, of.now_ms))
        limits = {
            "operator": of.settings.operator_retries,
            "mistake": 0,
            "storage": of.settings.storage_retries,
            "unreported": UNREPORTED_RETRIES,
        }
        finding = event.kind in ("operator", "mistake") and event.shards and of.settings.dead_letters and not replaying
        key, operators = (event.unit, Epoch(state.finished + 1)), {shard.operator for shard in event.shards}
        if finding and operators <= of.set_aside.get(key, set()):
            of.error = event.message  # no rows are to blame: it raises whatever is put aside
        elif state.failures > limits.get(event.kind, of.settings.epoch_retries):
            if finding:
                of.set_aside.setdefault(key, set()).update(operators)
                state.failures = 0
            else:
                of.error = event.message
        return tuple(commands)

    def host_died(self, host: HostId) -> None:
        """What failed because of it did not fail by itself."""
        for unit, state in self._of.pipeline.units.items():
            blamed = state.blamed.pop(host, 0)
            if blamed:
                state.failures -= blamed
                state.not_before_ms = state.not_before_ms if state.failures else 0
                self._set_back(unit, blamed)

    def _set_back(self, unit: UnitName, times: int = 1) -> None:
        """The epoch is tried again after a recovery; but not for ever, if it is the epoch that brings each of them about."""
        of = self._of
        state = of.pipeline.units[unit]
        state.setbacks += times
        if state.setbacks > SETBACKS_LIMIT:
            of.error = (
                f"unit {unit!r}: epoch {state.finished + 1} was tried {state.setbacks} times, and hosts or shards were lost"
                f" every time; does its operator end the process, or need more memory than a host has? The last: {state.error}"
            )
