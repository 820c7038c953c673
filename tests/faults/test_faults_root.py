"""Damage under the checkpoint root, a full disk, a second driver, another graph (recovery always ends)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apps
import pytest
from apps import Begin, Folder

from perseid import App, Operator, sinks, state
from perseid.errors import GraphChanged, LeaseHeld, RootError
from perseid.testing import fail_storage
from perseid.testing.counter import count_fault
from perseid.testing.faults import Corrupt
from perseid.testing.storage import corrupt as damage

pytestmark = pytest.mark.spark

HALF, ROWS = 3_000, 6_000


def half_done(begin: Begin, folder: Folder, **more: Any) -> None:
    """A root as a run leaves it that has counted half of the rows: its source ended there."""
    assert begin(apps.counts(folder.out, HALF), **more).wait(apps.WAIT_S)


def checkpoints(folder: Folder) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(p.parent for p in Path(folder.root, "checkpoints").glob("*/manifest.json"))


def damaged(folder: Folder, which: Any) -> None:
    """Flip a byte in a snapshot of the newest checkpoint, or in all snapshots of all."""
    damage(folder.root, Corrupt("flip", which))
    count_fault("corrupt")


def flip_a_byte(file: Path) -> None:
    with file.open("r+b") as stream:  # in place: a second copy that is a hard link is hit, too
        stream.seek(file.stat().st_size // 2)
        byte = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte[0] ^ 0xFF]))


def test_a_corrupt_newest_snapshot_makes_the_one_before_count(begin: Begin, folder: Folder) -> None:
    half_done(begin, folder)
    before, newest = checkpoints(folder)[-2:]
    damaged(folder, "newest")
    assert begin(apps.counts(folder.out, ROWS)).wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)
    started = [e for e in folder.journal() if e["kind"] == "recovery_started" and e["generation"] == 2]
    assert [e["checkpoint"] for e in started] == [int(newest.name), int(before.name)]
    assert "fails its hash" in started[-1]["reason"]


@pytest.mark.slow
def test_a_corrupt_manifest_makes_the_one_before_count(begin: Begin, folder: Folder) -> None:
    half_done(begin, folder)
    before, newest = checkpoints(folder)[-2:]
    flip_a_byte(newest / "manifest.json")
    count_fault("corrupt")
    assert begin(apps.counts(folder.out, ROWS)).wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)
    journal = [e for e in folder.journal() if e["generation"] == 2]
    assert any(e["kind"] == "checkpoint_failed" and e["checkpoint"] == int(newest.name) for e in journal)
    assert next(e for e in journal if e["kind"] == "recovery_started")["checkpoint"] == int(before.name)


@pytest.mark.slow
def test_all_snapshots_corrupt_means_from_the_first_row_again_while_it_can_be_read(
    begin: Begin, folder: Folder
) -> None:
    half_done(begin, folder, keep=100)  # nothing is trimmed
    damaged(folder, "all")
    assert begin(apps.counts(folder.out, ROWS), keep=100).wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)
    last = [e for e in folder.journal() if e["kind"] == "recovery_started"][-1]
    assert (last["checkpoint"], last["lost_epochs"]) == (None, 0)


@pytest.mark.slow
def test_all_snapshots_corrupt_and_the_ledger_trimmed_is_said_aloud_and_goes_on(begin: Begin, folder: Folder) -> None:
    half_done(begin, folder, keep=1)
    damaged(folder, "all")
    assert begin(apps.counts(folder.out, ROWS), keep=1).wait(apps.WAIT_S)
    last = [e for e in folder.journal() if e["kind"] == "recovery_started"][-1]
    assert last["checkpoint"] is None and last["lost_epochs"] > 0  # state of these is gone: it says so
    added = sum(row["added"] for rows in apps.epochs_of(folder.out).values() for row in rows)
    assert added == ROWS  # no row is lost or doubled in the output even so


@pytest.mark.slow
def test_a_torn_end_of_the_ledger_is_dropped(begin: Begin, folder: Folder) -> None:
    half_done(begin, folder)
    ledger = max(Path(folder.root, "ledger").glob("*.jsonl"))
    with ledger.open("ab") as stream:
        stream.write(b'{"line": 999, "records": [{"adm')
    assert begin(apps.counts(folder.out, ROWS)).wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_a_ledger_that_lost_its_last_records_does_not_double_what_the_sink_has(begin: Begin, folder: Folder) -> None:
    """As if the machine had lost power before the last line reached the disk."""
    half_done(begin, folder, checkpoint=apps.scheme("parallel", 600), keep=100)
    for checkpoint in checkpoints(folder):
        (checkpoint / "manifest.json").unlink()
    ledger = max(Path(folder.root, "ledger").glob("*.jsonl"))
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-2]) + lines[-2][:20])
    assert begin(apps.counts(folder.out, ROWS)).wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)


def test_a_second_driver_on_a_live_root_is_refused_and_the_first_goes_on(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS))
    apps.wait_for_epoch(running, 2)
    with pytest.raises(LeaseHeld, match="in use by"):
        begin(apps.counts(folder.out, ROWS))
    assert running.wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)


class OtherState(Operator):
    sums: dict[int, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None:
        return None


def test_a_root_of_another_graph_is_refused_and_says_what_changed(begin: Begin, folder: Folder) -> None:
    half_done(begin, folder)
    held = {str(p): p.read_bytes() for p in Path(folder.root, "ledger").iterdir()}
    with pytest.raises(GraphChanged, match=r"'count'.*(OtherState|sums)"):
        begin(apps.counts(folder.out, ROWS, operator=OtherState()))
    app = App("counts")
    stream = app.source("numbers", apps.numbers(ROWS))
    stream.stateful("count", apps.Count(), key="seq", shards=3, output=apps.COUNTED).sink(
        "out", sinks.parquet(folder.out)
    )
    with pytest.raises(GraphChanged, match=r"'count'.*key"):
        begin(app)
    assert {str(p): p.read_bytes() for p in Path(folder.root, "ledger").iterdir()} == held
    assert begin(apps.counts(folder.out, ROWS)).wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)


def test_a_root_that_is_a_file_is_refused(begin: Begin, folder: Folder) -> None:
    Path(folder.root).write_text("not a folder")
    with pytest.raises(RootError, match="cannot be used"):
        begin(apps.counts(folder.out, ROWS))


def test_a_root_on_a_read_only_filesystem_is_refused(begin: Begin, folder: Folder) -> None:
    with mounted(Path(folder.root), "ro,size=1m"), pytest.raises(RootError, match="read-only"):
        begin(apps.counts(folder.out, ROWS))


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A small filesystem of its own at a folder."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small filesystem to fill up: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_root_holds_the_application_up_and_loses_nothing(begin: Begin, folder: Folder) -> None:
    with mounted(Path(folder.root), "size=4m"):
        running = begin(apps.counts(folder.out, ROWS))
        apps.wait_for_checkpoint(running)
        full = fail_storage(running, "full", seconds=600)
        stuck = running.progress().epoch
        time.sleep(4)  # epochs and checkpoints fail meanwhile
        assert not running.wait(0), "the application must wait for space"
        full.heal()
        apps.wait_for_epoch(running, stuck + 3)
        assert running.wait(apps.WAIT_S)
        apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_a_full_sink_holds_the_application_up_and_loses_nothing(begin: Begin, folder: Folder) -> None:
    with mounted(Path(folder.out), "size=4m"):
        running = begin(apps.counts(folder.out, ROWS))
        apps.wait_for_epoch(running, 3)
        fill(Path(folder.out, "_ballast"))
        count_fault("fail_storage")
        stuck = running.progress().epoch
        time.sleep(4)
        assert not running.wait(0), "the application must wait for space"
        assert running.progress().epoch <= stuck + 2
        Path(folder.out, "_ballast").unlink()
        assert running.wait(apps.WAIT_S)
        apps.check_counts(folder.out, ROWS)


def fill(file: Path) -> None:
    """Leave no byte free."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
