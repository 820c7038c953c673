"""The controller: events in, commands out. No clock, no thread, no socket, no file, no Spark.

After every event it looks at what is true now and commands what follows from it (``_advance``), so that no order of events can
make it forget something. Shells (Spark, simulation) carry the commands out and tell what came of them.

Its parts are machines of their own, none of which knows the controller: each owns its state, sees the rest as a frozen ``View``, and
returns commands and changes. All changes are made in one place (``make_changes``), and only ``handle`` begins one.

Invariants, checked by ``check``: a unit with lost shards runs nothing but replays; routing covers every slot; no unit is ahead of
the one above it; a checkpoint is pending only while nothing is lost; nothing is scaled while something is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from perseid.checkpoint.size_reports import SizeReport
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller_state import ControllerState
from perseid.engine.make_changes import hosts_died, make, trim
from perseid.engine.notices import Outcome
from perseid.engine.unit_ends import unit_failed
from perseid.standby.placement import Place
from perseid.vocabulary import Epoch, UnitName

FINAL_CHECKPOINTS = 3


@dataclass(slots=True)
class Controller(ControllerState):
    """Decides everything that is not data."""

    # -- events ---------------------------------------------------------------------------------------------------

    def handle(self, event: on.Event, now_ms: int) -> tuple[Outcome, ...]:
        """Take in one event; return what must be done."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        if self.phase in ("stopped", "failed"):
            return ()
        partial = False  # is this a part of something that is not yet whole? Then nothing follows from it yet
        match event:  # first those of which every host, or every shard, has its own
            case on.HeartbeatArrived():
                self.detector.heartbeat_arrived(event.host, self.now_ms)
                return ()  # nothing follows from it; there are more of them than of all else together
            case on.HeartbeatsArrived(silent):
                self.detector.heartbeats_arrived(self.now_ms, silent=silent)
                return ()
            case on.SnapshotWritten():
                commands = self.checkpoints.written(event)
                partial = self.checkpoints.incomplete(event.checkpoint)
            case on.SnapshotsForked():
                self.detector.work_ended(event.host, self.now_ms)
                commands = self.checkpoints.forked(event)
                partial = self.checkpoints.still_forking(event)
            case on.SizesReported():
                commands = self._sized(event)
                partial = not commands  # with the last of them a policy has something to say
            case on.LoadReported():
                commands = self._loaded(event)
                partial = not commands
            case _:
                commands = self._take_in(event)
        return commands if partial else (*commands, *self._advance())

    def _sized(self, report: SizeReport) -> tuple[Outcome, ...]:
        return self.checkpoints.sized(report, self.now_ms) if self.recovering is None else ()

    def _loaded(self, event: on.LoadReported) -> tuple[Outcome, ...]:
        wanted = self.recovering is None and not self.stopping
        return make(self, self.scale.loaded(event.load, self.routing)) if wanted else ()

    def _take_in(self, event: on.RareEvent) -> tuple[Outcome, ...]:
        match event:
            case on.SizeHalved() | on.SizeTurned():
                return self._sized(event)
            case on.Ticked():
                patience = self.standby.patience_ms(self.routing) if self.standby.used else {}
                died = hosts_died(self, self.detector.tick(self.now_ms, patience))
                self.error = self.error or self.starts.looked(
                    len(self.hosts), self.now_ms, starting=self.phase == "starting"
                )
                return died
            case on.HostRegistered(host, machine, executor):
                self.starts.registered()
                self.hosts |= {host}
                self.detector.host_registered(host, self.now_ms)
                return make(self, self.standby.host_registered(host, Place(machine, executor), self.view()))
            case on.HostStartFailed(reason, hopeless):
                self.error = self.error or self.starts.failed(reason, hopeless, self.now_ms)
            case on.HostDisconnected(host, reason):
                return hosts_died(self, self.detector.lost(host, reason, self.now_ms))
            case on.EpochAdmitted(epoch):
                self.admitting, self.sources_idle = False, False
                self.pipeline.admitted = max(self.pipeline.admitted, epoch)
            case on.NothingToAdmit(finished):
                self.admitting, self.sources_idle = False, True
                if finished:
                    self.stopping = True
            case on.UnitFinished() | on.UnitFailed() | on.ReplayFinished():
                return self._unit_ended(event)
            case on.ShardsRestored(host):
                self.detector.work_ended(host, self.now_ms)
                self.scale.shards_ready(event)
                self.recovery.shards_restored(event, self.now_ms)
            case on.RestoreFailed(host):
                self.detector.work_ended(host, self.now_ms)
                scale = make(self, self.scale.restore_failed(event, self.view()))
                return (*scale, *make(self, self.recovery.restore_failed(event, self.view())))
            case on.CheckpointRequested(number):
                return make(self, self.asked.checkpoint(number, self.view()))
            case on.RestoreRequested(number, operator):
                return make(self, self.asked.restore(number, operator, self.view()))
            case on.ScaleRequested(request):
                return make(self, self.scale.requested(request, self.view()))
            case on.ShardsCaughtUp(host):
                self.detector.work_ended(host, self.now_ms)
                self.scale.shards_ready(event)
            case on.PartitionWritten():
                scale = make(self, self.scale.partition_written(event, self.view()))
                return (*scale, *make(self, self.recovery.partition_written(event, self.view())))
            case on.InflightSaved():
                return self.checkpoints.inflight_saved(event)
            case on.CheckpointFailed():
                return self._checkpoint_failed(event)
            case on.CheckpointCommitted():
                trims, following = self.checkpoints.committed(event)
                self.trims += trims
                self.covered_now()
                self.detector.trouble_ended()
                return (*following, *trim(self))
            case on.StopRequested():
                self.stopping = True
            case (
                on.HostSilent()
                | on.HostHeard()
                | on.CopyTaken()
                | on.CopyNotTaken()
                | on.CopyMissing()
                | on.CopiesStand()
                | on.AnswerDiffered()
                | on.StandbyRequested()
            ):
                return make(self, self.standby.handle(event, self.view()))
            case on.FatalError(message):
                self.error = self.error or message
            case _:
                assert_never(event)
        return ()

    def _unit_ended(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[Outcome, ...]:
        if event.attempt == self.scale.attempt:
            return self._scale_replay_ended(event)
        if not self.pipeline.is_current(event.unit, event.attempt):
            return ()
        match event:
            case on.UnitFinished(unit, epoch):
                assert not self.pipeline.units[unit].replaying
                self.acknowledgements.done(unit, self.pipeline.finished(unit))
                used = self.standby.used
                copies = make(self, self.standby.unit_finished(unit, epoch, self.view())) if used else ()
                return (do.CommitEpoch(unit, epoch), *self.released(), *copies)
            case on.ReplayFinished(unit):
                self.pipeline.ended(unit)
                self.recovery.replay_finished(unit)
                return ()
            case on.UnitFailed():
                return make(self, unit_failed(event, self.view()))
            case _:
                assert_never(event)

    def _scale_replay_ended(self, event: on.UnitFinished | on.UnitFailed | on.ReplayFinished) -> tuple[Outcome, ...]:
        """Its shards are nobody's yet: nothing is lost with them."""
        failure = event if isinstance(event, on.UnitFailed) else None
        if failure is not None:
            for host in failure.hosts:
                self.detector.suspected(host)
            self.error = failure.message if failure.kind == "fenced" else self.error
        return make(self, self.scale.replay_ended(failure, self.view()))

    def _checkpoint_failed(self, event: on.CheckpointFailed) -> tuple[Outcome, ...]:
        host, message = event.host, event.message
        if host is not None:
            self.detector.work_ended(host, self.now_ms)
        commands = self.checkpoints.failed(event)
        if commands is None:
            return ()
        if self.stopping:
            self.final_failures, self.final_failure = self.final_failures + 1, message
        deaths = self.detector.trouble_reported(host, message, self.now_ms) if host is not None else ()
        return (*commands, *hosts_died(self, deaths))

    # -- what follows from what is true now -----------------------------------------------------------------------

    def _advance(self) -> tuple[Outcome, ...]:
        if self.error is not None:
            return self._end()
        commands: list[Outcome] = []
        if self.starts.may_ask(self.now_ms):
            missing = self.pool.to_start(len(self.hosts), self.starts.coming)
            self.starts.requested(missing)
            commands += [do.StartHost()] * missing
        if self.recovery.current is not None:
            commands += self._recover()
        if self.standby.used and self.phase != "starting":
            commands += make(self, self.standby.advance(self.view()))
        used = self.standby.used
        launching = self.standby.launching if used else frozenset[UnitName]()
        if self.recovery.current is None:
            self.phase = "stopping" if self.stopping else "running"
            if self.scale.current is not None:
                commands += make(self, self.scale.advance(self.view()))
            if self.scale.current is None or not self.scale.current.stands_on_checkpoint:
                if self.asked.open:
                    commands += make(self, self.asked.advance(self.view()))
                # Somebody who waits until none is on its way would wait for ever if each began before another ends.
                awaited = self.scale.current is not None or self.asked.checkpoints
                if not (awaited and self.checkpoints.busy) and not launching:
                    commands += self.checkpoints.start_if_due(self.now_ms, self.pipeline, self.routing)
        commands += self._run(self.standby.waiting_units if used else launching)
        if len(self.hosts) > self.pool.size:
            commands += make(self, self.scale.hosts_to_release(self.view()))
        under_way = self.recovering or self.scaling or self.admitting or launching
        if self.stopping and not under_way and self.pipeline.quiet:
            commands += self._finish()
        return tuple(commands)

    def _recover(self) -> list[Outcome]:
        """The next step of the recovery; the one after it, too, if nobody has to answer first."""
        if self.phase != "starting":
            self.phase = "recovering"
        planned = self.recovery.planned
        commands = [*make(self, self.recovery.advance(self.view()))]
        if not planned and self.recovery.at_once:
            commands += make(self, self.recovery.advance(self.view()))
        return commands

    def _run(self, held: frozenset[UnitName]) -> list[Outcome]:
        recovering, scaling = self.recovery.current, self.scale.current
        commands: list[Outcome] = []
        if self.phase == "starting":
            return commands
        waiting = set(held)
        if recovering is not None:
            everything = recovering.everything
            waiting |= set(self.pipeline.units) if everything else self.topology.units_of(recovering.lost)
        else:
            commands += self._snapshots()
            if scaling is not None and scaling.holds:
                waiting |= {scaling.unit}
        for unit in self.pipeline.units:
            epoch = self.pipeline.may_run(unit, self.now_ms)
            if epoch is None or unit in waiting or self.checkpoints.holds_back(unit, epoch, self.now_ms):
                continue
            again = epoch <= self.pipeline.units[unit].tried
            if again and waiting & self.topology.above(unit):
                continue  # it may have to ask them once more, which have no answer yet
            attempt = self.pipeline.started(unit, epoch)
            commands.append(
                do.RunEpoch(
                    unit,
                    epoch,
                    attempt,
                    self.routing,
                    release=self.pipeline.consumed(unit),
                    release_covered=self._covered(unit),
                    set_aside=self.set_aside.get((unit, epoch), frozenset()),
                    find=self.settings.dead_letters,
                    again=again,
                )
            )
        if self.pipeline.may_admit() and not (self.admitting or self.stopping or recovering):
            self.admitting, self.abandoning = True, False
            commands.append(do.AdmitEpoch(Epoch(self.pipeline.admitted + 1)))
        elif self.admitting and self.stopping and not self.abandoning:
            self.abandoning = True
            commands.append(do.AbandonAdmission())
        return commands

    def _covered(self, unit: UnitName) -> Epoch:
        """Up to where a checkpoint covers a unit's answers: the newest, or the one from which units below are on their way back."""
        recovering = self.recovery.current
        checkpoint = self.checkpoints.newest
        if recovering is not None and recovering.plan is not None:
            checkpoint = self.recovery.chosen(recovering.plan, self.checkpoints.completed)
        return checkpoint.own_cut(unit) if checkpoint else Epoch(0)

    def _snapshots(self) -> tuple[Outcome, ...]:
        commands = (
            *self.checkpoints.snapshots_due(self.pipeline, self.routing),
            *self.checkpoints.saves_due(self.pipeline),
        )
        for command in commands:
            if isinstance(command, do.TakeSnapshots):
                size = self.checkpoints.last_size(command.unit, command.shards)
                self.detector.work_began(command.host, self.now_ms, size)
        return commands

    def _finish(self) -> list[Outcome]:
        """Everything admitted is done: one last checkpoint, so that the next start has nothing to replay; then stop."""
        if self.checkpoints.pending:
            return []
        if not self.settings.final_checkpoint or not self.checkpoints.worthwhile(self.pipeline):
            return list(self._end())
        if self.final_failures >= FINAL_CHECKPOINTS:
            return list(self._end(unsaved=self.final_failure))
        return [*self.checkpoints.last(self.now_ms, self.pipeline, self.routing), *self._snapshots()]

    def _end(self, unsaved: str | None = None) -> tuple[Outcome, ...]:
        self.phase = "failed" if self.error else "stopped"
        return (do.StopApplication(self.error, unsaved),)
