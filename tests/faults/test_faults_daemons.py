"""Spark gives its Python daemon up when a task is taken back at a bad moment; hosts that were forked from it go on."""

from __future__ import annotations

import os
import signal

import apps
import psutil
import pytest
from apps import Begin, Folder
from driver import CLUSTER, Start
from driver import ROWS as MANY

from perseid.driver.running import Running
from perseid.testing import Clock, kill

pytestmark = pytest.mark.spark

ROWS = 6_000


def _pids(running: Running) -> set[int]:
    return {host.pid for host in running.progress().hosts}


def test_a_daemon_that_spark_gives_up_costs_no_host_and_no_row(begin: Begin, folder: Folder) -> None:
    clock = Clock(1_000)
    running = begin(apps.counts(folder.out, ROWS, rate=1_500), clock=clock)
    clock.advance(seconds=1)
    apps.wait_for_epoch(running, 3)
    apps.wait_until(lambda: len(_pids(running)) == 3, "two hosts and a spare")
    hosts = _pids(running)
    daemon = {psutil.Process(pid).ppid() for pid in hosts}
    assert len(daemon) == 1
    os.kill(daemon.pop(), signal.SIGTERM)  # as Spark does it
    before = running.progress().epoch
    clock.advance(seconds=1.5)
    apps.wait_for_epoch(running, before + 5)
    assert _pids(running) == hosts
    clock.advance(seconds=2)
    kill(running, host="count/0")
    apps.wait_until(lambda: len(_pids(running) - hosts) == 1, "a host forked from the next daemon")
    apps.end(running)
    apps.check_counts(folder.out, ROWS)
    assert [e["kind"] for e in apps.journal_of(folder.root)].count("host_lost") == 1


@pytest.mark.slow
def test_hosts_that_outlived_their_daemon_still_go_down_with_their_executor(start: Start, folder: Folder) -> None:
    driver = start("counts", "--master", CLUSTER)
    driver.wait_for_checkpoint()
    lost = next(host for host in driver.picture.hosts if "count/0" in host.shards)
    os.kill(psutil.Process(lost.pid).ppid(), signal.SIGTERM)
    driver.wait_for_epoch(driver.picture.epoch + 3)
    assert lost.pid in {host.pid for host in driver.picture.hosts}
    kill(driver, executor="count/0")
    apps.wait_until(lambda: not psutil.pid_exists(lost.pid), "the end of its host")
    driver.finish()
    apps.check_counts(folder.out, MANY)
