"""A standalone cluster from the pip package, on loopback: the same application, another master URL."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apps
import pyspark
import pytest
from apps import Folder
from driver import ROWS, Start

from perseid.testing import kill

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and a worker with six cores."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    environment = {**os.environ, "SPARK_LOCAL_IP": LOOPBACK}
    here = ["--host", LOOPBACK, "--webui-port", "0"]
    commands = [
        ["org.apache.spark.deploy.master.Master", *here, "--port", str(port)],
        ["org.apache.spark.deploy.worker.Worker", *here, "--cores", "6", "--memory", "2g", "-d", str(tmp_path), url],
    ]
    started = []
    with (tmp_path / "cluster.log").open("ab") as log:
        for command in commands:
            started.append(
                subprocess.Popen(
                    [str(spark_class), *command], stdout=log, stderr=log, env=environment, start_new_session=True
                )
            )
            apps.wait_until(lambda: _listens(port), "the master to listen")
    yield url
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((LOOPBACK, port)) == 0


def test_a_killed_host_on_a_standalone_cluster_costs_no_row(master: str, start: Start, folder: Folder) -> None:
    driver = start("counts", "--master", master)
    driver.wait_for_checkpoint()
    kill(driver, host=0)
    driver.finish()
    apps.check_counts(folder.out, ROWS)
    assert {"host_lost", "recovery_finished"} <= set(folder.kinds())
