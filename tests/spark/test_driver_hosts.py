"""Hosts as the driver starts, hears, loses and ends them, each in a Spark task of its own."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

from perseid.driver.hosts import HostLink, Hosts, control_ip, executors
from perseid.engine import events as on
from perseid.spark import task_slots
from perseid.storage.store import Store
from perseid.vocabulary import HostId

pytestmark = pytest.mark.spark

Heard = TypeVar("Heard", on.HostRegistered, on.HostDisconnected)


class Driver:
    """What a driver has of its hosts: events, and those that registered."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.events: queue.Queue[on.Event] = queue.Queue()
        self.registered: list[HostLink] = []
        store = Store.at(str(root))
        self.hosts = Hosts(
            spark, store, b"s" * 32, (), 50, False, self.events.put, self.registered.append, lambda link, said: None, "a"
        )  # fmt: skip

    def host(self) -> HostLink:
        """One more."""
        self.hosts.launch()
        event = self.heard(on.HostRegistered)
        link = self.hosts.link(event.host)
        assert link is not None and link is self.registered[-1]
        return link

    def heard(self, kind: type[Heard]) -> Heard:
        event = self.events.get(timeout=apps.WAIT_S)
        assert isinstance(event, kind), event
        return event


@pytest.fixture
def driver(spark: SparkSession, tmp_path: Path) -> Iterator[Driver]:
    made = Driver(spark, tmp_path / "root")
    yield made
    made.hosts.stop()


def gone(link: HostLink) -> Callable[[], bool]:
    def is_gone() -> bool:
        pid = link.process.pid
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    return is_gone


def test_a_host_that_dies_is_told_of_once_and_the_next_one_has_another_id(driver: Driver) -> None:
    first = driver.host()
    assert driver.hosts.waiting == 0 and driver.hosts.addresses == {first.id: first.address}
    os.kill(first.process.pid, signal.SIGKILL)
    lost = driver.heard(on.HostDisconnected)
    assert lost.host == first.id
    driver.hosts.drop(first.id)
    second = driver.host()
    assert second.id != first.id and driver.hosts.link(first.id) is None
    driver.hosts.send(first.id, on.Ticked())  # type: ignore[arg-type]  # nobody is there to be told
    assert driver.events.empty()


def test_a_paused_host_that_is_dropped_is_gone_and_never_heard_of_again(driver: Driver, spark: SparkSession) -> None:
    link = driver.host()
    os.kill(link.process.pid, signal.SIGSTOP)
    driver.hosts.drop(link.id)
    apps.wait_until(gone(link), "its end")
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "its slot")
    assert driver.events.empty() and not driver.hosts.links


def test_a_released_host_ends_by_itself(driver: Driver, spark: SparkSession) -> None:
    link = driver.host()
    driver.hosts.release(link.id)
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "its slot")
    assert driver.events.empty() and driver.hosts.link(HostId(link.id)) is None


def test_all_hosts_are_gone_and_their_slots_free_after_stop_also_one_that_sleeps(
    spark: SparkSession, tmp_path: Path
) -> None:
    driver = Driver(spark, tmp_path / "root")
    awake, asleep = driver.host(), driver.host()
    os.kill(asleep.process.pid, signal.SIGSTOP)
    driver.hosts.stop(timeout_s=1.0)
    for link in (awake, asleep):
        apps.wait_until(lambda link=link: not link.folder.exists(), "a folder to be gone")  # type: ignore[misc]
    apps.wait_until(gone(asleep), "the end of one that sleeps")
    apps.wait_until(lambda: task_slots.used_slots(spark) == 0, "free slots")
    assert driver.events.empty(), "nobody is told of an end that was wanted"


def test_the_controller_of_an_embedded_cluster_listens_on_loopback_and_there_is_one_executor(
    spark: SparkSession,
) -> None:
    assert (control_ip(spark), executors(spark)) == ("127.0.0.1", 1)
