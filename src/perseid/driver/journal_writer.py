"""Writes the journal of a run, and keeps the picture that ``progress()`` shows."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from perseid.driver.hosts import HostLink
from perseid.driver.loads import HotKey
from perseid.driver.reports import Report, Reports
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.controller import Controller
from perseid.engine.messages import LoadMeasured, Saved
from perseid.engine.notices import Notice, Outcome, noticed
from perseid.engine.progress import CheckpointStatus, EpochStatus, HostStatus, Progress, StandbyStatus
from perseid.engine.settings import RootHistory
from perseid.errors import headline
from perseid.metrics.epoch_parts import EpochClock
from perseid.metrics.logs import log
from perseid.metrics.progress_feed import ProgressFeed
from perseid.recovery.plan import ApplicationRecovery
from perseid.scaling.bottleneck import HostLoad
from perseid.sources.malformed import Aside
from perseid.storage.journal import Journal
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.records import Admitted
from perseid.vocabulary import CheckpointId, Epoch, Generation, HostId, OperatorName, ShardId, SourceName, UnitName

RATE_WINDOW_S = 5.0
RECENT_EPOCHS = 100  # as many as Spark keeps of a query's progress


class Shape(NamedTuple):
    """What a picture of the application needs."""

    graph: list[dict[str, Any]]  # ``graph.outline``
    scheme: str
    period_ms: int


@dataclass(frozen=True, slots=True)
class _Done:
    """What a unit made of an epoch."""

    rows_in: int
    rows_out: int
    state: int
    late: int


class JournalWriter:
    """Records what happens."""

    def __init__(self, app: str, journal: Journal, reports: Reports) -> None:
        self._app, self._journal, self._reports = app, journal, reports
        self._lock = threading.Lock()
        self._rows: deque[tuple[float, int]] = deque()
        self._durations: deque[float] = deque(maxlen=31)
        self._begun: dict[Epoch, float] = {}
        self._done: dict[Epoch, dict[UnitName, _Done]] = {}  # epochs on their way
        self._epoch_clock = EpochClock()
        self._checkpoint: dict[int, tuple[float, int]] = {}
        self._last_checkpoint: CheckpointStatus | None = None
        self._checkpoints = 0
        self._failed_checkpoints: dict[int, str] = {}
        self._checkpoint_error = ""
        self._restored_bytes: dict[ShardId, int] = {}  # of shards that have not applied an epoch since
        self._dead_letters: dict[tuple[ShardId, Epoch], int] = {}
        self._dead_letter_error = ""
        self._rows_in = self._rows_out = self._late = 0
        self._recent: deque[EpochStatus] = deque(maxlen=RECENT_EPOCHS)
        self._last_event = ""
        self._started: tuple[notices.AppStarted, Controller] | None = None
        self._alive: dict[HostId, notices.HostReady] = {}
        self._switches = self._roll_backs = 0
        self._switched: dict[HostId, HostId] = {}  # primaries, and who answers for them
        self._last_switch = ""
        self.feed: ProgressFeed | None = None  # who wants to hear of epochs

    def say(self, sentence: str) -> None:
        self._last_event = sentence

    def flush(self) -> None:
        self._journal.flush()

    def close(self) -> None:
        self._journal.close()

    def app_started(
        self, generation: Generation, controller: Controller, past: RootHistory, hosts: int, shape: Shape
    ) -> None:
        best = past.checkpoints[0] if past.checkpoints else None
        if best is not None:
            size = sum(shard.file.bytes for shard in best.shards.values() if isinstance(shard, ShardSnapshot))
            self._last_checkpoint = CheckpointStatus(best.id, min(best.cuts.values()), size, None)
        operators = {operator: len(controller.routing.of(operator)) for operator in controller.topology.operators}
        units = tuple(unit.name for unit in controller.topology.units)
        restored = best.id if best else None
        started = notices.AppStarted(
            self._app, generation, units, operators, hosts, restored, past.admitted, past.next_checkpoint, *shape
        )
        self._started, self._journal.continued = (started, controller), self._continued
        self.notice(started)

    def _continued(self) -> tuple[str, dict[str, Any]]:
        """What the next file of the journal begins with."""
        assert self._started is not None
        started, controller = self._started
        places = {shard: route.host for shard, route in controller.routing.routes.items() if route.host is not None}
        said = notices.JournalContinues(started, tuple(self._alive.copy().values()), places)
        return said.kind, said.record()

    # -- epochs ---------------------------------------------------------------------------------------------------

    def admitted(
        self, admitted: Admitted, counts: Mapping[SourceName, tuple[int | None, int | None]], ms: float
    ) -> None:
        """``counts``: of every source the rows in the epoch, and those that wait for a later one."""
        self._begun[admitted.epoch] = time.monotonic()
        known = [rows for rows, _ in counts.values() if rows is not None]
        rows = sum(known) if len(known) == len(counts) else None
        last = bool(admitted.last)
        self.notice(
            notices.EpochAdmitted(admitted.epoch, admitted.slices, rows, admitted.time_ms, round(ms, 1), last, counts)
        )

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
            state = sum(r.state_bytes for r in reports.values())  # as of this epoch, also if a unit is ahead
            late = sum(r.late_rows for r in reports.values())
            done = self._done.setdefault(admitted.epoch, {})
            done[unit] = _Done(rows_in, rows_out, state, late)
            if len(done) < units:
                return
            del self._done[admitted.epoch]
            of_units = done.values()
            total = (
                max(d.rows_in for d in of_units),
                sum(d.rows_out for d in of_units),
                sum(d.state for d in of_units),
            )
            late = sum(d.late for d in of_units)
            now = time.monotonic()
            begun = self._begun.pop(admitted.epoch, None)
            ms = round((now - begun) * 1000, 1) if begun is not None else None
            if ms is not None:
                self._durations.append(ms)
            self._rows_in += total[0]
            self._rows_out += total[1]
            self._rows.append((now, total[0]))
            parts = self._epoch_clock.taken(admitted.epoch)
            self._late += late
            self._recent.append(EpochStatus(admitted.epoch, admitted.time_ms, ms, *total[:2], late, total[2]))
        latest = list(self._reports.latest.values())
        worked_ms, sizing_ms = sum(r.worked_ms for r in latest), sum(r.sizing_ms for r in latest)
        self.notice(
            notices.EpochCommitted(
                admitted.epoch, ms, *total, round(worked_ms), round(sizing_ms, 3), admitted.time_ms, **parts.as_json(ms)
            )
        )

    def _put_aside(self, shard: ShardId, report: Report) -> None:
        """Once for every shard and epoch, however often the epoch is run."""
        known = self._dead_letters.get((shard, report.epoch), 0)
        if report.dead_letters <= known and not (
            report.timers_aside and (shard, report.epoch) not in self._dead_letters
        ):
            return
        self._dead_letters[shard, report.epoch] = report.dead_letters
        self._dead_letter_error = f"{shard.operator}, epoch {report.epoch}: {report.dead_letter_error}"
        rows, timers, error = report.dead_letters, report.timers_aside, report.dead_letter_error
        self.notice(notices.DeadLetters(shard.operator, shard.index, report.epoch, rows, timers, error))
        self.say(f"{report.dead_letters} rows put aside as dead letters: {self._dead_letter_error}")

    # -- what the controller is told, and returns -----------------------------------------------------------------

    def command(self, command: Outcome) -> None:
        match command:
            case do.RunEpoch(unit, epoch):
                with self._lock:
                    self._epoch_clock.began(unit, epoch, time.monotonic())
                self._begun.setdefault(epoch, time.monotonic())  # admitted by an earlier driver, or run once more
            case do.TakeSnapshots(_, checkpoint, unit, epoch) if checkpoint not in self._checkpoint:
                self._checkpoint[checkpoint] = (time.monotonic(), epoch)
                self.notice(notices.CheckpointStarted(checkpoint, {unit: epoch}))
        for notice in noticed(command):
            self.notice(notice)

    def event(self, event: on.Event) -> None:
        for notice in noticed(event):
            self.notice(notice)

    def notice(self, notice: Notice) -> None:
        """Into the journal; what matters most is said in ``progress()``, too."""
        match notice:
            case notices.CheckpointFailed(checkpoint, error):
                if checkpoint in self._failed_checkpoints:
                    return  # told by whoever could not write, and again when it is given up: it is one failure
                self._failed_checkpoints[checkpoint] = error
                self._checkpoint_error = f"checkpoint {checkpoint} failed: {headline(error)}"
                self.say(self._checkpoint_error)
            case notices.HostReady(host):
                self._alive[host] = notice
            case notices.HostReleased(host):
                self._alive.pop(host, None)
            case notices.HostLost(host, reason):
                self._alive.pop(host, None)
                self.say(f"host {host} lost: {reason}")
            case notices.RecoveryStarted(_, ApplicationRecovery()):
                with self._lock:
                    self._epoch_clock.restart()
                    self._done.clear()
            case notices.RecoveryFinished(plan, ms, _, start):
                count = f"{len(plan.shards)} {'shard' if len(plan.shards) == 1 else 'shards'}"
                if not start:
                    self.say(f"recovered {count} in {ms} ms")
                elif plan.checkpoint is None:
                    self.say(f"started {count} with empty state in {ms} ms")
                else:
                    self.say(f"loaded {count} from checkpoint {plan.checkpoint} in {ms} ms")
            case notices.Scaled(request, before, pause_ms):
                now = len(request.slots)
                self.say(f"{request.operator} scaled from {before} to {now} shards, its input paused for {pause_ms} ms")
            case notices.ScaleGivenUp(request, reason):
                self.say(f"{request.operator} was not scaled: {reason}")
            case notices.Switched(primary, copy, silent_ms=silent_ms, reason=reason):
                self._switches += self._switched.get(primary) != copy  # every unit of a host tells of its own
                self._switched[primary] = copy
                silent = f"silent for {silent_ms} ms, " if silent_ms else ""
                self._say_switch(f"host {copy} answers instead of host {primary} ({silent}{reason})")
            case notices.Swapped(primary, copy, reason):
                self._say_switch(f"host {copy} is the primary instead of host {primary} ({reason})")
            case notices.RolledBack(primary, copy):
                self._roll_backs += self._switched.pop(primary, None) is not None
                self._say_switch(f"host {primary} answers again instead of host {copy}")
            case notices.GivenUp(host, promoted, reason):
                self._switched.pop(host, None)
                self._say_switch(f"host {host} is replaced for good by host {promoted}: {reason}")
            case notices.OperatorFailed(error=error):
                self.say(error.splitlines()[0])
            case notices.Warning(message):
                self.say(message)
        record = notice.record()
        self._journal.record(notice.kind, **record)
        log(notice.kind, record)
        if self.feed is not None:
            self.feed.told(notice.kind, record)

    def _say_switch(self, sentence: str) -> None:
        self._last_switch = sentence
        self.say(sentence)

    def warning(self, message: str) -> None:
        self.notice(notices.Warning(message))

    def malformed(self, source: str, epoch: Epoch, aside: Aside) -> None:
        self.notice(notices.MalformedLines(source, epoch, aside.lines, tuple(aside.files[:10]), aside.first))
        self.say(f"source {source}: {aside.lines:,} lines do not fit the schema and were put aside as dead letters")

    def hot_key(self, hot: HotKey) -> None:
        self.notice(notices.HotKey(OperatorName(hot.operator), hot.key, hot.share))
        self.say(
            f"{hot.operator}: key {hot.key} has {hot.share:.0%} of the rows, and one key is never divided: let Spark add its rows"
            " up first (combine=), or make it several keys"
        )

    def host_load(self, load: HostLoad, measured: LoadMeasured) -> None:
        """What a host had to do since it said so last."""
        shards = {
            str(one.shard): {"busy": round(load.shards.get(one.shard, 0.0), 3), "rows": one.rows}
            for one in measured.shards
        }
        self.notice(notices.HostLoad(load.host, load.cpu, measured.memory, shards))

    def host_ready(self, link: HostLink) -> None:
        self.notice(notices.HostReady(link.id, link.process.pid, str(link.address)))

    def snapshot_written(self, saved: Saved) -> None:
        snapshot = saved.snapshot
        assert isinstance(snapshot, ShardSnapshot)
        shard = ShardId(snapshot.operator, snapshot.index)
        size = snapshot.file.bytes
        self.notice(notices.SnapshotWritten(saved.checkpoint, shard, size, saved.ms, saved.serialise_ms, saved.sync_ms))

    def restored(self, sizes: Mapping[ShardId, int]) -> None:
        """Shards are back, so large."""
        self._restored_bytes.update(sizes)

    def checkpoint_committed(self, checkpoint: CheckpointId, epoch: int, size: int) -> None:
        begun, _ = self._checkpoint.pop(checkpoint, (time.monotonic(), 0))
        ms = round((time.monotonic() - begun) * 1000)
        self._last_checkpoint = CheckpointStatus(checkpoint, epoch, size, ms)
        self._checkpoints += 1
        self._checkpoint_error = ""
        self.notice(notices.CheckpointCommitted(checkpoint, size, ms))

    def recent_epochs(self) -> tuple[EpochStatus, ...]:
        with self._lock:
            return tuple(self._recent)

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
                standby=_standby(controller),
                switches=self._switches,
                roll_backs=self._roll_backs,
                last_switch=self._last_switch,
                faults=controller.faults,
                trouble=trouble,
                last_event=self._last_event,
                units={str(u): int(s.finished) for u, s in controller.pipeline.units.items()},
            )


def _standby(controller: Controller) -> tuple[StandbyStatus, ...]:
    """The pairs there are, and how far the hindmost of both hosts is behind."""
    units = controller.pipeline.units
    found = []
    for one in list(controller.standby.pairs):
        pair, finished = one.pair, max((units[unit].finished for unit in one.units), default=0)
        lag = max(0, finished - pair.stands) if pair.phase in ("guarded", "switched", "returning") else None
        shards = tuple(str(shard) for shard in one.shards)
        found.append(StandbyStatus(pair.primary, pair.copy, pair.standby.mode, pair.phase, shards, lag))
    return tuple(found)
