"""The page of an application that runs: a host is killed, an operator scaled, and the page says what the journal says."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from page import PANELS, Page

import perseid
from perseid import every
from perseid.storage.journal import read_journal
from perseid.storage.store import Store

sys.path.insert(0, str(Path(__file__).parent))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

import rides

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_kill_and_a_scale_are_on_the_page_as_in_the_journal(chromium: Any, tmp_path: Path) -> None:
    from perseid.testing import session

    root, told = str(tmp_path / "root"), list[dict[str, Any]]()
    spark = session(hosts=4, spares=1)
    try:
        running = rides.rides(str(tmp_path / "out"), None).start(
            spark, root=root, hosts=2, spares=1, checkpoint=perseid.checkpoints.adaptive(every(seconds=4)),
            trigger=every(milliseconds=300), dashboard=True, on_progress=told.append,
        )  # fmt: skip
        assert running.dashboard is not None
        page = Page(chromium, running.dashboard)
        rides.epochs_later(running, 6)
        page.wait(lambda: page.text("#phase") == "running", "the running application")
        (killed,) = rides.kill(running)
        page.open("incidents")
        page.wait(lambda: f"Lost host {killed}" in page.text(".list"), "the lost host")
        rides.epochs_later(running, 6)
        running.scale("fares", 3)
        page.wait(lambda: "Scale fares to 3 shards" in page.text(".list"), "the scale")
        rides.epochs_later(running, 4)
        for panel in PANELS:
            page.open(panel)
        running.stop()
        page.wait(lambda: page.text("#phase") == "stopped", "the end")
        records = list(read_journal(Store.at(root)))
        committed = [record for record in records if record["kind"] == "epoch_committed"]
        page.open("time")
        page.wait(lambda: page.text("#epochs") == f"{len(committed):,}", "all epochs")
        assert page.text("#rows-in") == f"{sum(r['rows_in'] for r in committed):,}"
        page.open("incidents")
        page.wait(lambda: page.text("#scales") == "1", "the scale among the numbers")
        assert page.text("#faults") == str(sum(r["kind"] == "host_lost" for r in records))
        assert [p["batchId"] for p in told] == [r["epoch"] for r in committed]
        assert page.complaints() == []
    finally:
        spark.stop()


def test_a_host_that_is_stopped_and_goes_on_is_a_switch_and_a_roll_back_on_the_page(
    chromium: Any, tmp_path: Path
) -> None:
    from perseid.testing import session

    root = str(tmp_path / "root")
    spark = session(hosts=4, spares=2)
    try:
        app = rides.rides(str(tmp_path / "out"), None)
        running = app.start(
            spark, root=root, hosts=2, spares=2, checkpoint=perseid.checkpoints.adaptive(every(seconds=4)),
            trigger=every(milliseconds=300), dashboard=True,
        )  # fmt: skip
        assert running.dashboard is not None
        page = Page(chromium, running.dashboard)
        rides.epochs_later(running, 3)
        running.standby("fares", "hybrid")
        page.open("standby")
        page.wait(lambda: page.text("#guarded").endswith("2 of 2"), "two guarded hosts")
        pair = next(one for one in running.progress().standby if one.copy is not None)
        pid = next(host.pid for host in running.progress().hosts if host.host == pair.primary)
        os.kill(pid, signal.SIGSTOP)
        try:
            page.wait(lambda: "the copy answers" in page.text(".pairing"), "the switch")
        finally:
            os.kill(pid, signal.SIGCONT)
        page.wait(lambda: int(page.text("#roll-backs")) > 0, "the roll-back")
        rides.epochs_later(running, 3)
        page.open("incidents")
        page.wait(lambda: f"instead of host {pair.primary}, and gave back" in page.text(".list"), "the incident")
        page.open("graph")
        page.wait(lambda: page.all(".node .copy"), "the copies of fares")
        copied = [node for node in page.all(".node") if node.find_elements("css selector", ".copy")]
        told = [node.get_attribute("aria-label").partition(",")[0] for node in copied]
        assert told == ["operator fares"]  # the others have no standby
        running.stop()
        page.wait(lambda: page.text("#phase") == "stopped", "the end")
        page.open("standby")
        kinds = [record["kind"] for record in read_journal(Store.at(root))]
        assert page.text("#switches") == str(kinds.count("switched"))
        assert page.text("#roll-backs") == str(kinds.count("rolled_back"))
        assert page.complaints() == []
    finally:
        spark.stop()
