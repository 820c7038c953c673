"""Perseid's side: runs its applications, in its own process, and gives back the journal of what happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import perseid
from perseid import App, every
from perseid.bench.measuring import applications
from perseid.bench.measuring.memory import DriverMemory
from perseid.bench.measuring.processors import Processor
from perseid.bench.measuring.sizes import CHECKPOINT_S, ROWS_PER_EPOCH, SHARDS, SMALL_ROWS
from perseid.driver.running import Running
from perseid.engine.progress import Progress
from perseid.spark.session import spark_session
from perseid.storage.journal import read_journal
from perseid.storage.store import Store

Journal = list[dict[str, Any]]
CHECKPOINTS = perseid.checkpoints.parallel(every(seconds=CHECKPOINT_S))
NO_CHECKPOINTS = perseid.checkpoints.parallel(every(hours=24))
PATIENCE_S = 500.0


def begin(master: str | None = None, *, hosts: int = SHARDS) -> None:
    """Start Spark as Perseid does for an application that brings no session: two hosts and a spare."""
    spark_session(master, hosts=hosts, spares=1, app_name="perseid-bench").range(1).count()


def spark() -> SparkSession:
    """This process's session."""
    return SparkSession.builder.getOrCreate()


def count(folder: Path, work: Path, epochs: int, *, combine: bool) -> Journal:
    """The keyed count until so many epochs are done and, as the one that is judged, it has had a checkpoint."""
    app = applications.count(folder, work / "out", combine=combine)
    running = start(app, work, max_rows_per_epoch=ROWS_PER_EPOCH)
    wait_for(running, lambda p: p.epoch >= epochs and (p.checkpoints > 0 or combine))
    happened = end(running)
    _check(work / "out", happened)
    return happened


def processor(
    folder: Path, work: Path, epochs: int, rows: int, kind: type[Processor], *, pandas: bool, checkpoint: bool
) -> Journal:
    """A processor until so many epochs are done and, where that is wanted, it has had a checkpoint."""
    app = applications.processor(folder, work / "out", kind, pandas=pandas)
    running = start(app, work, max_rows_per_epoch=rows)
    wait_for(running, lambda p: p.epoch >= epochs and (p.checkpoints > 0 or not checkpoint))
    return end(running)


def _check(out: Path, happened: Journal) -> None:
    """A count that is wrong is not worth its speed: every epoch has every key, so its counts add up to all rows so far."""
    commits = [entry for entry in happened if entry["kind"] == "epoch_committed"]
    newest = pq.ParquetDataset(out / f"epoch={commits[-1]['epoch']}").read(columns=["n"])
    counted, rows = pc.sum(newest["n"]).as_py(), sum(entry["rows_in"] for entry in commits)
    assert counted == rows, f"the count is wrong: {counted:,} of {rows:,} rows"


def small(
    folder: Path, work: Path, epochs: int, read_at: int, *, sink: str
) -> tuple[Journal, DriverMemory, DriverMemory]:
    """The keyed count in so many epochs of a thousand rows; the driver's memory after ``read_at`` of them and at the end."""
    app = applications.count(folder, work / "out", combine=False, sink=sink)
    running = start(app, work, max_rows_per_epoch=SMALL_ROWS)
    wait_for(running, lambda p: p.epoch >= read_at)
    before = DriverMemory.read(spark())
    wait_for(running, lambda p: p.epoch >= epochs)
    after = DriverMemory.read(spark())
    return end(running), before, after


def start(app: App, work: Path, **settings: Any) -> Running:
    """Start an application on a root of its own."""
    settings = {"checkpoint": CHECKPOINTS, "hosts": SHARDS, "spares": 1, **settings}
    return app.start(spark(), root=str(work / "root"), **settings)


def wait_for(running: Running, reached: Callable[[Progress], bool]) -> Progress:
    """Wait until its picture shows something."""
    until = time.monotonic() + PATIENCE_S
    while not reached(progress := running.progress()):
        assert not running.wait(0.05), "the application ended before it was measured"
        assert time.monotonic() < until, f"waited over {PATIENCE_S:.0f} s; last: {progress}"
    return progress


def end(running: Running) -> Journal:
    """Stop it; what happened."""
    running.stop()
    return list(read_journal(Store.at(running.root)))
