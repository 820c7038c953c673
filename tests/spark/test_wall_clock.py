"""A wall clock that is put forward or back while an application runs: hosts live, epochs, checkpoints, files and timers go on."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App

pytestmark = pytest.mark.spark


def drop_file(folder: Path, number: int) -> None:
    part = folder / f".{number}.parquet"
    pq.write_table(pa.table({"key": pa.array([number], pa.int64())}), part)
    part.rename(folder / f"{number}.parquet")


def test_a_clock_that_jumps_loses_no_host_and_stops_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, offset_ms = time.time_ns, 0
    monkeypatch.setattr(time, "time_ns", lambda: real() + offset_ms * 1_000_000)
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9)
    folder, out = tmp_path / "in", perseid.sinks.memory()
    folder.mkdir()
    app = App("visits")
    columns = "key long, what string, added long, total long, at_ms long"
    source = perseid.sources.files(str(folder), schema="key long")
    app.source("files", source).stateful("visits", apps.Visits(), key="key", output=columns).sink("out", out)
    running = app.start(spark, root=str(tmp_path / "root"), hosts=1, spares=0, checkpoint=apps.scheme("parallel", 0.5))
    try:
        for number, jump_ms in enumerate((0, 5_000, -600_000)):
            offset_ms += jump_ms
            before = running.progress()
            drop_file(folder, number)

            def bundled(number: int = number) -> bool:
                return any(row["key"] == number and row["what"] == "bundle" for row in out.rows())

            def checkpointed(checkpoints: int = before.checkpoints) -> bool:
                return running.progress().checkpoints > checkpoints

            apps.wait_until(bundled, f"the file's row and its timer after a jump of {jump_ms} ms")
            apps.wait_until(checkpointed, f"a checkpoint after a jump of {jump_ms} ms")
        assert running.progress().faults == 0
        times = [row["at_ms"] for row in out.rows()]
        assert times == sorted(times), "the time of epochs went backwards"
    finally:
        running.stop()
