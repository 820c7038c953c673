"""The paper's applications end to end on Spark, as small as they go (M8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from perseid import App
from perseid.apps import bcp, signalguru, tmi
from perseid.apps.tmi.generate import City

pytestmark = pytest.mark.spark


def ran(spark: SparkSession, app: App, folder: Path, max_rows: int | None = None, **settings: Any) -> None:
    if max_rows is not None:
        settings["max_rows_per_epoch"] = max_rows
    running = app.start(spark, root=str(folder / "root"), hosts=1, spares=0, **settings)
    assert running.wait(300)


def test_tmi_infers_modes(spark: SparkSession, tmp_path: Path) -> None:
    app = tmi.build(scale=0.002, minutes=5, windows=1, output=tmp_path / "out", pools=1, shards=1)
    ran(spark, app, tmp_path, 12 * City.of(0.002, 5, 0).phones, close_windows_at_end=False)  # the last one has few rows
    numbers = tmi.report(tmp_path / "out").numbers
    assert numbers["windows"] == 1
    assert numbers["inferred"] == City.of(0.002, 5, 0).phones
    assert numbers["accuracy"] > 0.85


@pytest.mark.slow
def test_bcp_counts_and_predicts(spark: SparkSession, tmp_path: Path) -> None:
    app = bcp.build(scale=0.008, minutes=10, windows=2, output=tmp_path / "out")  # buses as seldom as the paper's
    ran(spark, app, tmp_path, 6 * 15)
    numbers = bcp.report(tmp_path / "out").numbers
    assert numbers["count_exact"] > 0.85
    assert numbers["forecast_error"] < numbers["unchanged_error"]


@pytest.mark.slow
def test_signalguru_sees_and_predicts(spark: SparkSession, tmp_path: Path) -> None:
    app = signalguru.build(scale=0.002, windows=3, output=tmp_path / "out")
    ran(spark, app, tmp_path, 60)
    numbers = signalguru.report(tmp_path / "out").numbers
    assert numbers["colour_accuracy"] > 0.95


def test_controller_events_are_enough_for_the_prediction(spark: SparkSession, tmp_path: Path) -> None:
    events = Path(__file__).parents[3] / "shared" / "data" / "signals" / "sample_raw_data.parquet"
    if not events.exists():
        pytest.skip("the controller events are not beside the project")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "events.parquet").symlink_to(events)
    app = signalguru.build(events=tmp_path / "in", output=tmp_path / "out")
    ran(spark, app, tmp_path, available_now=True)
    numbers = signalguru.report(tmp_path / "out").numbers
    assert numbers["predictions"] > 400
    assert numbers["svm_error_s"] < numbers["usual_error_s"]
