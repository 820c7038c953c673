"""A snapshot that is kept by a host upstream brings a shard back when its own copy, and the one on the root, are gone (S2)."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apps
import pytest
from apps import Begin, Folder

from perseid.errors import RequestFailed
from perseid.host.copies_folder import local_copies
from perseid.primitives import persisted
from perseid.storage.store import Store
from perseid.testing import Clock, kill

pytestmark = pytest.mark.spark

ROWS = 4_000


@pytest.fixture
def far_root() -> Iterator[Path]:
    """A root that is not on the disk on which hosts have their own copies."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second filesystem to put a root on")
    root = Path(tempfile.mkdtemp(prefix="perseid-test-", dir=memory))
    yield root / "root"
    shutil.rmtree(root, ignore_errors=True)


def test_a_lost_shard_comes_back_from_the_host_that_keeps_its_backup(
    begin: Begin, folder: Folder, far_root: Path
) -> None:
    clock = Clock(1_000)
    running = begin(
        apps.counts(folder.out, ROWS, rate=1_000), root=str(far_root), period=600, clock=clock
    )  # no last checkpoint before the kill
    copies = local_copies(Store.at(str(far_root)))
    assert copies is not None
    clock.advance(seconds=2)
    apps.wait_for_epoch(running, 4)
    taken = running.checkpoint_state()
    wanted = {snapshot.file.path for snapshot in taken.snapshots}
    lost = next(s for s in taken.snapshots if s.index == 0)

    def kept() -> set[str]:
        return {entry["path"] for entry in apps.journal_of(far_root) if entry["kind"] == "backed_up"}

    apps.wait_until(lambda: wanted <= kept(), "a backup of every shard")
    assert stat.S_IMODE(copies.stat().st_mode) == 0o700
    keepers = {e["path"]: e["host"] for e in apps.journal_of(far_root) if e["kind"] == "backed_up"}
    home = next(host for host in running.progress().hosts if "count/0" in host.shards)
    assert keepers[lost.file.path] != home.host
    shutil.rmtree(copies)
    (far_root / lost.file.path).unlink()
    clock.advance(seconds=2)
    kill(running, host="count/0")
    apps.end(running)
    apps.check_counts(folder.out, ROWS)
    apps.wait_until(lambda: not copies.exists(), "copies to be gone with the application")
    restores = [entry["copies"] for entry in apps.journal_of(far_root) if entry["kind"] == "shards_restored"]
    assert any(read.get("backup") for read in restores), restores


@pytest.mark.slow
def test_an_operator_whose_shards_are_made_anew_goes_on_as_if_nothing_had_been(begin: Begin, folder: Folder) -> None:
    rows = 9_000
    running = begin(apps.counts(folder.out, rows, rate=1_500), period=600)
    with pytest.raises(RequestFailed, match="no stateful operator 'counter'"):
        running.restore_state("counter")
    apps.wait_for_epoch(running, 3)
    taken = running.checkpoint_state()
    saved = sum(sum(shard.processing["fields"]["totals"].values()) for shard in taken.state("count"))
    slices = [e["slices"]["numbers"] for e in apps.journal_of(folder.root) if e["kind"] == "epoch_admitted"]
    assert saved in {end for _, end in slices}, "all rows of all epochs up to one"
    files = running.persist("count", f"{folder.root}-elsewhere")
    kept = [persisted(Store.at(f"{folder.root}-elsewhere"), file)[1] for file in files]
    assert len(kept) == len(taken.snapshots)
    assert sum(sum(shard.processing["fields"]["totals"].values()) for shard in kept) >= saved
    for _ in range(2):
        running.restore_state("count")
    apps.wait_for_epoch(running, running.progress().epoch + 2)
    apps.end(running)
    apps.check_counts(folder.out, rows)
    with pytest.raises(RequestFailed, match="has ended"):
        running.checkpoint_state()
