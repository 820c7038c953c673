"""Progress has Spark's names, and nobody who listens can hold up the driver."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from perseid.metrics.logs import log
from perseid.metrics.progress_feed import ProgressFeed
from perseid.metrics.query_progress import QueryProgress, as_spark_json

STARTED = ("app_started", {"operators": {"count": 2}})
ADMITTED = (
    "epoch_admitted",
    {
        "epoch": 7,
        "slices": {"lines": [3, 8]},
        "rows": 5,
        "time_ms": 1_795_031_858_936,
        "ms": 2.0,
        "sources": {"lines": [5, 40]},
    },
)
COMMITTED = (
    "epoch_committed",
    {
        "epoch": 7, "ms": 50.0, "rows_in": 5, "rows_out": 3, "state_bytes": 10, "time_ms": 1_795_031_858_936,
        "parts_ms": {"waiting": 1.0, "spark": 40.0, "hosts": 5.0, "sink": 4.0},
        "operators": {"count": {"in": 5, "out": 3, "state": 10, "busy_ms": 4.2, "late": 1, "event_time_ms": 1_795_031_858_000}},
    },
)  # fmt: skip


def progress() -> dict[str, Any]:
    query = QueryProgress("words", "/root", 1)
    assert query.take_in(*STARTED) is None and query.take_in(*ADMITTED) is None
    found = query.take_in(*COMMITTED)
    assert found is not None
    return found


def test_it_has_the_names_and_numbers_of_spark() -> None:
    told = progress()
    spark = StreamingQueryProgress.fromJson(json.loads(as_spark_json(told)))
    assert (spark.name, spark.batchId, spark.batchDuration, spark.numInputRows) == ("words", 7, 52, 5)
    assert spark.timestamp == "2026-11-18T19:57:38.936Z" and spark.eventTime["max"] == "2026-11-18T19:57:38.000Z"
    assert spark.durationMs["triggerExecution"] == 52 and spark.durationMs["addBatch"] == 45
    (operator,) = spark.stateOperators
    assert (operator.operatorName, operator.memoryUsedBytes, operator.numShufflePartitions) == ("count", 10, 2)
    assert operator.numRowsDroppedByWatermark == 1 and spark.sources[0].endOffset == '{"lines": 8}'
    assert told["perseid"]["rowsWaiting"] == {"lines": 40}
    assert json.loads(spark.sink.metrics["perseid.partsMs"]) == told["perseid"]["partsMs"]


def test_a_root_is_one_query_and_every_start_a_run() -> None:
    first, second = (QueryProgress("words", "/root", generation) for generation in (1, 2))
    assert first.id == second.id and first.run_id != second.run_id


def test_a_listener_that_is_stuck_or_raises_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    stuck, heard = threading.Event(), list[int]()

    def waits(told: dict[str, Any]) -> None:
        stuck.wait(60)

    def breaks(told: dict[str, Any]) -> None:
        raise ValueError("no")

    ends = list[str | None]()
    feed = ProgressFeed(
        QueryProgress("words", "/root", 1),
        [waits, breaks, lambda told: heard.append(told["batchId"])],
        ended=ends.append,
    )
    for kind, record in (STARTED, ADMITTED, COMMITTED, ("host_load", {}), ("epoch_admitted", {}), COMMITTED):
        feed.told(kind, record)  # returns at once
    feed.told("app_stopped", {"reason": "finished"})
    with caplog.at_level(logging.ERROR, "perseid.metrics"):
        stuck.set()
        feed.close()
    assert heard == [7, 7] and ends == [None]
    assert sum("a listener of progress failed" in r.message for r in caplog.records) == 1


def test_what_nobody_takes_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.metrics.progress_feed.WAITING", 3)
    stuck = threading.Event()
    feed = ProgressFeed(QueryProgress("words", "/root", 1), [lambda told: bool(stuck.wait(60))])  # type: ignore[list-item]
    for _ in range(20):
        feed.told(*COMMITTED)
    assert feed.dropped >= 20 - 3 - 2
    stuck.set()
    feed.close()


@pytest.mark.parametrize(
    ("kind", "logger", "level"),
    [
        ("host_lost", "perseid.host", logging.WARNING), ("recovery_finished", "perseid.recovery", logging.INFO),
        ("checkpoint_failed", "perseid.checkpoint", logging.ERROR), ("epoch_committed", "perseid.driver", logging.DEBUG),
        ("malformed_lines", "perseid.sources", logging.WARNING), ("scaled", "perseid.scaling", logging.INFO),
    ],
)  # fmt: skip
def test_every_package_has_its_logger_and_records_keep_their_fields(
    caplog: pytest.LogCaptureFixture, kind: str, logger: str, level: int
) -> None:
    with caplog.at_level(logging.DEBUG, "perseid"):
        log(kind, {"host": 3, "reason": "gone"})
    (record,) = caplog.records
    assert (record.name, record.levelno, record.getMessage()) == (
        logger,
        level,
        f"{kind.replace('_', ' ')}: host=3 reason=gone",
    )
    assert record.__dict__["perseid"] == {"kind": kind, "host": 3, "reason": "gone"}
