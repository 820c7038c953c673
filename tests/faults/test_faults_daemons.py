"""Spark gives its Python daemon up when a task is taken back at a bad moment; hosts that were forked from it go on."""

from __future__ import annotations

import os
import signal

import apps
import psutil
import pytest
from apps import Begin, Folder

from perseid.spark.runtime import Running
from perseid.testing import kill

pytestmark = pytest.mark.spark

ROWS = 12_000


def _pids(running: Running) -> set[int]:
    return {host.pid for host in running.progress().hosts}


def test_a_daemon_that_spark_gives_up_costs_no_host_and_no_row(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS, rate=1_500))
    apps.wait_for_epoch(running, 3)
    apps.wait_until(lambda: len(_pids(running)) == 3, "two hosts and a spare")
    hosts = _pids(running)
    daemon = {psutil.Process(pid).ppid() for pid in hosts}
    assert len(daemon) == 1
    os.kill(daemon.pop(), signal.SIGTERM)  # as Spark does it
    apps.wait_for_epoch(running, running.progress().epoch + 5)
    assert _pids(running) == hosts
    kill(running, host="count/0")
    apps.wait_until(lambda: len(_pids(running) - hosts) == 1, "a host forked from the next daemon")
    apps.end(running)
    apps.check_counts(folder.out, ROWS)
    assert [e["kind"] for e in apps.journal_of(folder.root)].count("host_lost") == 1
