"""An application always ends or goes on: whatever hangs, ``stop`` ends it and frees its task slots; what waits, says for what."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App, Operator, every, state
from perseid.driver.running import Running
from perseid.errors import ApplicationFailed
from perseid.spark import task_slots

pytestmark = pytest.mark.spark


def application(name: str, operator: Operator, out: Any, rows: int | None = None) -> App:
    app = App(name)
    stream = app.source("numbers", perseid.sources.generator({"key": "id % 5"}, rate=200, rows=rows))
    stream.stateful("op", operator, key="key", shards=2, output="key long, added long, total long").sink("out", out)
    return app


def hanging(while_there: Path, process: Callable[[], None]) -> Operator:
    """Does something bad in every epoch as long as a file is there."""

    class Hangs(Operator):
        totals: dict[int, int] = state(default_factory=dict)

        def process(self, rows: pa.Table) -> None:
            if while_there.exists():
                process()

    return Hangs()


@pytest.fixture
def held_slots(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Holds so many task slots until the file it returns is gone."""
    holding = tmp_path / "holding"

    def hold(count: int) -> Path:
        holding.touch()
        path = str(holding)

        def sleeps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                while os.path.exists(path):  # noqa: PTH110
                    time.sleep(0.05)
                yield batch

        frame = spark.range(0, count, 1, count).mapInArrow(sleeps, "id long")
        threading.Thread(target=frame.collect, daemon=True).start()
        apps.wait_until(lambda: task_slots.used_slots(spark) == count, "tasks that hold slots")
        return holding

    yield hold
    holding.unlink(missing_ok=True)
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "free slots")


def runs_to_its_end(spark: SparkSession, root: Path) -> None:
    """Another application has all it needs."""
    out = perseid.sinks.memory()
    application("next", apps.Count(), out, rows=50).run(spark, root=str(root), hosts=2, spares=1)
    assert sum(row["added"] for row in out.rows()) == 50


def test_an_application_whose_operator_hangs_ends_when_told_to_and_frees_its_slots(
    spark: SparkSession, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.touch()
    hung = tmp_path / "hung"

    def hang() -> None:
        hung.touch()
        time.sleep(3_600)

    app = application("hangs", hanging(there, hang), perseid.sinks.memory())
    running = app.start(spark, root=str(tmp_path / "hangs"), hosts=2, spares=1)
    apps.wait_until(hung.exists, "an operator that hangs")
    with pytest.raises(ApplicationFailed, match=r"did not stop within 1 s and was ended.*start it again"):
        running.stop(1)
    assert running.progress().phase == "failed"
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "free slots")
    there.unlink()
    running = app.start(spark, root=str(tmp_path / "hangs"), hosts=2, spares=1)
    apps.wait_for_epoch(running, 2)
    running.stop()


def test_an_application_in_a_spark_that_does_not_answer_ends_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    gateway: Any = SparkContext._gateway
    jvm = next(p for p in [psutil.Process(gateway.proc.pid), *psutil.Process(gateway.proc.pid).children(recursive=True)]
               if p.name().startswith("java"))  # fmt: skip
    running = application("stuck", apps.Count(), perseid.sinks.memory()).start(
        spark, root=str(tmp_path / "stuck"), hosts=2, spares=0
    )
    apps.wait_for_epoch(running, 1)
    hosts = [host.pid for host in running.progress().hosts]
    os.kill(jvm.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ApplicationFailed, match="did not stop within 1 s"):
            running.stop(1)
        apps.wait_until(lambda: not any(_alive(pid) for pid in hosts), "hosts that are gone")
    finally:
        os.kill(jvm.pid, signal.SIGCONT)
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "free slots")
    runs_to_its_end(spark, tmp_path / "next")


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_start_without_a_free_task_slot_says_so_and_gives_up(
    spark: SparkSession, tmp_path: Path, held_slots: Callable[[int], Path], caplog: pytest.LogCaptureFixture
) -> None:
    held_slots(4)
    app = application("waits", apps.Count(), perseid.sinks.memory())
    with caplog.at_level(logging.WARNING), pytest.raises(ApplicationFailed, match="4 of the session's 4"):
        app.start(spark, root=str(tmp_path / "waits"), hosts=2, spares=0, start_timeout=every(seconds=7))
    assert "application 'waits' waits for a task slot:" in caplog.text


def test_hosts_that_wait_for_task_slots_are_told_of_until_they_have_them(
    spark: SparkSession, tmp_path: Path, held_slots: Callable[[int], Path]
) -> None:
    holding, out = held_slots(3), perseid.sinks.memory()
    running = application("waits", apps.Count(), out, rows=50).start(
        spark, root=str(tmp_path / "waits"), hosts=2, spares=0
    )
    try:
        told = apps.wait_until(lambda: running.progress().trouble, "somebody who says what is wrong")
        assert "waits for task slots for a host" in told and "larger master" in told
        holding.unlink()
        assert running.wait(300) and sum(row["added"] for row in out.rows()) == 50
        assert not running.progress().trouble
    finally:
        _stop(running)


def test_an_epoch_that_cannot_be_had_is_told_with_its_reason_and_the_attempt(
    spark: SparkSession, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.touch()

    def fails() -> None:
        raise ValueError("no such luck")

    app = application("fails", hanging(there, fails), perseid.sinks.memory())
    running = app.start(spark, root=str(tmp_path / "fails"), hosts=1, spares=0, operator_retries=50)
    try:
        told = apps.wait_until(
            lambda: "attempt 3" in running.progress().trouble and running.progress().trouble, "trouble"
        )
        assert "unit 'main': epoch 1, attempt 3" in told and "no such luck" in told
        there.unlink()
        apps.wait_for_epoch(running, 2)
        assert not running.progress().trouble
    finally:
        _stop(running)


def _stop(running: Running) -> None:
    if not running.wait(0):
        running.stop()
