"""One Spark session per module, with room for two hosts and a spare beside two tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

HERE = str(Path(__file__).parent)
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])  # for Spark's workers
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from perseid.spark.session import build

    session = build(hosts=2, spares=1, app_name="perseid-faults")
    yield session
    session.stop()
