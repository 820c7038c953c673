"""What a run says of itself is true: of a start, of a restart, of epochs that an earlier driver admitted, of what failed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from perseid.checkpoint.schemes import parallel
from perseid.driver.journal_writer import JournalWriter, Shape
from perseid.driver.reports import Report, Reports
from perseid.duration import every
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.controller import Controller
from perseid.engine.progress import Progress
from perseid.engine.settings import EngineSettings, RootHistory
from perseid.graph.topology import Topology, UnitShape
from perseid.recovery.plan import ApplicationRecovery, RecoveryPlan, ShardRecovery
from perseid.storage.journal import Journal, read_journal
from perseid.storage.journal_segments import Limits
from perseid.storage.records import Admitted
from perseid.storage.store import Store
from perseid.vocabulary import (
    Attempt,
    CheckpointId,
    Epoch,
    Generation,
    HostId,
    Offset,
    OperatorName,
    ShardId,
    SourceName,
    UnitName,
)

LIMITS = Limits()
UNIT, SHARD = UnitName("main"), ShardId(OperatorName("count"), 0)


class Told:
    """A journal writer and what it has told."""

    def __init__(self, path: Path, limits: Limits = LIMITS) -> None:
        self.store = Store.at(str(path))
        journal = Journal(self.store, Generation(1), now_ms=lambda: 1, limits=limits)
        self.journal_writer = JournalWriter("words", journal, Reports())
        topology = Topology((UnitShape(UNIT, (SourceName("lines"),), {SHARD.operator: 1}, {}),), ())
        self.controller = Controller(topology, EngineSettings(parallel(every(seconds=9)), 1), RootHistory(), 0)

    def progress(self) -> Progress:
        return self.journal_writer.progress(self.controller, [], "")

    def journal(self, kind: str) -> list[dict[str, Any]]:
        self.journal_writer.flush()
        return [dict(record) for record in read_journal(self.store) if record["kind"] == kind]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def plan(checkpoint: int | None) -> ApplicationRecovery:
    id = CheckpointId(checkpoint) if checkpoint is not None else None
    return ApplicationRecovery(id, {SHARD: ()}, {UNIT: Epoch(0)})


@pytest.mark.parametrize(
    ("reason", "checkpoint", "said"),
    [
        ("start", None, "started 1 shard with empty state in 70 ms"),
        ("start", 12, "loaded 1 shard from checkpoint 12 in 70 ms"),
        ("host 2: no heartbeat", 12, "recovered 1 shard in 70 ms"),
    ],
)
def test_a_start_is_not_called_a_recovery(told: Told, reason: str, checkpoint: int | None, said: str) -> None:
    told.journal_writer.command(notices.RecoveryStarted(reason, plan(checkpoint)))
    told.journal_writer.command(notices.RecoveryFinished(plan(checkpoint), 70, {}, start=reason == "start"))
    assert told.progress().last_event == said
    assert told.journal("recovery_finished")[0]["start"] == (reason == "start")


def test_another_file_of_the_journal_begins_with_the_graph_and_with_hosts_that_are_alive(tmp_path: Path) -> None:
    told = Told(tmp_path, Limits(segment_bytes=1))
    shape = Shape([{"name": "count"}], "adaptive", 30_000)
    told.journal_writer.app_started(Generation(1), told.controller, RootHistory(), 2, shape)
    for host in (1, 2, 3):
        told.journal_writer.notice(notices.HostReady(HostId(host), 40 + host, "127.0.0.1:1"))
    told.journal_writer.notice(notices.HostLost(HostId(2), "it was killed"))
    told.journal_writer.notice(notices.HostReleased(HostId(3)))
    told.journal_writer.flush()
    told.journal_writer.warning("look at this")
    (started,), (continued,) = told.journal("app_started"), told.journal("journal_continues")
    shared = started.keys() - {"kind", "at_ms"}
    assert {name: continued[name] for name in shared} == {name: started[name] for name in shared}
    assert [host["host"] for host in continued["alive"]] == [1] and continued["shards"] == {}


def test_a_switch_to_the_copy_and_back_is_told(told: Told) -> None:
    told.journal_writer.command(notices.Switched(HostId(1), HostId(3), Epoch(9), 120, "a heartbeat was missed"))
    assert told.progress().last_event == "host 3 answers instead of host 1 (silent for 120 ms, a heartbeat was missed)"
    told.journal_writer.command(notices.RolledBack(HostId(1), HostId(3), Epoch(12), 90))
    assert told.progress().last_event == "host 1 answers again instead of host 3"
    told.journal_writer.command(notices.GivenUp(HostId(1), HostId(3), "silent for 20 s"))
    assert told.progress().last_event == "host 1 is replaced for good by host 3: silent for 20 s"


def test_state_that_was_loaded_counts_before_the_first_epoch(told: Told) -> None:
    told.journal_writer.restored({ShardId(OperatorName("count"), 0): 4_096, ShardId(OperatorName("gone"), 0): 99})
    assert told.progress().state_bytes == 4_096


def report(epoch: int, **more: Any) -> Report:
    given = {"shard": ShardId(OperatorName("count"), 0), "rows_in": 0, "rows_out": 0, **more}
    return Report(epoch=Epoch(epoch), **given)


def test_an_epoch_that_an_earlier_driver_admitted_is_timed_from_its_run_here(told: Told) -> None:
    admitted = Admitted(Epoch(8), 1, {})
    routing = told.controller.routing
    told.journal_writer.command(do.RunEpoch(UNIT, Epoch(8), Attempt(1), routing, Epoch(0), Epoch(0)))
    time.sleep(0.002)
    told.journal_writer.finished(UNIT, admitted, {SHARD: report(8)}, 5, 1)
    (committed,) = told.journal("epoch_committed")
    assert committed["ms"] >= 2


OTHER = UnitName("other")
LOST = ShardRecovery(None, {SHARD: ()}, {OTHER: Epoch(8)}, {})


@pytest.mark.parametrize(("back", "committed"), [(LOST, [10]), (plan(None), [])])
def test_an_epoch_that_is_on_its_way_when_shards_are_lost_is_committed_with_all_its_rows(
    told: Told, back: RecoveryPlan, committed: list[int]
) -> None:
    writer, admitted = told.journal_writer, Admitted(Epoch(9), 1, {})
    writer.finished(UNIT, admitted, {SHARD: report(9, rows_in=10, rows_out=4)}, 10, 2)
    writer.command(notices.RecoveryStarted("host 2 died", back))
    writer.finished(OTHER, admitted, {SHARD: report(9, rows_in=4, rows_out=3, late_rows=1)}, None, 2)
    assert [entry["rows_in"] for entry in told.journal("epoch_committed")] == committed
    if not committed:  # all units go back, and do it again
        writer.finished(UNIT, admitted, {SHARD: report(9, rows_in=10, rows_out=4)}, 10, 2)
    seen = told.progress()
    assert (seen.rows_in, seen.rows_out, seen.late_rows) == (10, 7, 1)


def test_an_epoch_is_told_with_the_rows_of_each_source_and_those_that_wait(told: Told) -> None:
    admitted = Admitted(
        Epoch(1), 1, {SourceName("lines"): (Offset(0), Offset(1)), SourceName("ticks"): (Offset(0), Offset(9))}
    )
    told.journal_writer.admitted(admitted, {SourceName("lines"): (None, 70), SourceName("ticks"): (9, None)}, 1.0)
    (record,) = told.journal("epoch_admitted")
    assert record["sources"] == {"lines": [None, 70], "ticks": [9, None]} and record["rows"] is None


def test_dead_letters_are_counted_once_however_often_their_epoch_is_run(told: Told) -> None:
    for _ in range(2):
        aside = report(9, dead_letters=3, dead_letter_error="ValueError: bad")
        told.journal_writer.finished(UNIT, Admitted(Epoch(9), 1, {}), {SHARD: aside}, 5, 1)
    assert told.progress().dead_letters == 3
    assert told.progress().dead_letter_error == "count, epoch 9: ValueError: bad"
    assert [r["rows"] for r in told.journal("dead_letters")] == [3]


def test_a_failed_checkpoint_is_told_once_and_until_a_later_one_is_committed(told: Told) -> None:
    error = "Traceback (most recent call last):\n  File x\nperseid.errors.OperatorFailed: state cannot be saved"
    told.journal_writer.event(on.CheckpointFailed(CheckpointId(3), error))
    told.journal_writer.command(do.AbortCheckpoint(CheckpointId(3), error))
    picture = told.progress()
    assert picture.checkpoint_error == "checkpoint 3 failed: OperatorFailed: state cannot be saved"
    assert picture.failed_checkpoints == 1 and len(told.journal("checkpoint_failed")) == 1
    told.journal_writer.checkpoint_committed(CheckpointId(4), 9, 100)
    assert told.progress().checkpoint_error == "" and told.progress().failed_checkpoints == 1


def test_a_host_that_is_switched_with_several_units_is_switched_once_and_the_reason_is_told(tmp_path: Path) -> None:
    told = Told(tmp_path)
    say, primary, copy = told.journal_writer.notice, HostId(1), HostId(3)
    for _ in ("main", "report"):
        say(notices.Switched(primary, copy, Epoch(7), 0, "stopped, 1 missed heartbeat"))
    assert (told.progress().switches, told.progress().roll_backs) == (1, 0)
    assert told.progress().last_switch == "host 3 answers instead of host 1 (stopped, 1 missed heartbeat)"
    for _ in ("main", "report"):
        say(notices.RolledBack(primary, copy, Epoch(9), 80))
    assert (told.progress().switches, told.progress().roll_backs) == (1, 1)
    say(notices.Switched(primary, copy, Epoch(12), 0, "dead"))
    say(notices.GivenUp(primary, copy, "host 1 died"))
    assert told.progress().switches == 2
    assert told.progress().last_switch == "host 1 is replaced for good by host 3: host 1 died"
    assert len(told.journal("switched")) == 3
