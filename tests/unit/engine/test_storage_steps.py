"""The order of work on storage, and what the controller is told when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.storage_steps import StorageSteps
from perseid.errors import Fenced
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.storage.records import Admitted
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, SourceName, StreamName, UnitName, Version

A, B, COUNT = UnitName("a"), UnitName("b"), OperatorName("count")
IN, S = SourceName("in"), StreamName("s")
TOPOLOGY = Topology(
    (UnitShape(A, (IN,), {COUNT: 1}, {}), UnitShape(B, (), {}, {})), (StreamShape(S, A, B, "durable"),)
)  # fmt: skip
CHECKPOINT = CheckpointId(3)


class Said:
    """Whatever is asked of it, it writes down; what is named in ``failing`` it cannot do."""

    def __init__(self, name: str, log: list[str], failing: set[str]) -> None:
        self._name, self._log, self._failing = name, log, failing

    def __getattr__(self, what: str) -> Any:
        def act(*args: Any) -> Any:
            self._log.append(f"{self._name}.{what}")
            if f"{self._name}.{what}" in self._failing:
                raise Fenced("another driver has taken over")
            if what == "admitted":
                return Admitted(args[0], 0, {IN: (10 * args[0], 10 * args[0] + 10)})
            return {} if what == "event_times_ms" else 1

        return act


def steps(*failing: str) -> tuple[StorageSteps, list[str], list[on.Event]]:
    log: list[str] = []
    events: list[on.Event] = []
    names = ("checkpoints", "ledger", "streams", "hosts", "admission", "sources")
    checkpoints, ledger, streams, hosts, admission, sources = (Said(name, log, set(failing)) for name in names)

    def post(event: on.Event) -> None:
        log.append(type(event).__name__)
        events.append(event)

    machine = StorageSteps(
        TOPOLOGY, checkpoints, ledger, streams, hosts, admission.write_commits, sources.trim, post
    )  # fmt: skip
    return machine, log, events


def committed() -> do.CommitCheckpoint:
    pending = PendingCheckpoint(CHECKPOINT, 0, {}, (), cuts={A: Epoch(5), B: Epoch(4)})
    return do.CommitCheckpoint(pending, "parallel")


def test_commits_are_written_before_the_manifest_that_covers_them() -> None:
    machine, log, events = steps()
    machine.carry_out(committed())
    assert log == [
        "checkpoints.check", "admission.write_commits", "ledger.event_times_ms", "checkpoints.commit",
        "hosts.covered", "CheckpointCommitted", "hosts.back_up",
    ]  # fmt: skip
    assert events == [on.CheckpointCommitted(CHECKPOINT)]


def test_a_driver_that_was_replaced_writes_no_manifest() -> None:
    machine, log, events = steps("checkpoints.check")
    with pytest.raises(Fenced):
        machine.carry_out(committed())
    assert log == ["checkpoints.check"] and events == []


def test_checkpoints_go_before_what_only_they_needed() -> None:
    machine, log, _ = steps()
    oldest = CompletedCheckpoint(CHECKPOINT, {A: Epoch(5), B: Epoch(4)}, {}, {})
    machine.carry_out(do.Trim((CheckpointId(1), CheckpointId(2)), oldest))
    assert log == [
        "checkpoints.delete", "checkpoints.delete", "hosts.forget", "ledger.admitted", "sources.trim", "ledger.admitted",
        "streams.trim", "ledger.trim",
    ]  # fmt: skip


SAVE = do.SaveInflight(CHECKPOINT, S, Epoch(5))
DIVIDE = do.WritePartition(COUNT, 1, ((0, (0, 256)),), Version(2))


@pytest.mark.parametrize(
    ("command", "done", "failed"),
    [
        (SAVE, on.InflightSaved, on.CheckpointFailed(CHECKPOINT, "full")),
        (committed(), on.CheckpointCommitted, on.CheckpointFailed(CHECKPOINT, "full")),
        (DIVIDE, on.PartitionWritten, on.PartitionWritten(COUNT, Version(2), "full")),
    ],
)
def test_the_controller_is_told_of_success_and_failure(command: Any, done: Any, failed: on.Event) -> None:
    machine, _, events = steps()
    machine.carry_out(command)
    assert [type(event) for event in events] == [done]
    assert machine.failed(command, "full") and events[1:] == [failed]


def test_what_could_not_be_deleted_is_no_loss() -> None:
    machine, _, events = steps()
    oldest = CompletedCheckpoint(CHECKPOINT, {A: Epoch(5), B: Epoch(4)}, {}, {})
    for command in (do.AbortCheckpoint(CHECKPOINT, "a host was lost"), do.Trim((), oldest)):
        machine.carry_out(command)
        assert not machine.failed(command, "full")
    assert events == []
