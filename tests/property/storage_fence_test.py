"""A driver sleeps before any one of its changes to storage, another one does all the work, the first wakes: nothing changes any more.

The sleeper is a process of its own, stopped by SIGSTOP before its n-th change, for every n there is. What it does is all that a driver
does with its root and with the folder of a sink, but for Spark, which only writes the files that are staged.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from perseid.duration import every
from perseid.errors import Fenced, StorageFailed
from perseid.sinks.part_files import Part
from perseid.sinks.published import STAGING as SINK_STAGING
from perseid.sinks.published import PublishedEpochs
from perseid.sources.record_log import RecordLog
from perseid.storage import layout, saved_rows
from perseid.storage.lease import Lease, newest_generation
from perseid.storage.ledger import Admitted, Committed, Ledger
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.remote import RemoteStore
from perseid.storage.root_key import own_key
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import STAGING, Store, token
from perseid.vocabulary import Epoch, Fence, Generation, Offset, OperatorName, SourceName, StreamName, UnitName

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
SLEEPERS, WORKERS = 2, 3
"""How many epochs the sleeper and the one after it run."""


class Steps:
    """Counts a driver's changes to storage, and stops its process before one of them."""

    def __init__(self) -> None:
        self.count, self.stop_at = 0, -1

    def step(self) -> None:
        self.count += 1
        if self.count == self.stop_at:
            os.kill(os.getpid(), signal.SIGSTOP)

    def audit(self, base: str) -> None:
        def hook(event: str, args: tuple[Any, ...]) -> None:
            writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
            if (
                (writes or event in CHANGES)
                and isinstance(args[0], str | os.PathLike)
                and str(args[0]).startswith(base)
            ):
                self.step()

        sys.addaudithook(hook)


class ObjectStore:
    """A filesystem as an object store is one: a move is a copy and then a deletion, a folder is deleted file by file."""

    def __init__(self, folder: str, steps: Steps) -> None:
        self.filesystem = pafs.SubTreeFileSystem(folder, pafs.LocalFileSystem())
        self.steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.filesystem, name)

    def open_output_stream(self, path: str, **options: Any) -> Any:
        self.steps.step()
        self._make_way(path)
        return self.filesystem.open_output_stream(path, **options)

    def delete_file(self, path: str) -> None:
        self.steps.step()
        self.filesystem.delete_file(path)

    def move(self, old: str, new: str) -> None:
        self.steps.step()
        if self.filesystem.get_file_info(old).type != pafs.FileType.File:
            raise FileNotFoundError(errno.ENOENT, "no such object", old)
        self._make_way(new)
        self.filesystem.copy_file(old, new)
        self.delete_file(old)

    def _make_way(self, path: str) -> None:
        """Objects need no folders."""
        if parent := path.rpartition("/")[0]:
            self.filesystem.create_dir(parent, recursive=True)

    def delete_dir(self, path: str) -> None:
        infos = self.filesystem.get_file_info(pafs.FileSelector(path, recursive=True))
        for info in infos:
            if info.type == pafs.FileType.File:
                self.delete_file(info.path)
        if not self.filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True)):
            self.filesystem.delete_dir(path)


Place = Callable[[str, Steps], Store]


def local(folder: str, steps: Steps) -> Store:
    return Store.at(folder)


def remote(folder: str, steps: Steps) -> Store:
    Path(folder).mkdir(exist_ok=True)
    store = RemoteStore(ObjectStore(folder, steps), "", f"test://{folder}")
    store.filesystem.steps = steps
    return store


def stage(store: Store, name: str, rows: bytes) -> tuple[str, list[Part]]:
    """What Spark does: it writes files, makes folders as it needs them, and knows nothing of fences."""
    staged = store.staging()
    plain = Store.at(str(store.local)) if store.local else RemoteStore(store.filesystem, "", store.root)  # type: ignore[attr-defined]
    parts = [Part(f"part-{number}-{token()}.{name}", len(rows), None) for number in range(2)]
    try:
        for part in parts:
            plain.write(f"{staged}/{part.name}", [rows])
    except StorageFailed:  # taken away under its hands
        store.check()
        raise
    return staged, parts


def drive(root: Store, out: Store, epochs: int) -> Generation:
    """A driver from its start to its end."""
    own_key(root)
    lease = Lease.acquire(root, owner="test", now_ms=lambda: 1, timeout=every(milliseconds=8))
    store = root.fenced(STAGING, lease.fence)
    ledger, checkpoints = Ledger.open(store, lease), Checkpoints(store, lease=lease)
    checkpoints.discard_unfinished()
    log = RecordLog.open(store, "sources/lines/log")
    sink = PublishedEpochs(out.fenced(SINK_STAGING, store.fence))
    for epoch in map(Epoch, range(ledger.committed(UnitName("main")) + 1, epochs + 1)):
        if len(log) < epoch:
            log.append([{"file": int(epoch)}])
        if ledger.admitted(epoch) is None:
            ledger.append(Admitted(epoch, epoch, {SourceName("lines"): (Offset(epoch - 1), Offset(epoch))}))
        known = ledger.admitted(epoch)
        assert known is not None
        digest = known.digest
        path = layout.preserved(StreamName("words"), epoch)
        if saved_rows.digest_of(store, path) != digest:
            saved_rows.publish(store, stage(store, "parquet", b"word %d" % epoch)[0], path, digest)
        if not sink.holds(epoch, digest):
            staged, parts = stage(sink.place, "json", b"row %d\n" % epoch)
            sink.put(epoch, digest, staged, parts)
        ledger.append(Committed(epoch, UnitName("main")))
        id = checkpoints.next_id()
        file = write_snapshot(store, layout.snapshot(id, OperatorName("count"), 0), {}, [b"%d" % epoch], local=None)
        shard = ShardSnapshot(OperatorName("count"), 0, (0, 256), epoch, file, 5)
        checkpoints.commit(Manifest(id, "graph", 0, {UnitName("main"): epoch}, (shard,), (), {}, "source"))
        for old in list(checkpoints.newest_first())[1:]:
            checkpoints.delete(old.id)
        for trimmed in range(1, epoch):
            store.delete(layout.preserved(StreamName("words"), Epoch(trimmed)))
        ledger.trim(Epoch(epoch - 1))
    lease.renew()
    lease.release()
    return lease.generation


