"""From journal records to the picture of a root. The only module of the dashboard that knows what records look like.

Pure: a record in, the picture changed. A record of an unknown kind is told in the incident that is open; one that lacks a field (it was
written by another version) is counted, and changes nothing else.

Invariant: taking in the same records, in one go or one by one, gives the same picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perseid.cli.journal_text import PHASES, sentence, tone
from perseid.dashboard.picture import (
    KEPT_CHECKPOINTS,
    Checkpoint,
    Host,
    Node,
    Picture,
    Shard,
    SnapshotPart,
    Told,
)
from perseid.dashboard.standby_model import StandbyModel
from perseid.dashboard.stories import Stories
from perseid.errors import headline

Record = Mapping[str, Any]
UNKNOWN = float("nan")


class JournalModel:
    """The picture of one root, as far as its journal was read."""

    def __init__(self) -> None:
        self.picture = Picture()
        self.stories = Stories(self.picture)
        self.standby = StandbyModel(self.picture, self.stories)
        self._admission: dict[int, Record] = {}  # of epochs that are not committed
        self._delays: dict[str, int] = {}
        self._watermarks: dict[str, int] = {}
        self._scaling: dict[str, list[str]] = {}  # operator → shards on their way
        self._take: dict[str, Callable[[Record, int], None]] = {
            "app_started": self._app_started, "app_stopped": self._app_stopped, "journal_continues": self._journal_continues,
            "host_ready": self._host_ready, "host_lost": self._host_lost, "host_released": self._host_gone,
            "host_load": self._host_load, "hot_key": self._hot_key,
            "shards_assigned": self._shards_assigned,
            "recovery_started": self._recovery_started, "recovery_finished": self._recovery_finished,
            "scale_started": self._scale_started, "scaled": self._scaled, "scale_given_up": self._scale_given_up,
            "epoch_admitted": self._epoch_admitted, "epoch_committed": self._epoch_committed,
            "epoch_failed": self._failure, "operator_failed": self._failure,
            "checkpoint_decided": self._checkpoint_decided, "checkpoint_started": self._checkpoint_started,
            "snapshots_ordered": self._snapshots_ordered, "snapshots_forked": self._snapshots_begun,
            "snapshot_awaited": self._snapshot_awaited, "snapshot_written": self._snapshot_written,
            "inflight_saved": self._inflight_saved, "checkpoint_committed": self._checkpoint_committed,
            "checkpoint_failed": self._checkpoint_failed, "profiled": self._profiled,
            "dead_letters": self._dead_letters, "malformed_lines": self._malformed_lines,
            "warning": self._warning, "journal_dropped": self._warning, "period_too_short": self._warning,
            "trimmed": self._nothing, "backed_up": self._nothing,
            "shards_restored": self._told, "alert_began": self._nothing, "moment_passed": self._nothing,
            "restore_failed": self._told, "storage_failed": self._warning, "fault": self._told,
            **self.standby.take,
        }  # fmt: skip

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of records that it knows."""
        return frozenset(self._take)

    def take_in(self, record: Record) -> None:
        picture = self.picture
        try:
            at_ms = max(int(record["at_ms"]), picture.at_ms)  # a clock that was put back does not turn curves around
            kind = str(record["kind"])
            known = self._take.get(kind)
            if known is not None:
                known(record, at_ms)
            elif not self.stories.tell(at_ms, sentence(record), tone(record)):
                picture.totals.strange += 1
        except (KeyError, TypeError, ValueError, AttributeError):
            picture.totals.strange += 1
            return
        picture.began_ms = picture.began_ms or at_ms
        picture.at_ms = at_ms

    def _told(self, record: Record, at_ms: int) -> None:
        self.stories.tell(at_ms, sentence(record), tone(record))

    def _nothing(self, record: Record, at_ms: int) -> None:
        return None

    # -- the application ------------------------------------------------------------------------------------------

    def _app_started(self, record: Record, at_ms: int) -> None:
        picture = self.picture
        crashed = picture.phase in ("starting", "running", "recovering")
        generation, app = int(record["generation"]), str(record["app"])
        self.stories.app_started(record, at_ms, crashed, sentence(record))
        picture.app, picture.generation, picture.phase, picture.stopped = app, generation, "starting", ""
        picture.started_ms = at_ms
        picture.gone_hosts.extend(picture.hosts.values())
        for host in picture.hosts.values():
            host.lost_ms, host.reason = host.lost_ms or at_ms, host.reason or "its driver has ended"
        picture.hosts, picture.shards, picture.pairs, self._scaling = {}, {}, {}, {}
        picture.standby_modes.clear()
        picture.hot_keys.clear()
        picture.threshold = None
        self._shape(record)

    def _shape(self, record: Record) -> None:
        """Graph and settings of the application."""
        picture = self.picture
        picture.scheme, picture.period_ms = str(record.get("scheme", "")), int(record.get("period_ms", 0))
        picture.nodes = tuple(map(_node, record.get("graph", ()))) or tuple(
            Node(name, "operator", "", ()) for name in record["operators"]
        )
        self._delays = {node.name: node.delay_ms for node in picture.nodes}

    def _journal_continues(self, record: Record, at_ms: int) -> None:
        """What came before was told already, except to whoever begins to read here."""
        picture = self.picture
        if picture.generation == int(record["generation"]):
            return
        self._shape(record)
        picture.app, picture.generation, picture.phase = str(record["app"]), int(record["generation"]), "running"
        picture.started_ms = at_ms
        for host in record["alive"]:
            self._host_ready({**host, "generation": record["generation"]}, at_ms)
        picture.shards = {name: Shard(name, int(host)) for name, host in record["shards"].items()}

    def _app_stopped(self, record: Record, at_ms: int) -> None:
        reason = str(record["reason"])
        self.picture.phase = "stopped" if reason == "finished" else "failed"
        self.picture.stopped = headline(reason)
        self.stories.app_stopped(record, at_ms, sentence(record))

    def _warning(self, record: Record, at_ms: int) -> None:
        self.picture.warnings.append(Told(at_ms, sentence(record), "yellow"))
        self.stories.tell(at_ms, sentence(record), "yellow")

    # -- hosts and shards -----------------------------------------------------------------------------------------

    def _host_ready(self, record: Record, at_ms: int) -> None:
        id = int(record["host"])
        host = Host(id, int(record["generation"]), at_ms, record.get("pid"), str(record.get("address", "")))
        self.picture.hosts[id] = host
        self.stories.tell(at_ms, sentence(record), tone(record))

    def _host_lost(self, record: Record, at_ms: int) -> None:
        self._leave(int(record["host"]), at_ms, str(record["reason"]))
        self.picture.totals.faults += 1
        self.stories.host_lost(record, at_ms, sentence(record))

    def _host_gone(self, record: Record, at_ms: int) -> None:
        self._leave(int(record["host"]), at_ms, "it was needed no more")
        self.stories.tell(at_ms, sentence(record), tone(record))

    def _leave(self, id: int, at_ms: int, reason: str) -> None:
        host = self.picture.hosts.pop(id, None)
        if host is not None:
            host.lost_ms, host.reason = at_ms, reason
            self.picture.gone_hosts.append(host)
        for shard in self.picture.shards.values():
            if shard.host == id:
                shard.host = None
        self.standby.host_gone(id)

    def _host_load(self, record: Record, at_ms: int) -> None:
        id, cpu = int(record["host"]), float(record["cpu"])
        host = self.picture.hosts.get(id)
        if host is None:
            return
        host.cpu, host.memory = cpu, record.get("memory")
        host.cpu_curve.append((at_ms, cpu))
        for name, said in record["shards"].items():
            shard = self.picture.shards.get(name)
            if shard is not None and shard.host == id:
                shard.busy, shard.rows = said.get("busy"), said.get("rows")

    def _hot_key(self, record: Record, at_ms: int) -> None:
        self.picture.hot_keys[str(record["operator"]), str(record["key"])] = float(record["share"])

    def _shards_assigned(self, record: Record, at_ms: int) -> None:
        for name in record["shards"]:
            self.picture.shards[name] = Shard(name, int(record["host"]))
            operator = name.rpartition("/")[0]
            if operator in self._scaling:
                self._scaling[operator].append(name)
        self.stories.tell(at_ms, sentence(record), tone(record))

    # -- recoveries and scales ------------------------------------------------------------------------------------

    def _recovery_started(self, record: Record, at_ms: int) -> None:
        if record["reason"] != "start":
            self.picture.phase = "recovering"
        self.stories.recovery_started(record, at_ms, sentence(record))

    def _recovery_finished(self, record: Record, at_ms: int) -> None:
        picture = self.picture
        picture.phase = "running"
        self.standby.recovered()
        picture.shards = {name: shard for name, shard in picture.shards.items() if shard.host is not None}
        phases = {str(name): int(ms) for name, ms in record["phases"].items()}
        ordered = [name for name in PHASES if name in phases] + [name for name in phases if name not in PHASES]
        if not record.get("start"):
            picture.totals.recoveries += 1
            picture.totals.recovery_seconds += int(record["ms"]) / 1000
        told = [(name.replace("_", " "), phases[name]) for name in ordered]
        self.stories.recovery_finished(int(record["ms"]), told, at_ms, sentence(record))

    def _scale_started(self, record: Record, at_ms: int) -> None:
        self._scaling[str(record["operator"])] = []
        self.stories.scale_started(record, at_ms, sentence(record))

    def _scaled(self, record: Record, at_ms: int) -> None:
        operator, shards = str(record["operator"]), self.picture.shards
        new = self._scaling.pop(operator, [])[-int(record["shards"]) :]
        for name in [n for n, s in shards.items() if s.operator == operator and n not in new]:
            del shards[name]
        self.picture.totals.scales += 1
        phases = [
            ("new shards restored", max(0, int(record["ms"]) - int(record["pause_ms"]))),
            ("input paused", int(record["pause_ms"])),
        ]
        self.stories.scale_ended(operator, int(record["ms"]), phases, at_ms, sentence(record))

    def _scale_given_up(self, record: Record, at_ms: int) -> None:
        for name in self._scaling.pop(str(record["operator"]), []):
            self.picture.shards.pop(name, None)
        if record["again"]:
            self._scaling[str(record["operator"])] = []
            self.stories.tell(at_ms, sentence(record), "yellow")
        else:
            self.stories.scale_ended(str(record["operator"]), None, [], at_ms, sentence(record))

    def _failure(self, record: Record, at_ms: int) -> None:
        self.stories.failure(record, at_ms, sentence(record))

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _epoch_admitted(self, record: Record, at_ms: int) -> None:
        epoch = int(record["epoch"])
        self.picture.admitted = max(self.picture.admitted, epoch)
        self._admission[epoch] = record
        while len(self._admission) > 10_000:  # of epochs that were never committed
            del self._admission[next(iter(self._admission))]

    def _epoch_committed(self, record: Record, at_ms: int) -> None:
        picture, epoch = self.picture, int(record["epoch"])
        admitted = self._admission.pop(epoch, record)
        admission = 0.0 if admitted is record else float(admitted.get("ms", 0.0))
        time_ms = int(admitted.get("time_ms", at_ms))
        rows_in, rows_out, ms = int(record["rows_in"]), int(record["rows_out"]), float(record["ms"] or 0.0)
        parts = record.get("parts_ms", {})
        operators = record.get("operators", {})
        late = 0
        for name, said in operators.items():
            late += said.get("late", 0)
            picture.operator_rows(name).add(at_ms, said["in"], said["out"], said["state"], said["busy_ms"])
        picture.epochs.add(
            at_ms, epoch, ms, admission, parts.get("waiting", 0.0), parts.get("spark", ms), parts.get("hosts", 0.0),
            parts.get("sink", 0.0), rows_in, rows_out, float(record.get("state_bytes") or 0), late,
            max(0, picture.admitted - epoch), self._lag_ms(operators, time_ms), self._waiting(admitted, at_ms),
        )  # fmt: skip
        picture.epoch = max(picture.epoch, epoch)
        totals = picture.totals
        totals.epochs += 1
        totals.rows_in += rows_in
        totals.rows_out += rows_out
        totals.late_rows += late
        totals.epoch_seconds += ms / 1000
        self.standby.committed(epoch, at_ms)
        self.stories.committed(epoch, at_ms)

    def _waiting(self, admitted: Record, at_ms: int) -> float:
        """Rows that waited behind the epoch in all sources that know it; NaN if none does."""
        known = []
        for name, (rows, waiting) in admitted.get("sources", {}).items():
            self.picture.source_rows(name).add(
                at_ms, UNKNOWN if rows is None else rows, UNKNOWN if waiting is None else waiting
            )
            if waiting is not None:
                known.append(waiting)
        return float(sum(known)) if known else UNKNOWN

    def _lag_ms(self, operators: Mapping[str, Any], time_ms: int) -> float:
        """How far the watermark that is furthest behind lies behind the epoch's time; NaN without event times."""
        for name, said in operators.items():
            if "event_time_ms" in said:
                mark = int(said["event_time_ms"]) - self._delays.get(name, 0)
                self._watermarks[name] = max(mark, self._watermarks.get(name, mark))
        return float(time_ms - min(self._watermarks.values())) if self._watermarks else UNKNOWN

    def _dead_letters(self, record: Record, at_ms: int) -> None:
        self.picture.totals.dead_letters += int(record["rows"])
        self.stories.dead_letters(str(record["operator"]), int(record["rows"]), "row", at_ms, sentence(record))

    def _malformed_lines(self, record: Record, at_ms: int) -> None:
        self.picture.totals.malformed_lines += int(record["lines"])
        self.stories.dead_letters(str(record["source"]), int(record["lines"]), "line", at_ms, sentence(record))

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def _checkpoint(self, record: Record, at_ms: int) -> Checkpoint:
        found = Checkpoint(int(record["checkpoint"]), int(record["generation"]), at_ms)
        kept = self.picture.checkpoints
        if found.key not in kept:
            kept[found.key] = found
            while len(kept) > KEPT_CHECKPOINTS:
                del kept[next(iter(kept))]
        return kept[found.key]

    def _checkpoint_decided(self, record: Record, at_ms: int) -> None:
        checkpoint = self._checkpoint(record, at_ms)
        checkpoint.reason, checkpoint.why = str(record["reason"]), sentence(record).partition(": ")[2]
        given = ("at_ms", "kind", "generation", "checkpoint", "reason", "units")
        checkpoint.facts = {name: value for name, value in record.items() if name not in given}
        if "threshold" in record:
            self.picture.threshold = float(record["threshold"])

    def _profiled(self, record: Record, at_ms: int) -> None:
        self.picture.threshold = float(record["threshold"]) if record["dynamic"] else None

    def _checkpoint_started(self, record: Record, at_ms: int) -> None:
        self._checkpoint(record, at_ms)

    def _snapshots_ordered(self, record: Record, at_ms: int) -> None:
        checkpoint, holder = self._checkpoint(record, at_ms), (int(record["host"]), str(record["unit"]))
        checkpoint.ordered[holder] = at_ms
        units = {node.name: node.unit for node in self.picture.nodes}
        for name, shard in self.picture.shards.items():
            if shard.host == holder[0] and units.get(shard.operator, holder[1]) in (holder[1], ""):
                checkpoint.holders[name] = holder

    def _snapshots_begun(self, record: Record, at_ms: int) -> None:
        self._checkpoint(record, at_ms).forked[int(record["host"]), str(record["unit"])] = at_ms

    def _snapshot_awaited(self, record: Record, at_ms: int) -> None:
        self._checkpoint(record, at_ms).awaited_ms += float(record["ms"])

    def _snapshot_written(self, record: Record, at_ms: int) -> None:
        name, size = str(record["shard"]), int(record["bytes"])
        part = SnapshotPart(
            name,
            at_ms,
            float(record["ms"]),
            float(record["serialise_ms"] or 0.0),
            float(record["sync_ms"] or 0.0),
            size,
        )
        self._checkpoint(record, at_ms).parts[name] = part
        if name in self.picture.shards:
            self.picture.shards[name].bytes = size

    def _inflight_saved(self, record: Record, at_ms: int) -> None:
        checkpoint = self._checkpoint(record, at_ms)
        checkpoint.inflight += 1
        checkpoint.inflight_bytes += int(record["bytes"])

    def _checkpoint_committed(self, record: Record, at_ms: int) -> None:
        checkpoint = self._checkpoint(record, at_ms)
        checkpoint.committed_ms, checkpoint.bytes, checkpoint.ms = at_ms, int(record["bytes"]), int(record["ms"])
        self.picture.totals.checkpoints += 1

    def _checkpoint_failed(self, record: Record, at_ms: int) -> None:
        checkpoint = self._checkpoint(record, at_ms)
        checkpoint.error = headline(str(record["error"]))
        self.picture.totals.failed_checkpoints += 1
        self.stories.checkpoint_failed(checkpoint.key, checkpoint.id, at_ms, sentence(record))


def _node(said: Mapping[str, Any]) -> Node:
    return Node(
        str(said["name"]), str(said["kind"]), str(said["unit"]), tuple(said["inputs"]), str(said.get("what", "")),
        tuple(said.get("key", ())), str(said.get("preserved", "")), int(said.get("delay_ms", 0)),
        str(said.get("guarantee", "")), str(said.get("standby", "")),
    )  # fmt: skip
