"""When checkpoints are taken, on Spark: small states under adaptive, units alone under baseline (M2, M5)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App, PerseidError, every
from perseid.checkpoints import comparison
from perseid.driver.running import Running

pytestmark = pytest.mark.spark


class Begin(Protocol):
    def __call__(self, app: App, **more: Any) -> Running: ...


@pytest.fixture
def begin(spark: SparkSession, tmp_path: Path) -> Iterator[Begin]:
    started: list[Running] = []

    def start(app: App, **more: Any) -> Running:
        started.append(app.start(spark, root=str(tmp_path / "root"), **{"hosts": 1, "spares": 0, **more}))
        return started[-1]

    yield start
    for running in started:
        with contextlib.suppress(PerseidError):
            running.stop()


def of(journal: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in journal if entry["kind"] == kind]


def test_adaptive_finds_out_when_the_state_is_small_and_says_why_it_checkpoints(begin: Begin, tmp_path: Path) -> None:
    root = tmp_path / "root"
    scheme = perseid.checkpoints.adaptive(every(seconds=3), profile_periods=1)
    running = begin(apps.pools(rate=1_000), checkpoint=scheme, trigger=every(milliseconds=250))

    def small() -> list[dict[str, Any]]:
        return [e for e in of(apps.journal_of(root), "checkpoint_decided") if e["reason"] == "minimum"]

    apps.wait_until(lambda: small(), "a checkpoint at a minimum")
    running.stop()
    journal = apps.journal_of(root)
    assert of(journal, "checkpoint_decided")[0]["reason"] == "profiling"
    profiled = next(e for e in of(journal, "profiled") if e["threshold"])  # the first may have seen too few epochs
    assert profiled["dynamic"] == ["pool/0"] and profiled["threshold"] > 0
    for decided in small():  # it is small and has begun to grow, or is as small as it was ever seen to become
        growing = decided["bytes"] <= decided["threshold"] and decided["rate"] > 0
        assert growing or decided["bytes"] <= decided["low"]
    largest = max(e["state_bytes"] for e in of(journal, "epoch_committed"))
    recorded = comparison.recording(str(root))
    assert len(recorded.sizes) > 1 and max(s.bytes for s in recorded.sizes) == largest


@pytest.mark.slow
def test_under_baseline_units_are_saved_alone_and_what_lies_between_them_spills(begin: Begin, tmp_path: Path) -> None:
    rows, out, root = 4_000, str(tmp_path / "out"), tmp_path / "root"
    running = begin(
        apps.units(out, rows), hosts=2, checkpoint=comparison.baseline(every(seconds=1)), max_rows_per_epoch=250
    )
    buffer = running._shell.streams._rows.buffer  # type: ignore[attr-defined]
    buffer.limit_bytes = 2_000
    places: set[str] = set()

    def done() -> bool:
        buffer.check()
        places.update({"memory"} if buffer.in_memory else (), {"disk"} if buffer.on_disk else ())
        return running.wait(0.02)

    apps.wait_until(done, "the end")
    apps.check_units(out, rows)
    assert places == {"memory", "disk"}
    decided = of(apps.journal_of(root), "checkpoint_decided")
    assert {"own_period"} <= {e["reason"] for e in decided} <= {"own_period", "final"}
    assert {tuple(e["units"]) for e in decided} == {("first",), ("second",)}
    again = begin(apps.units(out, rows), hosts=2, checkpoint=perseid.checkpoints.parallel(every(seconds=1)))
    assert again.wait(300)
    apps.check_units(out, rows)
