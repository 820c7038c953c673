"""One Spark session for all tests that share one, with room for the hosts of new shards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apps
import pytest
from driver import Driver
from pyspark.sql import SparkSession

from perseid import App
from perseid.driver.running import Running
from perseid.testing import session

HERE = str(Path(__file__).parent)
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])  # for Spark's workers
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def perseid_spark() -> Iterator[SparkSession]:
    made = session(hosts=5, spares=1)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark(perseid_spark: SparkSession) -> SparkSession:
    return perseid_spark


@pytest.fixture
def folder(tmp_path: Path) -> apps.Folder:
    return apps.Folder(tmp_path)


@pytest.fixture
def begin(perseid_start: Callable[..., Running]) -> apps.Begin:
    def start(app: App, scheme: str = "parallel", period: float = 0.4, **more: Any) -> Running:
        checkpoint = apps.scheme(scheme, period)
        settings = {"hosts": 2, "spares": 1, "max_rows_per_epoch": 250, "checkpoint": checkpoint}
        return perseid_start(app, **{**settings, **more})

    return start


@pytest.fixture
def start(folder: apps.Folder) -> Iterator[Callable[..., Driver]]:
    """Starts a driver in a process of its own; nothing of it is left after the test."""
    started: list[Driver] = []

    def run(app: str, *options: str) -> Driver:
        started.append(Driver(app, folder, *options))
        return started[-1]

    yield run
    for driver in started:
        driver.kill()
