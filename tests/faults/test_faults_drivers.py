"""The driver is killed with all its processes and started again from its root with the same command (issue 2: point 5)."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import apps
import pytest
from apps import Folder
from driver import Driver

pytestmark = pytest.mark.spark

ROWS = 12_000


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


class Start(Protocol):
    def __call__(self, app: str, *options: str) -> Driver: ...


@pytest.fixture
def start(folder: Folder) -> Iterator[Start]:
    """Starts a driver; nothing of it is left after the test."""
    started: list[Driver] = []

    def run(app: str, *options: str) -> Driver:
        started.append(Driver(app, folder, "--rows", str(ROWS), *options))
        return started[-1]

    yield run
    for driver in started:
        driver.kill_everything()


def half_written(root: str) -> bool:
    """Is a checkpoint on its way?"""
    newest = max(Path(root, "checkpoints").glob("*"), default=None)
    return newest is not None and not (newest / "manifest.json").exists() and any(newest.glob("*"))


@pytest.mark.parametrize("scheme", ["parallel", pytest.param("source", marks=pytest.mark.slow)])
def test_a_killed_driver_goes_on_where_it_was(start: Start, folder: Folder, scheme: str) -> None:
    first = start("counts", "--scheme", scheme)
    first.wait_for_checkpoint()
    first.kill_everything()
    start("counts", "--scheme", scheme).wait()
    apps.check_counts(folder.out, ROWS)
    assert [e["mode"] for e in folder.journal() if e["kind"] == "recovery_started"][:1] == ["application"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["baseline", "adaptive"])
def test_units_of_a_killed_driver_go_on_where_they_fit_together(start: Start, folder: Folder, scheme: str) -> None:
    first = start("units", "--scheme", scheme)
    first.wait_for_checkpoint(4)
    first.kill_everything()
    start("units", "--scheme", scheme).wait()
    apps.check_units(folder.out, ROWS)


@pytest.mark.slow
def test_a_driver_killed_alone_and_twice_is_taken_over_from_at_once(start: Start, folder: Folder) -> None:
    first = start("units", "--kind", "retained")
    first.wait_for_epoch(6)
    first.kill_driver()
    second = start("units", "--kind", "retained")  # hosts and JVM of the first may still be there
    second.wait_for_epoch(12)
    second.kill_everything()
    start("units", "--kind", "retained").wait()
    apps.check_units(folder.out, ROWS)


@pytest.mark.slow
def test_a_driver_killed_while_a_checkpoint_is_written_uses_the_one_before(start: Start, folder: Folder) -> None:
    first = start("heavy")
    first.wait_for_checkpoint()
    first.wait_until(lambda: half_written(folder.root), "a checkpoint on its way")
    first.kill_everything()
    start("heavy").wait()
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_a_driver_killed_before_its_first_checkpoint_starts_from_the_first_row(start: Start, folder: Folder) -> None:
    first = start("chain", "--period", "600")
    first.wait_for_epoch(5)
    first.kill_everything()
    start("chain", "--period", "600").wait()
    apps.check_rollup(folder.out, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("app", ["visits", "late", "ordered"])
def test_time_and_order_are_the_same_after_a_restart(start: Start, folder: Folder, app: str) -> None:
    first = start(app, "--rate", "3000")
    first.wait_for_epoch(10)
    first.kill_everything()
    start(app, "--rate", "3000").wait()
    match app:
        case "visits":
            apps.check_visits(folder.out, ROWS)
        case "late":
            assert apps.check_late(folder.out, ROWS, folder.journal()) > 0
        case _:
            apps.check_ordered(folder.out, ROWS)


@pytest.mark.slow
def test_a_paused_driver_that_wakes_after_it_was_replaced_changes_nothing(start: Start, folder: Folder) -> None:
    first = start("counts", "--lease-seconds", "2")
    first.wait_for_checkpoint()
    os.kill(first.pid, signal.SIGSTOP)
    second = start("counts", "--lease-seconds", "2")
    second.wait_for_epoch(first.progress["epoch"] + 2)
    os.kill(first.pid, signal.SIGCONT)
    second.wait()
    assert first.exit_code() == 1
    assert first.error is not None and "taken over" in first.error["message"], first.error
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_rows_put_aside_stay_aside_after_a_restart_even_if_the_operator_could_take_them_now(
    start: Start, folder: Folder
) -> None:
    """What the sink holds was computed without them, so the state must be, too."""
    mark = Path(f"{folder.root}-mark")
    mark.touch()
    options = ("--breaks", "1500", str(mark), "while", "--dead-letters", "--period", "600")
    first = start("counts", *options)
    first.wait_for_epoch(9)
    first.kill_everything()
    mark.unlink()
    start("counts", *options).wait()
    aside = {row["seq"] for row in apps.dead_letters(folder.root, "count")}
    assert 1500 in aside
    apps.check_totals(folder.out, "key", Counter(n % apps.KEYS for n in range(ROWS) if n not in aside))
