"""The driver is killed with all its processes and started again from its root with the same command."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import apps
import pytest
from apps import Folder
from driver import ROWS, Driver, Start

from perseid.errors import ApplicationFailed
from perseid.storage.ledger import Ledger
from perseid.storage.store import Store
from perseid.testing.counter import count_fault
from perseid.vocabulary import SourceName

pytestmark = pytest.mark.spark


def crash(driver: Driver, *, alone: bool = False) -> None:
    """Kill the driver, with all it started or alone, and leave it dead."""
    count_fault("crash_driver")
    if alone:
        driver.kill_alone()
    else:
        driver.kill()


def half_written(root: str) -> bool:
    """Is a checkpoint on its way?"""
    newest = max(Path(root, "checkpoints").glob("*"), default=None)
    return newest is not None and not (newest / "manifest.json").exists() and any(newest.glob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["parallel", "source"])
def test_a_killed_driver_goes_on_where_it_was(start: Start, folder: Folder, scheme: str) -> None:
    first = start("counts", "--scheme", scheme)
    first.wait_for_checkpoint()
    crash(first)
    start("counts", "--scheme", scheme).finish()
    apps.check_counts(folder.out, ROWS)
    assert [e["mode"] for e in folder.journal() if e["kind"] == "recovery_started"][:1] == ["application"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["baseline", "adaptive"])
def test_units_of_a_killed_driver_go_on_where_they_fit_together(start: Start, folder: Folder, scheme: str) -> None:
    options = ("--scheme", scheme, "--rate", "1200")
    first = start("units", *options)
    first.wait_for_checkpoint(4)
    crash(first)
    start("units", *options).finish()
    apps.check_units(folder.out, ROWS)


@pytest.mark.slow
def test_a_driver_killed_alone_and_twice_is_taken_over_from_at_once(start: Start, folder: Folder) -> None:
    first = start("units", "--kind", "retained")
    first.wait_for_epoch(6)
    crash(first, alone=True)
    second = start("units", "--kind", "retained")  # hosts and JVM of the first may still be there
    second.wait_for_epoch(12)
    crash(second)
    start("units", "--kind", "retained").finish()
    apps.check_units(folder.out, ROWS)


@pytest.mark.slow
def test_a_driver_killed_while_a_checkpoint_is_written_uses_the_one_before(start: Start, folder: Folder) -> None:
    first = start("heavy")
    first.wait_for_checkpoint()
    first.wait_until(lambda: half_written(folder.root), "a checkpoint on its way")
    crash(first)
    start("heavy").finish()
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_a_driver_killed_before_its_first_checkpoint_starts_from_the_first_row(start: Start, folder: Folder) -> None:
    first = start("chain", "--period", "600")
    first.wait_for_epoch(5)
    crash(first)
    start("chain", "--period", "600").finish()
    apps.check_rollup(folder.out, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("app", ["visits", "late", "ordered"])
def test_time_and_order_are_the_same_after_a_restart(start: Start, folder: Folder, app: str) -> None:
    first = start(app, "--rate", "3000")
    first.wait_for_epoch(10)
    crash(first)
    start(app, "--rate", "3000").finish()
    match app:
        case "visits":
            apps.check_visits(folder.out, ROWS)
        case "late":
            assert apps.check_late(folder.out, ROWS, folder.journal()) > 0
        case _:
            apps.check_ordered(folder.out, ROWS)


@pytest.mark.slow
def test_bad_lines_are_put_aside_once_and_no_good_one_is_lost_however_often_the_driver_dies(
    start: Start, folder: Folder
) -> None:
    into = Path(f"{folder.out}-in")
    into.mkdir()
    bad = []
    for number in range(60):
        lines = [json.dumps({"word": f"w{n % 7}"}) for n in range(50)]
        if number % 3:  # every third file is good
            bad += [f'{{"word": "cut off in {number}', f"no JSON in {number}"]
            lines[10:10] = bad[-2:-1]
            lines.append(bad[-1])
        (into / f"{number:02d}.json").write_text("".join(line + "\n" for line in lines))
    options = ("--available-now", "--epoch-rows", "100", "--period", "2")
    for epoch in (3, 7, 11):
        driver = start("dirty", *options)
        driver.wait_for_epoch(epoch)
        crash(driver)
    start("dirty", *options).finish()
    apps.check_totals(folder.out, "word", Counter(f"w{n % 7}" for _ in range(60) for n in range(50)))
    letters = [
        json.loads(line)["line"]
        for file in sorted(Path(folder.root, "dead-letters", "lines").glob("file=*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    assert sorted(letters) == sorted(bad)
    assert Ledger.view(Store.at(folder.root)).offset(SourceName("lines")) == 60


@pytest.mark.slow
def test_a_paused_driver_that_wakes_after_it_was_replaced_changes_nothing(start: Start, folder: Folder) -> None:
    first = start("counts", "--lease-seconds", "2")
    first.wait_for_checkpoint()
    os.kill(first.pid, signal.SIGSTOP)
    count_fault("pause")
    second = start("counts", "--lease-seconds", "2")
    second.wait_for_epoch(first.picture.epoch + 2)
    os.kill(first.pid, signal.SIGCONT)
    second.finish()
    with pytest.raises(ApplicationFailed, match="taken over"):
        first.wait(apps.WAIT_S)
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
    crash(first)
    mark.unlink()
    start("counts", *options).finish()
    aside = {row["seq"] for row in apps.dead_letters(folder.root, "count")}
    assert aside == {1500}
    apps.check_totals(folder.out, "key", Counter(n % apps.KEYS for n in range(ROWS) if n not in aside))
