"""The thread for slow work on storage: in order, to the end, and what is kept for the old code stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.driver.backups import HostBackups, HostsToldOfCheckpoints
from perseid.driver.journal_writer import JournalWriter
from perseid.driver.reports import Reports
from perseid.driver.storage_worker import RootCheckpoints, StorageWorker
from perseid.duration import every
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.storage_steps import StorageSteps
from perseid.engine.stream_store import StreamStore
from perseid.graph.topology import Topology, UnitShape
from perseid.scaling.routing import RoutingTable
from perseid.storage import layout
from perseid.storage.journal import Journal, read_journal
from perseid.storage.kept_state import KeptState, keep_state
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.manifest import Checkpoints, ShardSnapshot
from perseid.storage.records import Admitted
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, Offset, OperatorName, ShardId, SourceName, UnitName, Version

MAIN, COUNT, LINES = UnitName("main"), OperatorName("count"), SourceName("lines")
SHARD = ShardId(COUNT, 0)
TOPOLOGY = Topology((UnitShape(MAIN, (LINES,), {COUNT: 1}, {COUNT: frozenset()}),), ())
TIMEOUT = every(seconds=1)


class Root:
    """A root with a ledger of some epochs, and a worker on it."""

    def __init__(self, path: Path) -> None:
        self.now_ms = 1_000
        self.store = Store.at(str(path / "root"))
        self.lease = self.acquired("test")
        self.ledger = Ledger.open(self.store, self.lease)
        for epoch in range(1, 6):
            self.ledger.append(Admitted(Epoch(epoch), epoch, {LINES: (Offset(epoch - 1), Offset(epoch))}))
        self.checkpoints = Checkpoints(self.store, lease=self.lease)
        self.events: list[on.Event] = []
        self.told_of = threading.Event()
        self.trimmed: list[int] = []
        self.journal = JournalWriter(
            "words", Journal(self.store, self.lease.generation, now_ms=lambda: self.now_ms), Reports()
        )
        table = RoutingTable.initial({COUNT: ((0, (0, 256)),)})
        hosts = HostBackups(TOPOLOGY, lambda host, message: None, dict, lambda host, path, size: None, lambda: table)
        streams: StreamStore[object] = StreamStore({}, None)  # type: ignore[arg-type]  # there are no streams
        steps = StorageSteps(
            TOPOLOGY,
            RootCheckpoints("words", self.lease, self.checkpoints, self.journal, lambda: self.now_ms),
            self.ledger,
            streams,
            HostsToldOfCheckpoints(lambda message: None, hosts),
            lambda: None,
            lambda source, start: self.trimmed.append(start),
            self.post,
        )
        self.worker = StorageWorker(steps, self.journal, self.store)

    def post(self, event: on.Event) -> None:
        self.events.append(event)
        self.told_of.set()

    def acquired(self, owner: str) -> Lease:
        return Lease.acquire(self.store, owner=owner, now_ms=lambda: self.now_ms, timeout=TIMEOUT)

    def saved(self, number: int, epoch: int) -> PendingCheckpoint:
        """A checkpoint whose snapshot is on the root, but not its manifest."""
        id = CheckpointId(number)
        file = write_snapshot(self.store, layout.snapshot(id, COUNT, 0), {}, [b"state"], local=None)
        shard = ShardSnapshot(COUNT, 0, (0, 256), Epoch(epoch), file, 5)
        return PendingCheckpoint(
            id, 0, {SHARD: MAIN}, (), units=(MAIN,), cuts={MAIN: Epoch(epoch)}, saved={SHARD: shard}
        )

    def commit(self, number: int, epoch: int) -> CompletedCheckpoint:
        self.worker.submit(do.CommitCheckpoint(self.saved(number, epoch), "parallel"))
        return CompletedCheckpoint(CheckpointId(number), {MAIN: Epoch(epoch)}, {}, {})

    def done(self) -> Root:
        """All that was submitted."""
        self.worker.stop()
        return self

    def told(self, kind: str) -> list[dict[str, object]]:
        self.journal.flush()
        return [dict(record) for record in read_journal(self.store) if record["kind"] == kind]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    made = Root(tmp_path)
    yield made
    made.worker.stop()
    made.journal.close()


def test_a_committed_checkpoint_can_be_read_and_its_size_is_told(root: Root) -> None:
    root.commit(1, 3)
    (manifest,) = root.done().checkpoints.newest_first()
    assert (manifest.units, manifest.scheme, manifest.created_ms) == ({MAIN: 3}, "parallel", 1_000)
    assert [(shard.operator, shard.epoch) for shard in manifest.shards] == [(COUNT, 3)]
    assert root.events == [on.CheckpointCommitted(CheckpointId(1))]
    assert [record["bytes"] for record in root.told("checkpoint_committed")] == [manifest.shards[0].file.bytes]


def test_what_was_submitted_is_done_in_its_order_before_the_thread_ends(root: Root) -> None:
    for number in range(1, 20):
        root.worker.submit(do.WritePartition(COUNT, 1, ((number, (0, 256)),), Version(number)))
    root.done()
    assert root.events == [on.PartitionWritten(COUNT, Version(number)) for number in range(1, 20)]
    assert root.ledger.partitioned[COUNT].shards == ((19, (0, 256)),)
    assert "perseid-storage" not in {thread.name for thread in threading.enumerate()}


def test_a_trim_lets_go_what_the_oldest_checkpoint_covers(root: Root) -> None:
    root.commit(1, 2)
    second = root.commit(2, 4)
    root.worker.submit(do.Trim((CheckpointId(1),), second))
    assert [manifest.id for manifest in root.done().checkpoints.newest_first()] == [2]
    assert root.trimmed == [4] and root.ledger.trimmed_to == 4


def test_nothing_is_trimmed_while_a_checkpoint_is_kept_for_the_old_code(root: Root) -> None:
    keep_state(root.store, KeptState(CheckpointId(1), {}))
    root.commit(1, 2)
    second = root.commit(2, 4)
    root.worker.submit(do.Trim((CheckpointId(1),), second))
    assert [manifest.id for manifest in root.done().checkpoints.newest_first()] == [2, 1]
    assert root.trimmed == [] and root.ledger.trimmed_to == 0
    assert root.told("storage_failed") == []


def test_what_fails_is_told_to_the_controller_or_to_the_journal_and_the_thread_goes_on(root: Root) -> None:
    first = root.commit(1, 2)
    root.told_of.wait(60)
    root.now_ms += 10 * TIMEOUT.ms
    root.lease.release()
    root.acquired("another").release()
    root.worker.submit(do.Trim((), first))
    root.commit(2, 4)
    root.done()
    assert [type(event) for event in root.events] == [on.CheckpointCommitted, on.CheckpointFailed]
    (failed,) = root.told("storage_failed")
    assert failed["command"] == "Trim" and "taken over" in str(failed["error"])
