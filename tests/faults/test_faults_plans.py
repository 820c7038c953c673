"""Fault plans on real applications: every kind of fault, second faults within a recovery, storms of them; the count stays exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import apps
import pytest
from apps import Begin, Folder, end
from driver import CLUSTER

from perseid import App
from perseid.errors import FaultError
from perseid.testing import Plan, Report, at, corrupt, kill, partition, pause, run
from perseid.testing.verdict import epochs_in

pytestmark = pytest.mark.spark

ROWS = 4_000
STRUCK = Path(__file__).with_name("struck_app.py")


@pytest.fixture
def struck(perseid_run: Callable[..., Report]) -> Callable[..., Report]:
    """Runs an application to its end under a plan."""
    settings = {"hosts": 2, "spares": 1, "max_rows_per_epoch": 250, "checkpoint": apps.scheme("parallel", 0.4)}
    return lambda app, plan, **more: perseid_run(app, plan, **{**settings, **more})


def test_a_second_fault_within_the_first_recovery_costs_nothing(struck: Callable[..., Report], folder: Folder) -> None:
    report = struck(apps.counts(folder.out, ROWS), at(epoch=5).kill(host=0) + at(recovery=1).kill(host="any"))
    apps.check_counts(folder.out, ROWS)
    assert len(report.faults) == 2 and report.recoveries >= 1 and report.longest_outage_s > 0


@pytest.mark.parametrize("other", ["driver", pytest.param("tasks", marks=pytest.mark.slow)])
def test_a_host_that_is_cut_off_is_replaced_and_no_row_is_lost(
    struck: Callable[..., Report], folder: Folder, other: str
) -> None:
    """For longer than a slow machine needs to try it twice: a host is replaced when an epoch cannot reach it again."""
    report = struck(apps.counts(folder.out, ROWS), at(epoch=5).partition("count/1", other, seconds=30))
    apps.check_counts(folder.out, ROWS)
    assert report.recoveries >= 1, report


def test_a_slow_host_on_an_overloaded_machine_with_a_busy_disk_stays_exact(
    struck: Callable[..., Report], folder: Folder
) -> None:
    plan = (
        at(epoch=4).slow(host=0, seconds=2)
        + at(epoch=5).overload(seconds=2, processes=2)
        + at(epoch=6).fail_storage("slow", seconds=2)
    )
    struck(apps.counts(folder.out, ROWS), plan)
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_a_root_that_is_away_for_a_while_holds_the_application_up_and_loses_nothing(
    struck: Callable[..., Report], folder: Folder
) -> None:
    struck(apps.counts(folder.out, ROWS), at(epoch=6).fail_storage("unreachable", seconds=2))
    apps.check_counts(folder.out, ROWS)


def test_a_host_lost_while_the_root_is_away_is_restored_when_it_is_back(
    struck: Callable[..., Report], folder: Folder
) -> None:
    """Its snapshots cannot be read for a while: that is waited out, not given up."""
    plan = at(checkpoint=1).fail_storage("unreachable", seconds=3) + at(checkpoint=1).kill(host=0)
    struck(apps.counts(folder.out, 2 * ROWS), plan)
    apps.check_counts(folder.out, 2 * ROWS)


def test_a_paused_host_that_wakes_after_its_shards_moved_changes_nothing(begin: Begin, folder: Folder) -> None:
    running = begin(apps.ordered(folder.out, ROWS))
    apps.wait_for_checkpoint(running)
    asleep = pause(running, host="fold/0", seconds=600)
    before = running.progress().epoch
    apps.wait_until(lambda: running.wait(0) or running.progress().epoch > before + 2, "its shards on another host")
    asleep.heal()
    end(running)
    apps.check_ordered(folder.out, ROWS)


@pytest.mark.slow
def test_a_corrupt_snapshot_makes_a_lost_host_start_from_the_one_before(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, 4 * ROWS))
    apps.wait_for_checkpoint(running, 2)
    corrupt(running, "cut", shard="count/0")
    kill(running, host="count/0")
    end(running)
    apps.check_counts(folder.out, 4 * ROWS)


@pytest.mark.slow
def test_hosts_of_one_executor_have_no_network_between_them(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, 4 * ROWS))
    apps.wait_for_epoch(running, 2)
    with pytest.raises(FaultError, match="hosts of one executor have no network between them"):
        partition(running, 0, 1)
    with pytest.raises(FaultError, match="there are no executors of their own"):
        kill(running, executor=0)


@pytest.mark.slow
def test_a_host_that_no_application_of_this_size_has_is_named_and_nothing_is_struck(
    struck: Callable[..., Report], folder: Folder
) -> None:
    with pytest.raises(
        FaultError, match=r"at epoch 4: kill host 7: there is no host 7; hosts with shards are 0 \(count/"
    ):
        struck(apps.counts(folder.out, 4 * ROWS), at(epoch=4).kill(host=7))
    assert "host_lost" not in folder.kinds()


@pytest.mark.slow
def test_a_plan_beyond_the_run_is_named(struck: Callable[..., Report], folder: Folder) -> None:
    with pytest.raises(FaultError, match=r"beyond the run.*\n  - at epoch 9999: kill host 0"):
        struck(apps.counts(folder.out, ROWS), at(epoch=9999).kill(host=0))
    apps.check_counts(folder.out, ROWS)  # the application itself ended well


@pytest.mark.slow
def test_a_driver_crashed_by_a_plan_goes_on_where_it_was(tmp_path: Path) -> None:
    plan = at(checkpoint=1).kill(host=0) + at(epoch=12).crash_driver()
    report = run(STRUCK, plan, root=tmp_path / "root", out=str(tmp_path / "out"), max_rows_per_epoch=250)
    assert report.starts == 2
    check_struck(tmp_path / "out" / "out")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_executors_and_the_network_between_them_fail_on_a_cluster(tmp_path: Path) -> None:
    plan = (
        at(checkpoint=1).partition(0, 1, seconds=60)
        + at(epoch=14).kill(executor="count/0")
        + at(recovery=2).kill(executor="any")
        + at(epoch=24).crash_driver()
        + at(epoch=30).kill(executor="all")
    )
    out = str(tmp_path / "out")
    run(STRUCK, plan, root=tmp_path / "root", out=out, master=CLUSTER, max_rows_per_epoch=150, timeout_s=400)
    check_struck(tmp_path / "out" / "out")


def check_struck(out: Path) -> None:
    assert epochs_in(out)
    apps.check_counts(out, 10_000)


# -- storms --------------------------------------------------------------------------------------------------------


def storm(faults: int, every: int) -> Plan:
    """So many faults of every kind that an application in this process can have, one every few epochs."""
    kinds: list[Callable[[Any], Plan]] = [
        lambda now: now.kill(host="any"),
        lambda now: now.pause(seconds=1),
        lambda now: now.partition("any", "driver", seconds=1),
        lambda now: now.kill(host=0) + now.kill(host="any"),
        lambda now: now.slow(seconds=1, percent=90),
        lambda now: now.partition("any", "tasks", seconds=1),
        lambda now: now.kill(host="all"),
        lambda now: now.fail_storage("unreachable", seconds=0.5),
        lambda now: now.kill(host="spare"),
        lambda now: now.corrupt() + now.kill(host="any"),
    ]
    steps = [kinds[n % len(kinds)](at(epoch=5 + n * every)) for n in range(faults)]
    return reduce(add, steps, at(recovery=1).kill(host="any") + at(recovery=9).kill(host="any"))


APPS: dict[str, tuple[Callable[[str, int], App], Callable[[str, int], None]]] = {
    "counts": (apps.counts, apps.check_counts),
    "chain": (apps.chain, apps.check_rollup),
    "units": (lambda out, rows: apps.units(out, rows, kind="retained"), apps.check_units),
    "durable": (lambda out, rows: apps.units(out, rows, kind="durable"), apps.check_units),
    "ordered": (apps.ordered, apps.check_ordered),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", list(APPS))
def test_a_storm_of_faults_costs_no_row_and_doubles_none(
    struck: Callable[..., Report], folder: Folder, name: str
) -> None:
    make, check = APPS[name]
    rows = 40_000
    report = struck(make(folder.out, rows), storm(30, 5), timeout_s=800)
    check(folder.out, rows)
    assert len(report.faults) >= 38, report