def asleep_at(place: Place, folder: str, step: int) -> int | None:
    """The process id of a driver that sleeps before its n-th change; None if it has fewer."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            steps = Steps()
            steps.stop_at = step
            if place is local:
                steps.audit(folder)
            try:
                drive(place(f"{folder}/root", steps), place(f"{folder}/out", steps), SLEEPERS)
                status = 0
            except Fenced:
                status = 3
            except BaseException:
                os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)
    _, status = os.waitpid(child, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return child
    assert os.waitstatus_to_exitcode(status) == 0
    return None


def harmless(path: str) -> bool:
    """What only its own generation reads, and what no manifest names."""
    mine = ("root/lease/", "root/ledger/00000001.jsonl", "root/sources/lines/log/00000001.jsonl", "root/staging/")
    return path.startswith((*mine, "out/_staging/")) or path.endswith("count-0.snapshot") or "/.tmp-" in path


def contents(folder: str) -> dict[str, bytes]:
    files = ((str(path.relative_to(folder)), path) for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {name: path.read_bytes() for name, path in files if not harmless(name)}


def check(place: Place, folder: str) -> None:
    root, out = place(f"{folder}/root", Steps()), place(f"{folder}/out", Steps())
    ledger = Ledger.view(root)
    assert (ledger.last_admitted, ledger.committed(UnitName("main"))) == (WORKERS, WORKERS)
    for epoch in range(1, WORKERS + 1):
        rows = [p.read_bytes() for p in sorted(Path(folder, "out", f"epoch={epoch}").glob("part-*"))]
        assert rows == [b"row %d\n" % epoch] * 2, f"epoch {epoch}"  # what a reader sees who knows nothing of markers
        assert PublishedEpochs(out).version(Epoch(epoch)) is not None
    newest = next(Checkpoints(root).newest_first())
    assert newest.units == {"main": WORKERS}
    assert saved_rows.files(root, layout.preserved(StreamName("words"), Epoch(WORKERS)))
    records = RecordLog.open(root, "sources/lines/log").records
    assert list(records) == [{"file": n} for n in range(1, WORKERS + 1)]


def fresh(place: Place, folder: str) -> None:
    pass


def used(place: Place, folder: str) -> None:
    """The folder of the sink has epochs of a root that is gone, whole and in pieces; the root has pieces, too."""
    out = place(f"{folder}/out", Steps()).fenced(SINK_STAGING, Fence(1))
    for epoch in (1, 2):
        staged, parts = stage(out, "json", b"of another root\n")
        PublishedEpochs(out).put(Epoch(epoch), "another", staged, parts)
    next(Path(folder, "out", "epoch=2").glob("part-0*")).unlink()
    root = place(f"{folder}/root", Steps())
    root.write(f"{layout.preserved(StreamName('words'), Epoch(1))}/part-9.parquet", [b"half"])


@pytest.fixture
def shared_memory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield folder


EVERY_STEP = [pytest.param(1, before, marks=pytest.mark.slow) for before in (used, fresh)]


@pytest.mark.parametrize(("stride", "before"), [(7, used), *EVERY_STEP])
@pytest.mark.parametrize("place", [local, remote])
def test_whenever_a_driver_sleeps_it_changes_nothing_when_it_wakes(
    place: Place, stride: int, before: Callable[[Place, str], None], shared_memory: str
) -> None:
    step = 1 - stride
    while True:
        step += stride
        folder = f"{shared_memory}/{step}"
        Path(folder).mkdir()
        before(place, folder)
        sleeper = asleep_at(place, folder, step)
        if sleeper is None:
            break
        try:
            root = place(f"{folder}/root", Steps())
            worker = drive(root, place(f"{folder}/out", Steps()), WORKERS)
            finished = contents(folder)
            os.kill(sleeper, signal.SIGCONT)
            _, status = os.waitpid(sleeper, 0)
        except BaseException:
            os.kill(sleeper, signal.SIGKILL)
            raise
        assert os.waitstatus_to_exitcode(status) in (0, 3), f"step {step}"
        if newest_generation(root) == worker:  # else it slept before it had the lease, and is the newer one
            assert contents(folder) == finished, f"step {step}"
        check(place, folder)
    assert step > 60
