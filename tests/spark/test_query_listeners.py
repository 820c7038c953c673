"""A ``StreamingQueryListener`` of the session, and a callback, hear of every epoch what the journal says of it."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from perseid import App, every, sinks, sources
from perseid.storage.journal import read_journal
from perseid.storage.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from apps import Count

pytestmark = pytest.mark.spark


class Heard(StreamingQueryListener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.progress: list[Any] = []
        self.terminated: list[Any] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        self.started.append(event)

    def onQueryProgress(self, event: Any) -> None:
        self.progress.append(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        raise AssertionError("no application is told to be idle")

    def onQueryTerminated(self, event: Any) -> None:
        self.terminated.append(event)
        self.ended.set()


def test_a_listener_of_the_session_and_a_callback_hear_of_every_epoch(spark: SparkSession, tmp_path: Path) -> None:
    app = App("listened")
    rows = app.source("numbers", sources.generator({"key": "id % 7"}, rows=4_000, rate=2_000))
    counts = rows.stateful("count", Count(), key="key", shards=2, output="key long, added long, total long")
    counts.sink("out", sinks.parquet(str(tmp_path / "out")))
    heard, called = Heard(), list[dict[str, Any]]()
    spark.streams.addListener(heard)
    try:
        root = str(tmp_path / "root")
        app.run(spark, root=root, hosts=1, spares=0, trigger=every(milliseconds=200), on_progress=called.append)
        assert heard.ended.wait(60)
    finally:
        spark.streams.removeListener(heard)
    committed = [r for r in read_journal(Store.at(root)) if r["kind"] == "epoch_committed"]
    assert [p["batchId"] for p in called] == [p.batchId for p in heard.progress] == [r["epoch"] for r in committed]
    assert sum(p.numInputRows for p in heard.progress) == 4_000
    (start,), (end,) = heard.started, heard.terminated
    assert start.name == "listened" and start.runId == end.runId == heard.progress[0].runId and end.exception is None
    parts = json.loads(heard.progress[-1].sink.metrics["perseid.partsMs"])
    assert parts == called[-1]["perseid"]["partsMs"] and set(parts) == {
        "admission",
        "waiting",
        "spark",
        "hosts",
        "sink",
    }
    assert heard.progress[-1].stateOperators[0].operatorName == "count"
