"""A driver dies between any two calls to the operating system; the next one finds all that was acknowledged."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from perseid.duration import every
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Admitted, Committed, Ledger
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.snapshots import read_snapshot, write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, Offset, OperatorName, SourceName, UnitName

WATCHED = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "shutil.rmtree"}


def start(root: str) -> tuple[Store, Lease]:
    store = Store.at(root)
    return store, Lease.acquire(store, owner="test", now_ms=lambda: 0, timeout=every(seconds=60))


def drive(root: str, say: int) -> None:
    """Everything a driver does with its root; each step is said once it is acknowledged."""
    store, lease = start(root)
    ledger, checkpoints = Ledger.open(store, lease), Checkpoints(store, lease=lease)
    first = ledger.last_admitted + 1
    for epoch in range(first, first + 3):
        ledger.append(Admitted(Epoch(epoch), epoch, {SourceName("lines"): (Offset(epoch - 1), Offset(epoch))}))
        os.write(say, b"a")
        ledger.append(Committed(Epoch(epoch), UnitName("main"), {OperatorName("join"): epoch}))
        os.write(say, b"c")
    checkpoints.discard_unfinished()
    id = checkpoints.next_id()
    file = write_snapshot(
        store, layout.snapshot(id, OperatorName("count"), 0), {}, [b"state"], local=Path(root, "copies")
    )
    shard = ShardSnapshot(OperatorName("count"), 0, (0, 256), ledger.last_admitted, file, 5)
    checkpoints.commit(Manifest(id, "graph", 0, {UnitName("main"): ledger.last_admitted}, (shard,), (), {}, "source"))
    os.write(say, b"k")
    for old in list(checkpoints.newest_first())[1:]:
        checkpoints.delete(old.id)
    ledger.trim(Epoch(first + 1))
    lease.renew()
    lease.release()
    os.write(say, b"r")


def dies_at(root: str, call: int) -> tuple[str, bool]:
    """What the driver had said when it died at its n-th call; and whether it had come to its end by then."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        left = call

        def hook(event: str, _: object) -> None:
            nonlocal left
            if event in WATCHED:
                left -= 1
                if left == 0:
                    os._exit(1)

        status = 2
        try:
            sys.addaudithook(hook)
            drive(root, say)
            status = 0
        finally:
            os._exit(status)
    os.close(say)
    with os.fdopen(hear, "rb") as heard:
        said = heard.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1)
    return said, status == 0


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("generation", ["first", "second"])
def test_whenever_the_driver_dies_the_next_one_goes_on(generation: str, stride: int, tmp_path: Path) -> None:
    used = str(tmp_path / "used")
    assert dies_at(used, 0) == ("acacackr", True)
    finished, call = False, 1 - stride
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    while not finished:
        call += stride
        with tempfile.TemporaryDirectory(dir=base) as root:
            before, before_checkpoints = 0, 0
            if generation == "second":
                shutil.copytree(used, root, dirs_exist_ok=True)
                before, before_checkpoints = 3, 1
            said, finished = dies_at(root, call)
            store, lease = start(root)  # at once: its process is dead
            assert 1 <= lease.generation <= (3 if generation == "second" else 2)
            ledger = Ledger.open(store, lease)
            admitted, committed = before + said.count("a"), before + said.count("c")
            assert admitted <= ledger.last_admitted <= admitted + 1
            assert committed <= ledger.committed(UnitName("main")) <= committed + 1
            assert ledger.committed(UnitName("main")) <= ledger.last_admitted
            assert ledger.offset(SourceName("lines")) == ledger.last_admitted
            for epoch in range(ledger.trimmed_to + 1, ledger.last_admitted + 1):
                assert ledger.admitted(Epoch(epoch)) == Admitted(
                    Epoch(epoch), epoch, {SourceName("lines"): (Offset(epoch - 1), Offset(epoch))}
                )
            expected = {"join": ledger.committed(UnitName("main"))} if ledger.committed(UnitName("main")) else {}
            assert ledger.event_times_ms(ledger.last_admitted) == expected
            checkpoints = list(Checkpoints(store, unreadable).newest_first())
            assert len(checkpoints) >= min(before_checkpoints + said.count("k"), 1)
            if "k" in said:
                assert checkpoints[0].units[UnitName("main")] == before + 3
            for manifest in checkpoints:
                for shard in manifest.shards:
                    assert read_snapshot(store, shard.file, local=Path(root, "copies"))[1] == [b"state"]
            if checkpoints:
                assert checkpoints[0].units[UnitName("main")] >= ledger.trimmed_to
            drive_on(store, lease, ledger)
    assert call > 50


def drive_on(store: Store, lease: Lease, ledger: Ledger) -> None:
    """The root is as good as new."""
    epoch = ledger.last_admitted + 1
    ledger.append(Admitted(Epoch(epoch), epoch, {SourceName("lines"): (Offset(epoch - 1), Offset(epoch))}))
    Checkpoints(store, lease=lease).discard_unfinished()
    assert Ledger.view(store).last_admitted == epoch


def unreadable(id: CheckpointId, error: Exception) -> None:
    raise AssertionError(f"checkpoint {id} is half-written: {error}")
