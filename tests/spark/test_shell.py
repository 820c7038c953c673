"""What carries out the controller's commands: it gives back what it opened, and an application always comes to an end it can tell of."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps
from witness import Slices

import perseid
from perseid import App
from perseid.driver.running import Running
from perseid.engine import events as on
from perseid.errors import ApplicationFailed, SettingsError
from perseid.spark import task_slots
from perseid.storage.store import Store
from perseid.vocabulary import Attempt, Epoch, UnitName

pytestmark = pytest.mark.spark


class Told(Slices):
    """A source that notes when it is opened and closed."""

    def __init__(self, log: list[str]) -> None:
        super().__init__([[(1, 10, 0)], [(2, 20, 0)]])
        self.log = log

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        super().open(spark, folder, store)
        self.log.append("source opened")

    def close(self) -> None:
        self.log.append("source closed")


class Picky:
    """A sink that cannot be opened the first time."""

    kind = "picky"

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.tried = 0

    def open(self, spark: SparkSession, store: Store) -> None:
        self.tried += 1
        if self.tried == 1:
            raise SettingsError("sink picky: no table is there")
        self.log.append("sink opened")

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return False

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        self.log.append(f"{epoch}: {[row.key for row in df.collect()]}")

    def close(self) -> None:
        self.log.append("sink closed")


def ours() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("perseid-")}


def test_a_start_that_fails_gives_back_what_it_opened_and_the_next_one_begins(
    spark: SparkSession, tmp_path: Path
) -> None:
    log: list[str] = []
    app = App("picky")
    app.source("in", Told(log)).sink("out", Picky(log))
    settings: dict[str, Any] = {"root": str(tmp_path / "root"), "hosts": 1, "spares": 0}
    with pytest.raises(SettingsError, match="no table is there"):
        app.start(spark, **settings)
    assert log == ["source opened", "source closed"] and not ours()
    log.clear()
    app.run(spark, **settings)
    assert log[:2] == ["source opened", "sink opened"] and log[2:4] == ["1: [1]", "2: [2]"]
    assert log[-2:] == ["sink closed", "source closed"], "in the other order"
    apps.wait_until(lambda: not ours(), "the end of all threads")


def failed(running: Running) -> str:
    with pytest.raises(ApplicationFailed) as caught:
        running.wait(apps.WAIT_S)
    return str(caught.value)


def test_what_the_controller_cannot_take_ends_the_application_with_its_words_and_frees_its_slots(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = apps.counts(str(tmp_path / "out"), 100_000, rate=100)
    running = app.start(spark, root=str(tmp_path / "root"), hosts=1, spares=0)
    apps.wait_for_epoch(running, 1)
    running._shell.post(on.UnitFinished(UnitName("nobody"), Epoch(1), Attempt(1)))
    assert "nobody" in failed(running)
    assert running.progress().phase == "failed"
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "free slots")
    kinds = [entry["kind"] for entry in apps.journal_of(tmp_path / "root")]
    assert kinds[-1] == "app_stopped"


def test_a_fatal_error_of_a_source_is_told_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """A source that breaks while it is asked for rows: the application ends, and goes on from there when it is mended."""
    out, log = perseid.sinks.memory(), list[str]()

    class Breaks(Told):
        broken = True

        def finished(self, start: Any) -> bool:
            if self.broken and start >= 1:
                raise SettingsError("source in: its table was dropped")
            return super().finished(start)

    source, app = Breaks(log), App("breaks")
    app.source("in", source).sink("out", out)
    settings: dict[str, Any] = {"root": str(tmp_path / "root"), "hosts": 1, "spares": 0}
    assert "its table was dropped" in failed(app.start(spark, **settings))
    source.broken = False
    app.run(spark, **settings)
    assert [row["key"] for row in out.rows()] == [1, 2]
    assert log == ["source opened", "source closed"] * 2
