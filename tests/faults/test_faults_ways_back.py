"""Other ways back than a snapshot and the epochs since, and several shards that come back for one: every row still counts once (S4, S8)."""

from __future__ import annotations

import os
import signal

import apps
import pytest
from apps import Begin, Folder

from perseid.checkpoint.schemes import Scheme
from perseid.checkpoints import comparison
from perseid.driver.running import Running
from perseid.testing import Clock
from perseid.testing.counter import count_fault

pytestmark = pytest.mark.spark

ROWS = 5_000


def kill_a_holder(running: Running) -> None:
    os.kill(next(host.pid for host in running.progress().hosts if host.shards), signal.SIGKILL)
    count_fault("kill")


@pytest.mark.parametrize(
    ("scheme", "mode"),
    [
        (comparison.upstream_backup(), "shards"),
        pytest.param(comparison.source_replay(), "application", marks=pytest.mark.slow),
    ],
)
def test_without_checkpoints_what_was_lost_is_made_again(
    begin: Begin, folder: Folder, scheme: Scheme, mode: str
) -> None:
    clock = Clock(1_000)
    running = begin(apps.counts(folder.out, ROWS, rate=1_500), checkpoint=scheme, clock=clock)
    clock.advance(seconds=2.2)  # thirteen epochs
    apps.wait_for_epoch(running, 12)
    clock.advance(seconds=2)
    kill_a_holder(running)
    apps.end(running)
    apps.check_counts(folder.out, ROWS)
    (recovery,) = [e for e in folder.journal() if e["kind"] == "recovery_started" and e["reason"] != "start"]
    assert (recovery["mode"], recovery["checkpoint"]) == (mode, None)


@pytest.mark.parametrize("kept", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["kept input", "sources"])
def test_two_shards_that_come_back_for_one_have_all_of_its_rows(begin: Begin, folder: Folder, kept: bool) -> None:
    clock, app = Clock(1_000), apps.counts(folder.out, ROWS, rate=1_500, shards=2)
    running = begin(app, period=60, parallel_recovery=2, spares=2, clock=clock)
    clock.advance(seconds=2.2)  # thirteen epochs
    apps.wait_for_epoch(running, 12)
    clock.advance(seconds=0.5)
    if not kept:
        for host in running.progress().hosts:
            for entry in apps.kept_input(host.pid).glob("*/3"):
                entry.unlink()
    kill_a_holder(running)
    apps.wait_until(lambda: sum(len(h.shards) for h in running.progress().hosts) == 3, "three shards")
    clock.advance(seconds=2)
    apps.end(running)
    apps.check_counts(folder.out, ROWS)
