"""Who sleeps while its shards move and wakes up as if nothing had happened: nobody kills it, and it changes nothing (design 8)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apps
import pytest
from apps import Folder
from driver import CLUSTER, ROWS, Start

from perseid.testing import pause

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts in a mount namespace of their own are on another machine for the driver: it cannot kill them by their process ids."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("cannot make a namespace: that needs root")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec unshare --mount {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("seconds", [3, 8])
def test_an_executor_that_wakes_after_its_shards_moved_changes_nothing(
    start: Start, folder: Folder, seconds: float
) -> None:
    driver = start("ordered", "--master", CLUSTER, "--rate", "1500")
    driver.wait_for_checkpoint()
    asleep = pause(driver, executor="fold/0", seconds=seconds)
    assert asleep.wait(60)
    driver.finish()
    apps.check_ordered(folder.out, ROWS)
    assert "host_lost" in folder.kinds()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.slow
def test_a_host_that_wakes_again_and_again_changes_nothing(start: Start, folder: Folder) -> None:
    driver = start("counts", "--master", CLUSTER, "--rate", "1000")
    driver.wait_for_checkpoint()
    for _ in range(4):
        before = driver.picture.epoch
        asleep = pause(driver, host="count/0", seconds=600)
        driver.wait_until(lambda before=before: driver.picture.epoch > before + 1, "its shards on another host")  # type: ignore[misc]
        asleep.heal()
    driver.finish()
    apps.check_counts(folder.out, ROWS)
