"""A driver is stopped in the middle of a commit, another one finishes, the first wakes: every row is there once, no file has changed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import apps
import pytest
from apps import Folder
from driver import Driver, Start

from perseid.errors import ApplicationFailed
from perseid.testing.counter import count_fault

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROWS = 2_400
STEPS = 40
"""More than a commit has; who makes fewer does not fall asleep."""


def started(start: Start, app: str, *options: str) -> Driver:
    return start(app, "--lease-seconds", "2", "--rows", str(ROWS), *options)


def contents(folder: Folder) -> dict[str, bytes]:
    """All that a reader sees of the output, and what the root keeps of streams and checkpoints."""
    base = Path(folder.root).parent
    kept = [
        *base.glob("out*/epoch=*/*"),
        *base.glob("root/preserved/*/*/*"),
        *base.glob("root/checkpoints/*/manifest.json"),
    ]
    return {str(file.relative_to(base)): file.read_bytes() for file in kept if file.is_file()}


def sleep_finish_wake(start: Start, folder: Folder, app: str, step: str, *options: str) -> bool:
    """Whether the first driver fell asleep."""
    mark = Path(f"{Path(folder.root).parent}.asleep")
    first = started(start, app, "--asleep-before", step, *options)
    apps.wait_until(lambda: mark.exists() or first.exit_code() is not None, "a driver that sleeps")
    if not mark.exists():
        return False
    count_fault("pause")
    second = started(start, app, *options)
    second.finish()
    finished = contents(folder)
    os.kill(first.pid, signal.SIGCONT)
    with pytest.raises(ApplicationFailed, match="taken over"):
        first.wait(apps.WAIT_S)
    assert contents(folder) == finished
    return True


@pytest.mark.parametrize("step", ["staged", pytest.param("publish", marks=pytest.mark.slow)])
def test_a_driver_that_wakes_at_the_very_moment_of_a_commit_changes_nothing(
    start: Start, folder: Folder, step: str
) -> None:
    assert sleep_finish_wake(start, folder, "counts", step)
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, STEPS))
def test_a_driver_that_wakes_at_any_step_of_a_commit_changes_nothing(start: Start, folder: Folder, step: int) -> None:
    """A durable stream, two sinks, the ledger; a checkpoint now and then."""
    sleep_finish_wake(start, folder, "units", str(step), "--kind", "durable", "--period", "0.3")
    apps.check_units(folder.out, ROWS)
