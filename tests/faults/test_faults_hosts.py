"""Hosts die, sleep and die again; every input row is counted exactly once all the same."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apps
import psutil
import pytest
from apps import Begin, Folder, end

from perseid import App, every
from perseid.driver.running import Running
from perseid.testing import kill, pause

pytestmark = pytest.mark.spark

slow = pytest.mark.slow
SCHEMES = ["parallel", *(pytest.param(name, marks=slow) for name in ("source", "adaptive", "baseline"))]

ROWS = 4_000  # at least 16 epochs, however slow the machine


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_killed_host_costs_no_row_and_doubles_none(begin: Begin, folder: Folder, scheme: str) -> None:
    running = begin(apps.counts(folder.out, ROWS), scheme)
    apps.wait_for_checkpoint(running)
    kill(running, host=0)
    end(running)
    assert running.progress().faults >= 1  # a busy machine may add some
    apps.check_counts(folder.out, ROWS)
    assert {"host_lost", "recovery_finished"} <= set(folder.kinds())
    modes = [e["mode"] for e in apps.journal_of(folder.root) if e["kind"] == "recovery_started"]
    assert modes[0] == "application" and set(modes[1:]) == {"shards"}  # the start, then only what was lost


@pytest.mark.parametrize("app", [apps.narrow, pytest.param(apps.counts, marks=slow)])
@pytest.mark.parametrize("damage", ["flipped", *(pytest.param(d, marks=slow) for d in ("cut", "gap"))])
def test_damaged_input_of_a_killed_host_is_replayed_from_the_source(
    begin: Begin, folder: Folder, damage: str, app: Callable[[str, int], App]
) -> None:
    running = begin(app(folder.out, ROWS), period=600)
    apps.wait_for_epoch(running, 6)
    victim = next(host for host in running.progress().hosts if "count/0" in host.shards)
    kept = apps.kept_input(victim.pid)
    asleep = pause(running, host="count/0", seconds=600)
    for entry in kept.glob("*/3"):
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 1
        entry.write_bytes({"flipped": bytes(data), "cut": bytes(data[: len(data) // 2]), "gap": b""}[damage])
        if damage == "gap":
            entry.unlink()
    kill(running, host="count/0")
    asleep.heal()
    end(running)
    apps.check_counts(folder.out, ROWS)


@slow
def test_a_host_killed_before_the_first_checkpoint_is_fed_everything_again(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS), period=600)
    apps.wait_for_epoch(running, 5)
    kill(running, host=0)
    end(running)
    apps.check_counts(folder.out, ROWS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_hosts_killed_at_once_come_back_with_their_state(begin: Begin, folder: Folder, scheme: str) -> None:
    running = begin(apps.counts(folder.out, ROWS), scheme)
    apps.wait_for_checkpoint(running)
    kill(running, host="all")
    end(running)
    apps.check_counts(folder.out, ROWS)


@slow
def test_a_host_that_sleeps_and_wakes_changes_nothing(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS))
    apps.wait_for_checkpoint(running)
    pause(running, host=0, seconds=3)
    end(running)
    apps.check_counts(folder.out, ROWS)
    assert running.progress().faults >= 1


@slow
def test_a_second_host_killed_during_the_recovery_is_survived(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS))
    apps.wait_for_checkpoint(running)
    kill(running, host=0)
    apps.wait_until(lambda: running.progress().phase == "recovering", "recovery")
    kill(running, host="any")
    end(running)
    apps.check_counts(folder.out, ROWS)


def _ended_or_past(running: Running, epoch: int) -> bool:
    return running.wait(0) or running.progress().epoch > epoch


@slow
def test_hosts_killed_again_and_again_lose_nothing(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS))
    for _ in range(4):
        passed = running.progress().epoch
        apps.wait_until(partial(_ended_or_past, running, passed + 2), "two more epochs")
        if not running.wait(0):
            kill(running, host=0)
    end(running)
    apps.check_counts(folder.out, ROWS)


@slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_host_killed_while_it_writes_a_snapshot_loses_nothing(begin: Begin, folder: Folder, scheme: str) -> None:
    running = begin(apps.heavy(folder.out, ROWS), scheme)
    apps.wait_for_checkpoint(running)
    checkpoints = Path(folder.root, "checkpoints")

    def half_written() -> bool:
        newest = max(checkpoints.iterdir(), default=None)
        return newest is not None and not (newest / "manifest.json").exists() and any(newest.iterdir())

    apps.wait_until(half_written, "a checkpoint on its way")
    kill(running, host=0)
    end(running)
    apps.check_counts(folder.out, ROWS)


@slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_child_that_dies_or_sleeps_over_a_snapshot_costs_that_checkpoint_only(
    begin: Begin, folder: Folder, sent: signal.Signals
) -> None:
    running = begin(apps.heavy(folder.out, ROWS), "parallel")
    apps.wait_for_checkpoint(running)

    struck: list[psutil.Process] = []

    def a_checkpoint_failed() -> bool:
        """One that is struck when it has written all it had to costs nothing: then the next one is."""
        for host in running.progress().hosts:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(host.pid).children():
                    if child not in struck and child.status() != psutil.STATUS_ZOMBIE:
                        child.send_signal(sent)
                        struck.append(child)
        return "checkpoint_failed" in folder.kinds()

    apps.wait_until(a_checkpoint_failed, "a child whose loss costs a checkpoint")
    end(running)
    for child in struck:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    apps.check_counts(folder.out, ROWS)
    kinds = folder.kinds()
    assert "checkpoint_failed" in kinds
    assert "checkpoint_committed" in kinds[kinds.index("checkpoint_failed") :]


@slow
def test_a_killed_spare_is_replaced(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS))
    apps.wait_for_epoch(running, 3)
    spare = apps.wait_until(lambda: [h.pid for h in running.progress().hosts if not h.shards], "a spare")[0]
    kill(running, host="spare")
    apps.wait_until(lambda: [h for h in running.progress().hosts if not h.shards and h.pid != spare], "a new spare")
    end(running)
    apps.check_counts(folder.out, ROWS)


# -- every shape of application -----------------------------------------------------------------------------------


def survive(
    app: App, begin: Begin, folder: Folder, *, scheme: str = "parallel", every_host: bool = False,
    shard: str = "", check: Callable[[], Any], **settings: Any,
) -> Running:  # fmt: skip
    """Kill the host of a shard (or all hosts) after a checkpoint; then once more, and the input it kept on its machine is gone, too."""
    running = begin(app, scheme, **settings)
    for number, kept in ((1, True), (2, False)):
        apps.wait_for_checkpoint(running, number)
        if running.wait(0):
            break
        hosts = [host for host in running.progress().hosts if any(s.startswith(shard) for s in host.shards)]
        for host in (hosts if every_host else hosts[:1]) if not kept else ():
            shutil.rmtree(apps.kept_input(host.pid))
        kill(running, host="all" if every_host else hosts[0].shards[0])
    end(running)
    check()
    return running


@pytest.mark.parametrize("shard", ["rollup", pytest.param("count", marks=slow)])
def test_two_operators_in_one_unit_stay_exact(begin: Begin, folder: Folder, shard: str) -> None:
    app = apps.chain(folder.out, ROWS)
    survive(app, begin, folder, shard=shard, check=lambda: apps.check_rollup(folder.out, ROWS))


@slow
@pytest.mark.parametrize(
    ("kind", "shard"),
    [(kind, shard) for kind in ("transient", "retained", "durable") for shard in ("rollup", "count")],
)
def test_two_units_stay_exact_whatever_lies_between_them(begin: Begin, folder: Folder, kind: str, shard: str) -> None:
    app = apps.units(folder.out, ROWS, kind=kind)
    survive(app, begin, folder, shard=shard, check=lambda: apps.check_units(folder.out, ROWS))


@slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_three_units_whose_hosts_all_die_stay_exact(begin: Begin, folder: Folder, scheme: str) -> None:
    app = apps.units(folder.out, ROWS, third=True)
    check = lambda: apps.check_units(folder.out, ROWS, third=True)  # noqa: E731
    survive(app, begin, folder, scheme=scheme, every_host=True, check=check)


@slow
def test_an_operator_with_two_inputs_stays_exact(begin: Begin, folder: Folder) -> None:
    app = apps.two_inputs(folder.out, ROWS)
    survive(app, begin, folder, check=lambda: apps.check_two_inputs(folder.out, ROWS))


@slow
def test_a_stateful_result_with_two_sinks_is_the_same_in_both(begin: Begin, folder: Folder) -> None:
    app = apps.fan_out(folder.out, ROWS)
    survive(app, begin, folder, check=lambda: apps.check_fan_out(folder.out, ROWS))


@slow
def test_rows_of_a_key_keep_their_order(begin: Begin, folder: Folder) -> None:
    app = apps.ordered(folder.out, ROWS)
    survive(app, begin, folder, check=lambda: apps.check_ordered(folder.out, ROWS))


def test_timers_and_time_to_live_are_the_same_after_a_recovery(begin: Begin, folder: Folder) -> None:
    rows = 12_000  # every key comes twice
    pace: dict[str, Any] = {"trigger": every(seconds=0.2), "max_rows_per_epoch": 1_000}
    app = apps.visits(folder.out, rows, rate=3_000)
    survive(app, begin, folder, every_host=True, check=lambda: apps.check_visits(folder.out, rows), **pace)


@slow
def test_late_rows_are_the_same_rows_after_a_recovery(begin: Begin, folder: Folder) -> None:
    app = apps.late(folder.out, ROWS)
    survive(app, begin, folder, check=lambda: None)
    dropped = apps.check_late(folder.out, ROWS, apps.journal_of(folder.root))
    assert dropped > 0
