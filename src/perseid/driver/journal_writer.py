"""Writes the journal of a run, and keeps the picture that ``progress()`` shows."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from perseid.driver.hosts import HostLink
from perseid.driver.loads import HotKey
from perseid.driver.reports import Report, Reports
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller, RootHistory
from perseid.engine.progress import CheckpointStatus, HostStatus, Progress
from perseid.errors import headline
from perseid.metrics.epoch_parts import EpochClock
from perseid.recovery.plan import ApplicationRecovery, replayed_epochs
from perseid.scaling.bottleneck import HostLoad
from perseid.sources.malformed import Aside
from perseid.storage.journal import Journal
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.records import Admitted
from perseid.vocabulary import Epoch, OperatorName, ShardId, UnitName

RATE_WINDOW_S = 5.0


class JournalWriter:
    """Records what happens."""

    def __init__(self, app: str, journal: Journal, reports: Reports) -> None:
        self._app, self._journal, self._reports = app, journal, reports
        self._lock = threading.Lock()
        self._rows: deque[tuple[float, int]] = deque()
        self._durations: deque[float] = deque(maxlen=31)
        self._begun: dict[Epoch, float] = {}
        self._units_done: dict[Epoch, int] = {}
        self._epoch_clock = EpochClock()
        self._epoch_rows: dict[Epoch, tuple[int, int, int]] = {}  # in, out, bytes of state after it
        self._checkpoint: dict[int, tuple[float, int]] = {}
        self._last_checkpoint: CheckpointStatus | None = None
        self._checkpoints = 0
        self._failed_checkpoints: dict[int, str] = {}
        self._checkpoint_error = ""
        self._starting = True
        self._restored_bytes: dict[ShardId, int] = {}  # of shards that have not applied an epoch since
        self._dead_letters: dict[tuple[ShardId, Epoch], int] = {}
        self._dead_letter_error = ""
        self._rows_in = self._rows_out = self._late = 0
        self._last_event = ""

    def record(self, kind: str, **fields: Any) -> None:
        self._journal.record(kind, **fields)

    def say(self, sentence: str) -> None:
        self._last_event = sentence

    def flush(self) -> None:
        self._journal.flush()

    def close(self) -> None:
        self._journal.close()

    def app_started(self, generation: int, controller: Controller, past: RootHistory, hosts: int, **shape: Any) -> None:
        best = past.checkpoints[0] if past.checkpoints else None
        if best is not None:
            size = sum(shard.file.bytes for shard in best.shards.values() if isinstance(shard, ShardSnapshot))
            self._last_checkpoint = CheckpointStatus(best.id, min(best.cuts.values()), size, None)
        self.record(
            "app_started",
            app=self._app,
            generation=generation,
            units=[u.name for u in controller.topology.units],
            operators={str(o): len(controller.routing.of(o)) for o in controller.topology.operators},
            hosts=hosts,
            restored=best.id if best else None,
            epoch=past.admitted,
            next_checkpoint=past.next_checkpoint,
            **shape,
        )

    # -- epochs ---------------------------------------------------------------------------------------------------

    def admitted(self, admitted: Admitted, rows: int | None, ms: float) -> None:
        self._begun[admitted.epoch] = time.monotonic()
        slices = {name: list(bounds) for name, bounds in admitted.slices.items()}
        more = {"ms": round(ms, 1)} | ({"last": True} if admitted.last else {})
        self.record("epoch_admitted", epoch=admitted.epoch, slices=slices, rows=rows, time_ms=admitted.time_ms, **more)

    def finished(
        self, unit: UnitName, admitted: Admitted, reports: Mapping[ShardId, Report], rows: int | None, units: int
    ) -> None:
        """A unit is done with an epoch; with the last unit the epoch is."""
        rows_in = rows if rows is not None else sum(r.rows_in for r in reports.values())
        rows_out = sum(r.rows_out for r in reports.values())
        for shard, report in reports.items():
            self._put_aside(shard, report)
        with self._lock:
            self._epoch_clock.finished(unit, admitted.epoch, reports, time.monotonic())
            before = self._epoch_rows.get(admitted.epoch, (0, 0, 0))
            state = before[2] + sum(
                r.state_bytes for r in reports.values()
            )  # as of this epoch, also if a unit is ahead
            total = self._epoch_rows[admitted.epoch] = (max(before[0], rows_in), before[1] + rows_out, state)
            self._late += sum(r.late_rows for r in reports.values())
            done = self._units_done[admitted.epoch] = self._units_done.get(admitted.epoch, 0) + 1
            if done < units:
                return
            self._units_done.pop(admitted.epoch, None)
            self._epoch_rows.pop(admitted.epoch, None)
            now = time.monotonic()
            begun = self._begun.pop(admitted.epoch, None)
            ms = round((now - begun) * 1000, 1) if begun is not None else None
            if ms is not None:
                self._durations.append(ms)
            self._rows_in += total[0]
            self._rows_out += total[1]
            self._rows.append((now, total[0]))
            parts = self._epoch_clock.taken(admitted.epoch)
        latest = list(self._reports.latest.values())
        self.record(
            "epoch_committed", epoch=admitted.epoch, ms=ms, rows_in=total[0], rows_out=total[1],
            state_bytes=total[2],
            worked_ms=round(sum(r.worked_ms for r in latest)), sizing_ms=round(sum(r.sizing_ms for r in latest), 3),
            time_ms=admitted.time_ms, **parts.as_json(ms),
        )  # fmt: skip

    def _put_aside(self, shard: ShardId, report: Report) -> None:
        """Once for every shard and epoch, however often the epoch is run."""
        known = self._dead_letters.get((shard, report.epoch), 0)
        if report.dead_letters <= known and not (
            report.timers_aside and (shard, report.epoch) not in self._dead_letters
        ):
            return
        self._dead_letters[shard, report.epoch] = report.dead_letters
        self._dead_letter_error = f"{shard.operator}, epoch {report.epoch}: {report.dead_letter_error}"
        self.record(
            "dead_letters", operator=shard.operator, shard=shard.index, epoch=report.epoch, rows=report.dead_letters,
            timers=report.timers_aside, error=report.dead_letter_error,
        )  # fmt: skip
        self.say(f"{report.dead_letters} rows put aside as dead letters: {self._dead_letter_error}")

    # -- commands and events that make the story ------------------------------------------------------------------

    def command(self, command: do.Command) -> None:
        match command:
            case do.DropHost(host, reason):
                self.record("host_lost", host=host, reason=reason)
                self.say(f"host {host} lost: {reason}")
            case do.RecoveryBegan(reason, plan):
                shards = [str(s) for s in plan.shards]
                self.record(
                    "recovery_started", reason=reason, mode=plan.name, shards=shards, checkpoint=plan.checkpoint,
                    lost_epochs=plan.lost_epochs if isinstance(plan, ApplicationRecovery) else 0,
                )  # fmt: skip
                self._starting = reason == "start"
                self._units_done.clear()
                with self._lock:
                    self._epoch_clock.restart()
                self._epoch_rows.clear()
            case do.ScaleBegan(request):
                self.record(
                    "scale_started", operator=request.operator, shards=len(request.slots), reason=request.reason
                )
            case do.ScaleEnded(request, before, pause_ms, ms):
                now = len(request.slots)
                self.record(
                    "scaled", operator=request.operator, before=before, shards=now, pause_ms=pause_ms, ms=ms,
                    slots=[list(slots) for slots in request.slots],
                )  # fmt: skip
                self.say(f"{request.operator} scaled from {before} to {now} shards, its input paused for {pause_ms} ms")
            case do.ScaleGivenUp(request, reason, again):
                self.record("scale_given_up", operator=request.operator, reason=reason, again=again)
                self.say(f"{request.operator} was not scaled: {reason}")
            case do.ReleaseHost(host):
                self.record("host_released", host=host)
            case do.RecoveryEnded(plan, ms, phases):
                self.record(
                    "recovery_finished", mode=plan.name, ms=ms, phases=dict(phases), replayed_epochs=replayed_epochs(plan),
                    start=self._starting,
                )  # fmt: skip
                count = f"{len(plan.shards)} {'shard' if len(plan.shards) == 1 else 'shards'}"
                if not self._starting:
                    self.say(f"recovered {count} in {ms} ms")
                elif plan.checkpoint is None:
                    self.say(f"started {count} with empty state in {ms} ms")
                else:
                    self.say(f"loaded {count} from checkpoint {plan.checkpoint} in {ms} ms")
                self._starting = False
            case do.RunEpoch(unit, epoch):
                with self._lock:
                    self._epoch_clock.began(unit, epoch, time.monotonic())
                self._begun.setdefault(epoch, time.monotonic())  # admitted by an earlier driver, or run once more
            case do.CheckpointBegan(checkpoint, decision):
                units = sorted(decision.units) if decision.units is not None else None
                self.record(
                    "checkpoint_decided", checkpoint=checkpoint, reason=decision.reason, units=units, **decision.facts
                )
            case do.Noted(kind, facts):
                self.record(kind, **facts)
            case do.TakeSnapshots(host, checkpoint, unit, epoch, synchronous=synchronous):
                if checkpoint not in self._checkpoint:
                    self._checkpoint[checkpoint] = (time.monotonic(), epoch)
                    self.record("checkpoint_started", checkpoint=checkpoint, epochs={unit: epoch})
                self.record(
                    "snapshots_ordered",
                    checkpoint=checkpoint,
                    host=host,
                    unit=unit,
                    epoch=epoch,
                    synchronous=synchronous,
                )
            case do.AbortCheckpoint(checkpoint, reason):
                self.checkpoint_failed(checkpoint, reason)
            case do.Trim(_, oldest):
                self.record("trimmed", epoch=min(oldest.cuts.values()))
            case do.RestoreShards(host, _, shards):
                self.record("shards_assigned", host=host, shards=[str(route.shard) for route, _, _ in shards])

    def event(self, event: on.Event) -> None:
        match event:
            case on.UnitFailed(kind="cancelled"):
                pass
            case on.UnitFailed(unit, epoch, attempt, kind, message, _, shards):
                self.record("epoch_failed", epoch=epoch, unit=unit, attempt=attempt, error=message)
                for shard in shards if kind in ("operator", "mistake") else ():
                    self.record(
                        "operator_failed", operator=shard.operator, shard=shard.index, epoch=epoch, error=message
                    )
                    self.say(message.splitlines()[0])
            case on.SnapshotsForked(host, checkpoint, unit):
                self.record("snapshots_forked", checkpoint=checkpoint, host=host, unit=unit)
            case on.CheckpointFailed(checkpoint, message):
                self.checkpoint_failed(checkpoint, message)

    def warning(self, message: str) -> None:
        self.record("warning", message=message)
        self.say(message)

    def malformed(self, source: str, epoch: Epoch, aside: Aside) -> None:
        self.record(
            "malformed_lines",
            source=source,
            epoch=epoch,
            lines=aside.lines,
            files=list(aside.files[:10]),
            first=aside.first,
        )
        self.say(f"source {source}: {aside.lines:,} lines do not fit the schema and were put aside as dead letters")

    def hot_key(self, hot: HotKey) -> None:
        self.record("hot_key", operator=hot.operator, key=hot.key, share=hot.share)
        self.say(
            f"{hot.operator}: key {hot.key} has {hot.share:.0%} of the rows, and one key is never divided: let Spark add its rows"
            " up first (combine=), or make it several keys"
        )

    def host_load(self, load: HostLoad, message: Mapping[str, Any]) -> None:
        """What a host had to do since it said so last."""
        shards = {
            f"{said['shard'][0]}/{said['shard'][1]}": {
                "busy": round(load.shards.get(shard, 0.0), 3),
                "rows": said["rows"],
            }
            for said in message["shards"]
            for shard in [ShardId(OperatorName(said["shard"][0]), said["shard"][1])]
        }
        self.record("host_load", host=load.host, cpu=load.cpu, memory=message.get("memory"), shards=shards)

    def host_ready(self, link: HostLink) -> None:
        self.record("host_ready", host=link.id, pid=link.process.pid, address=str(link.address))

    def snapshot_written(self, checkpoint: int, message: Mapping[str, Any]) -> None:
        name = f"{message['shard'][0]}/{message['shard'][1]}"
        self.record(
            "snapshot_written", checkpoint=checkpoint, shard=name, bytes=message["file"]["bytes"], ms=message["ms"],
            serialise_ms=message["serialise_ms"], sync_ms=message.get("sync_ms"),
        )  # fmt: skip

    def inflight_saved(self, checkpoint: int, stream: str, epoch: int, size: int) -> None:
        self.record("inflight_saved", checkpoint=checkpoint, stream=stream, epoch=epoch, bytes=size)

    def checkpoint_failed(self, checkpoint: int, error: str) -> None:
        """Told by whoever could not write, and again when it is given up: it is one failure."""
        if checkpoint in self._failed_checkpoints:
            return
        self._failed_checkpoints[checkpoint] = error
        self._checkpoint_error = f"checkpoint {checkpoint} failed: {headline(error)}"
        self.record("checkpoint_failed", checkpoint=checkpoint, error=error)
        self.say(self._checkpoint_error)

    def restored(self, sizes: Iterable[tuple[str, int, int]]) -> None:
        """Shards are back, so large."""
        self._restored_bytes |= {ShardId(OperatorName(operator), index): size for operator, index, size in sizes}

    def checkpoint_committed(self, checkpoint: int, epoch: int, size: int) -> None:
        begun, _ = self._checkpoint.pop(checkpoint, (time.monotonic(), 0))
        ms = round((time.monotonic() - begun) * 1000)
        self._last_checkpoint = CheckpointStatus(checkpoint, epoch, size, ms)
        self._checkpoints += 1
        self._checkpoint_error = ""
        self.record("checkpoint_committed", checkpoint=checkpoint, bytes=size, ms=ms)

    # -- the picture ----------------------------------------------------------------------------------------------

    def progress(self, controller: Controller, links: list[HostLink], trouble: str) -> Progress:
        routing = controller.routing
        sizes = {shard: report.state_bytes for shard, report in list(self._reports.latest.items())}
        sizes = {shard: size for shard, size in self._restored_bytes.items() if shard in routing.routes} | sizes
        hosts = tuple(
            HostStatus(
                link.id,
                link.process.pid,
                str(link.address),
                not link.dropped,
                tuple(str(s) for s in routing.shards_on(link.id)),
                sum(sizes.get(s, 0) for s in routing.shards_on(link.id)),
            )
            for link in links
        )
        with self._lock:
            now = time.monotonic()
            while self._rows and now - self._rows[0][0] > RATE_WINDOW_S:
                self._rows.popleft()
            durations = sorted(self._durations)
            span = min(RATE_WINDOW_S, now - self._rows[0][0]) if self._rows else 0.0
            return Progress(
                app=self._app,
                phase=controller.phase,
                epoch=controller.pipeline.committed,
                rows_in=self._rows_in,
                rows_out=self._rows_out,
                rows_per_s=sum(n for _, n in self._rows) / span if span > 0.2 else 0.0,
                epoch_ms=durations[len(durations) // 2] if durations else 0.0,
                state_bytes=sum(sizes.values()),
                late_rows=self._late,
                dead_letters=sum(self._dead_letters.values()),
                dead_letter_error=self._dead_letter_error,
                checkpoints=self._checkpoints,
                last_checkpoint=self._last_checkpoint,
                failed_checkpoints=len(self._failed_checkpoints),
                checkpoint_error=self._checkpoint_error,
                hosts=hosts,
                spares=sum(not h.shards for h in hosts),
                faults=controller.faults,
                trouble=trouble,
                last_event=self._last_event,
                units={str(u): int(s.finished) for u, s in controller.pipeline.units.items()},
            )
