"""An operator with 500 MB of state goes from two shards to four under load; and what a user of Spark does instead (S3).

Both read the same files, as they come. Perseid is asked to scale while it runs. Spark's query is stopped, its state is repartitioned
offline (``StreamingCheckpointManager.repartition``, since Spark 4.2), and it is started again. Compared is how long the input stood still;
beside it is told how long nothing new came out, from the last commit before to the first one after.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import perseid
from perseid import every
from perseid.bench.measuring import ours, peers
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.timings import Commit, from_journal, from_progress
from perseid.bench.scaling.applications import TEXTS_SCHEMA, newest_texts
from perseid.bench.scaling.feeding import CHARACTERS, feeding, fill
from perseid.bench.scaling.reading import gap_around_ms
from perseid.bench.scaling.sizes import Sizes

BEFORE, AFTER = 2, 4
RECENT_ROWS = 10_000  # larger batches are those that filled the state
CALM_S = 4.0  # under load before and after
PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Scaled:
    """What a live scale cost."""

    pause_ms: float
    gap_ms: float
    usual_gap_ms: float
    seconds: float
    state_mb: float
    commits: list[Commit]
    switched_ms: float


@dataclass(frozen=True, slots=True)
class Restarted:
    """What it cost to stop, repartition and start."""

    pause_s: float  # from the end of the last batch before to the beginning of the first one after
    gap_s: float  # to the end of that one
    stop_s: float
    repartition_s: float
    start_s: float  # until the first batch is done
    state_mb: float
    commits: list[Commit]
    stopped_ms: float


def measure(side: Contestant, spark: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Both sides, one after the other."""
    keys = sizes.state_mb * 1_000_000 // CHARACTERS
    ours_ = side.call(scale_live, work / "perseid", keys, sizes.feed_rows_per_s)
    results.number("live_pause_s", ours_.pause_ms / 1000, "s")
    results.number("live_gap_s", ours_.gap_ms / 1000, "s")
    results.number("live_usual_gap_ms", ours_.usual_gap_ms, "ms")
    results.number("live_seconds", ours_.seconds, "s")
    results.number("live_state_mb", ours_.state_mb, "MB")
    theirs = spark.call(stop_repartition_start, work / "spark", keys, sizes.feed_rows_per_s)
    for name in ("pause_s", "gap_s", "stop_s", "repartition_s", "start_s"):
        results.number(f"spark_{name}", getattr(theirs, name), "s")
    results.number("spark_state_mb", theirs.state_mb, "MB")
    for name, commits, zero_ms in (
        ("live", ours_.commits, ours_.switched_ms),
        ("spark", theirs.commits, theirs.stopped_ms),
    ):
        results.series(f"{name}_commit_at_s", [(c.at_ms - zero_ms) / 1000 for c in commits])
        results.series(f"{name}_commit_rows", [c.rows for c in commits])


def scale_live(work: Path, keys: int, rows_per_s: int) -> Scaled:
    """On Perseid's side."""
    rows = fill(work / "in", keys)
    app = newest_texts(str(work / "in"))
    checkpoint = perseid.checkpoints.parallel(every(seconds=30))
    running = ours.start(app, work, checkpoint=checkpoint, max_rows_per_epoch=50_000)
    ours.wait_for(running, lambda p: p.rows_in >= rows)
    with feeding(work / "in", keys, rows_per_s):
        time.sleep(CALM_S)
        began = time.time() * 1000
        done = running.scale("newest", shards=AFTER, timeout_s=300)
        switched_ms = time.time() * 1000
        time.sleep(CALM_S)
    size = running.progress().state_bytes
    journal = ours.end(running)
    scaled = next(e for e in journal if e["kind"] == "scaled")
    commits = [c for c in from_journal(journal) if c.at_ms > began - CALM_S * 1000]
    calm = [c.at_ms for c in commits if c.at_ms <= began]
    usual = sorted(b - a for a, b in pairwise(calm))
    return Scaled(
        done.pause_ms, gap_around_ms(journal, scaled["at_ms"]), usual[len(usual) // 2], done.duration_ms / 1000,
        size / 1e6, commits, switched_ms,
    )  # fmt: skip


def stop_repartition_start(work: Path, keys: int, rows_per_s: int) -> Restarted:
    """On Spark's side."""
    rows = fill(work / "in", keys)
    query = _start(work)
    _until(lambda: sum(p["numInputRows"] for p in query.recentProgress) >= rows)
    with feeding(work / "in", keys, rows_per_s):
        time.sleep(CALM_S)
        asked = time.monotonic()
        before = from_progress(_stop_between_batches(query, work))
        stopped, stopped_ms = time.monotonic(), time.time() * 1000
        peers.spark()._streamingCheckpointManager.repartition(str(work / "checkpoint"), AFTER)
        repartitioned = time.monotonic()
        again = _start(work)
        _until(lambda: any(p["numInputRows"] for p in again.recentProgress))
        started = time.monotonic()
        time.sleep(CALM_S)
        after = from_progress(again.recentProgress)
        again.stop()
    state: dict[str, Any] = again.recentProgress[-1]["stateOperators"][0]
    assert state["numShufflePartitions"] == AFTER, f"the query runs with {state['numShufflePartitions']} partitions"
    first, last_ms = after[0], before[-1].at_ms
    return Restarted(
        pause_s=(first.at_ms - first.ms - last_ms) / 1000,
        gap_s=(first.at_ms - last_ms) / 1000,
        stop_s=stopped - asked,
        repartition_s=repartitioned - stopped,
        start_s=started - repartitioned,
        state_mb=_size(work / "checkpoint" / "state") / 1e6,
        commits=[c for c in (*before, *after) if c.rows <= RECENT_ROWS],
        stopped_ms=stopped_ms,
    )


def _stop_between_batches(query: StreamingQuery, work: Path) -> list[Any]:
    """Stop a query with its last batch committed: state can be repartitioned only then. Returns its progress.

    Between the look and the stop a batch may begin. On a slow machine one nearly always has: then the query is let finish that batch, and
    what has come by then, and ends by itself.
    """
    _until(lambda: not query.status["isTriggerActive"])
    query.stop()
    progress = list(query.recentProgress)
    if cut_short(work / "checkpoint"):
        finishing = _start(work, availableNow=True)
        if not finishing.awaitTermination(PATIENCE_S):
            finishing.stop()
        progress += finishing.recentProgress
    assert not cut_short(work / "checkpoint"), "Spark's query was stopped in the middle of a batch, twice"
    return progress


def cut_short(checkpoint: Path) -> bool:
    """Has a query begun a batch that it did not commit?"""
    newest = [max((int(p.name) for p in (checkpoint / log).iterdir() if p.name.isdigit()), default=-1)
              for log in ("offsets", "commits")]  # fmt: skip
    return newest[0] > newest[1]


def _start(work: Path, **trigger: Any) -> StreamingQuery:
    rows = peers.spark().readStream.schema(TEXTS_SCHEMA).option("maxFilesPerTrigger", 10).parquet(str(work / "in"))
    newest = rows.groupBy("key").agg(F.last("text").alias("text")).select("key", F.length("text").alias("n"))
    writer = newest.writeStream.outputMode("update").format("noop").trigger(**trigger or {"processingTime": "1 second"})
    return writer.option("checkpointLocation", str(work / "checkpoint")).start()


def _size(folder: Path) -> int:
    """Of the state that the last batches stand on; older files are let go later."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _until(reached: Any, patience_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + patience_s
    while not reached():
        assert time.monotonic() < until, f"waited over {patience_s:.0f} s"
        time.sleep(0.01)
