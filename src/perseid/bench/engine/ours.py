"""Perseid's side: runs its applications for one round each, in its own process, and gives back the journal of what happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import perseid
from perseid import App, every
from perseid.bench.engine import applications
from perseid.bench.engine.sizes import CHECKPOINT_S, ROWS_PER_EPOCH, SHARDS, SMALL_ROWS
from perseid.engine.progress import Progress
from perseid.spark import session
from perseid.spark.runtime import Running
from perseid.storage.journal import read_journal
from perseid.storage.store import Store

Journal = list[dict[str, Any]]
CHECKPOINTS = perseid.parallel(every(seconds=CHECKPOINT_S))
NO_CHECKPOINTS = perseid.parallel(every(hours=24))
PATIENCE_S = 240.0


@cache
def spark(master: str | None = None) -> SparkSession:
    """This process's session, as Perseid builds it for an application that brings none: two hosts and a spare."""
    return session.build(master, hosts=SHARDS, spares=1, app_name="perseid-bench")


def begin(master: str | None = None) -> None:
    """Start Spark."""
    spark(master).range(1).count()


def count(folder: Path, work: Path, epochs: int, *, combine: bool) -> Journal:
    """The keyed count until so many epochs are done and it has had a checkpoint."""
    app = applications.count(folder, work / "out", combine=combine)
    running = start(app, work, max_rows_per_epoch=ROWS_PER_EPOCH)
    wait_for(running, lambda p: p.epoch >= epochs and p.checkpoints > 0)
    return end(running)


def small(folder: Path, work: Path) -> Journal:
    """The keyed count in epochs of a thousand rows, until all files are read."""
    app = applications.count(folder, work / "out", combine=False)
    running = start(app, work, max_rows_per_epoch=SMALL_ROWS, available_now=True)
    running.wait(PATIENCE_S)
    return journal(running)


def start(app: App, work: Path, **settings: Any) -> Running:
    """Start an application on a root of its own."""
    settings = {"checkpoint": CHECKPOINTS, "hosts": SHARDS, "spares": 1, **settings}
    return app.start(spark(), root=str(work / "root"), **settings)


def wait_for(running: Running, reached: Callable[[Progress], bool], every_s: float = 0.05) -> Progress:
    """Wait until its picture shows something."""
    until = time.monotonic() + PATIENCE_S
    while not reached(progress := running.progress()):
        assert not running.wait(every_s), "the application ended before it was measured"
        assert time.monotonic() < until, f"waited over {PATIENCE_S:.0f} s; last: {progress}"
    return progress


def end(running: Running) -> Journal:
    """Stop it; what happened."""
    running.stop()
    return journal(running)


def journal(running: Running) -> Journal:
    return list(read_journal(Store.at(running.root)))
