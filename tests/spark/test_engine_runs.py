"""Applications that run, stop and go on: nothing is counted twice and nothing is left out."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App, PerseidError
from perseid.driver.running import Running

pytestmark = pytest.mark.spark

ROWS, EPOCH_ROWS = 2_000, 250


class Begin(Protocol):
    def __call__(self, app: App, **more: Any) -> Running: ...


@pytest.fixture
def begin(spark: SparkSession, tmp_path: Path) -> Iterator[Begin]:
    started: list[Running] = []

    def start(app: App, **more: Any) -> Running:
        settings = {
            "hosts": 1,
            "spares": 0,
            "max_rows_per_epoch": EPOCH_ROWS,
            "checkpoint": apps.scheme("parallel", 0.5),
        }
        started.append(app.start(spark, root=str(tmp_path / "root"), **{**settings, **more}))
        return started[-1]

    yield start
    for running in started:
        with contextlib.suppress(PerseidError):
            running.stop()


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


def test_a_stopped_application_goes_on_with_nothing_to_replay(begin: Begin, out: str, tmp_path: Path) -> None:
    rows = 4_000
    running = begin(apps.counts(out, rows))
    apps.wait_for_epoch(running, 3)
    running.stop()
    stopped_at = running.progress().epoch
    assert 3 <= stopped_at < rows // EPOCH_ROWS
    assert begin(apps.counts(out, rows)).wait(300)
    apps.check_counts(out, rows)
    journal = apps.journal_of(tmp_path / "root")
    assert [e["epoch"] for e in journal if e["kind"] == "epoch_committed"] == list(range(1, rows // EPOCH_ROWS + 1))


def test_available_now_takes_what_is_there_and_ends(begin: Begin, out: str) -> None:
    into = Path(f"{out}-in")
    into.mkdir()
    (into / "1.txt").write_text("a b a\nc\n" * 100)
    assert begin(apps.words(out, 0), available_now=True).wait(300)
    apps.check_totals(out, "word", {"a": 200, "b": 100, "c": 100})
    (into / "2.txt").write_text("b d\n" * 100)
    assert begin(apps.words(out, 0), available_now=True).wait(300)
    apps.check_totals(out, "word", {"a": 200, "b": 200, "c": 100, "d": 100})


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        ("durable", "source"),
        *(
            pytest.param(kind, scheme, marks=pytest.mark.slow)
            for kind, scheme in [("transient", "parallel"), ("transient", "source"), ("retained", "parallel")]
        ),
    ],
)
def test_three_units_are_exact_and_go_on_from_their_checkpoint(begin: Begin, out: str, kind: str, scheme: str) -> None:
    checkpoint = apps.scheme(scheme, 0.5)
    running = begin(apps.units(out, ROWS, kind=kind, third=True), checkpoint=checkpoint)
    apps.wait_for_checkpoint(running)
    running.stop()
    assert begin(apps.units(out, ROWS, kind=kind, third=True), checkpoint=checkpoint).wait(300)
    apps.check_units(out, ROWS, third=True)


def test_available_now_waits_for_what_a_streaming_dataframe_is_about_to_store(
    begin: Begin, spark: SparkSession, out: str, tmp_path: Path
) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    for name in range(3):
        (inbox / str(name)).write_text(f"{name}\n")
    app = App("lines")
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(inbox))
    app.source("lines", perseid.sources.stream(lines)).sink("out", perseid.sinks.parquet(out))
    assert begin(app, available_now=True).wait(300)
    assert sorted(row.value for row in spark.read.parquet(out).collect()) == ["0", "1", "2"]


def test_an_idle_source_does_not_hold_up_the_other(begin: Begin, out: str) -> None:
    assert begin(apps.two_inputs(out, ROWS)).wait(300)
    apps.check_two_inputs(out, ROWS)


def test_rows_keep_their_order_over_shuffles_and_batches(begin: Begin, out: str) -> None:
    assert begin(apps.ordered(out, 4_000), max_rows_per_epoch=1_500).wait(300)
    apps.check_ordered(out, 4_000)


def test_one_result_in_two_sinks_is_computed_once(begin: Begin, out: str) -> None:
    assert begin(apps.fan_out(out, ROWS)).wait(300)
    apps.check_fan_out(out, ROWS)


def test_late_rows_are_dropped_by_the_watermark_of_their_epoch(begin: Begin, out: str, tmp_path: Path) -> None:
    running = begin(apps.late(out, ROWS))
    assert running.wait(300)
    dropped = apps.check_late(out, ROWS, apps.journal_of(tmp_path / "root"))
    assert running.progress().late_rows == dropped > 0


def test_timers_that_the_last_rows_make_due_still_ring(begin: Begin, out: str) -> None:
    running = begin(apps.alarms(out, 1_000), close_windows_at_end=False)
    assert running.wait(300)
    rung = Counter(row["key"] for rows in apps.epochs_of(out).values() for row in rows)
    assert rung == Counter(range(999))  # event time is a millisecond behind the last row


def test_an_application_without_rows_ends(begin: Begin, out: str) -> None:
    assert begin(apps.counts(out, 0)).wait(300)
    assert Counter(map(len, apps.epochs_of(out).values())) in (Counter(), Counter({0: 1}))
