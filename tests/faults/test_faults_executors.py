"""Executors die on a cluster of separate JVMs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import apps
import pytest
from apps import Folder
from driver import CLUSTER, ROWS, Start

from perseid.errors import ApplicationFailed
from perseid.testing import crash_driver, kill

pytestmark = pytest.mark.spark


@pytest.fixture
def start(start: Start) -> Start:
    return lambda app, *options: start(app, "--master", CLUSTER, *options)


def test_a_killed_executor_costs_no_row(start: Start, folder: Folder) -> None:
    rows = 4_500
    driver = start("counts", "--rows", str(rows), "--period", "0.5")
    driver.wait_for_checkpoint()
    kill(driver, executor="count/0")
    driver.finish()
    apps.check_counts(folder.out, rows)
    assert "host_lost" in folder.kinds()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transient", "retained", "durable"])
def test_units_lose_nothing_when_an_executor_takes_streams_and_hosts_with_it(
    start: Start, folder: Folder, kind: str
) -> None:
    driver = start("units", "--kind", kind)
    driver.wait_for_checkpoint()
    for _ in range(2):
        epoch = driver.picture.epoch
        driver.wait_for_epoch(epoch + 3)
        kill(driver, executor="count/0")
        driver.wait_for_epoch(epoch + 5)
    driver.finish()
    apps.check_units(folder.out, ROWS)
    modes = [e["mode"] for e in folder.journal() if e["kind"] == "recovery_started"][1:]
    assert modes and (kind == "transient" or "shards" in modes)
    if kind == "retained":
        assert set(modes) == {"shards"}


@pytest.mark.slow
def test_all_executors_killed_at_once_lose_nothing(start: Start, folder: Folder) -> None:
    driver = start("chain")
    driver.wait_for_checkpoint()
    kill(driver, executor="all")
    driver.finish()
    apps.check_rollup(folder.out, ROWS)


@pytest.mark.slow
def test_an_operator_that_raises_on_a_cluster_stops_the_application_with_its_own_words(
    start: Start, folder: Folder
) -> None:
    """Spark runs the failed task again by itself there: the shard must not answer the repetition with something vaguer."""
    driver = start("counts", "--breaks", "3000", "nowhere", "always")
    with pytest.raises(ApplicationFailed, match="row 3000 is more than I can take"):
        driver.wait(apps.WAIT_S)


@pytest.mark.slow
def test_a_word_count_whose_hosts_executors_and_driver_are_killed_in_turn_is_exact(
    start: Start, folder: Folder
) -> None:
    lines = [" ".join(f"w{(n * 7 + k) % 113}" for k in range(8)) for n in range(6_000)]
    into = Path(f"{folder.out}-in")
    into.mkdir()
    for number in range(40):
        (into / f"{number:03d}.txt").write_text(
            "".join(f"{line}\n" for line in lines[number * 150 : (number + 1) * 150])
        )
    expected = Counter(word for line in lines for word in line.split(" "))
    options = ("--available-now", "--epoch-rows", "150")
    first = start("words", *options)
    first.wait_for_checkpoint()
    kill(first, host=0)
    first.wait_for_epoch(first.picture.epoch + 3)
    kill(first, executor="any")
    first.wait_for_epoch(first.picture.epoch + 3)
    crash_driver(first)
    first.finish()
    apps.check_totals(folder.out, "word", expected)
