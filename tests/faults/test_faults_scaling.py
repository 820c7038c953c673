"""Shards of a running operator are divided anew, and whatever fails meanwhile, every row counts once (S3, S4)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import apps
import pytest
from apps import Begin, Folder
from driver import ROWS as ROWS_OF_DRIVER
from driver import Start

from perseid import App
from perseid.driver.running import Running
from perseid.errors import GraphChanged, ScaleFailed
from perseid.storage import requests
from perseid.storage.store import Store
from perseid.testing import Clock
from perseid.testing.counter import count_fault

pytestmark = pytest.mark.spark

HALF, ROWS = 3_000, 6_000
RATE, EPOCHS_PER_S = 1_500, 6


def moved_on(running: Running, epochs: int = 3, clock: Clock | None = None) -> None:
    """So many more epochs; a clock that stands still is moved by as many, and one."""
    before = running.progress().epoch
    if clock is not None:
        clock.advance(seconds=(epochs + 1) / EPOCHS_PER_S)
    apps.wait_for_epoch(running, before + epochs)


def test_an_operator_grows_and_shrinks_while_its_stream_runs(begin: Begin, folder: Folder) -> None:
    rows, clock = 9_000, Clock(1_000)
    running = begin(apps.counts(folder.out, rows, RATE, shards=2), period=5, clock=clock)
    moved_on(running, 4, clock)
    clock.advance(seconds=1)
    grown = running.scale("count", shards=4)
    assert (grown.before, grown.shards) == (2, 4)
    apps.wait_until(lambda: len([h for h in running.progress().hosts if h.shards]) == 4, "a host for each shard")
    moved_on(running, 3, clock)
    clock.advance(seconds=1)
    shrunk = running.scale("count", shards=2)
    assert (shrunk.before, shrunk.shards) == (4, 2)
    moved_on(running, 3, clock)
    clock.advance(seconds=60)
    apps.end(running)
    apps.check_counts(folder.out, rows)


SHAPES: dict[str, tuple[str, Callable[..., App], Callable[[str, int], Any]]] = {
    "the lower of two operators": ("rollup", apps.chain, apps.check_rollup),
    "the upper of two operators": ("count", apps.chain, apps.check_rollup),
    "behind a transient stream": ("rollup", apps.units, apps.check_units),
    "before a transient stream": ("count", apps.units, apps.check_units),
    "two decimals as a key": ("count", apps.prices, apps.check_prices),
    "two inputs": ("both", apps.two_inputs, apps.check_two_inputs),
    "rows in order": ("fold", apps.ordered, apps.check_ordered),
    "timers and time to live": ("visits", apps.visits, apps.check_visits),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_operator_can_be_scaled(begin: Begin, folder: Folder, shape: str) -> None:
    operator, build, check = SHAPES[shape]
    rows = 14_000
    running = begin(build(folder.out, rows, 2_000), period=1.5)
    apps.wait_for_epoch(running, 3)
    running.scale(operator, shards=3)
    moved_on(running)
    running.scale(operator, shards=1)
    moved_on(running)
    apps.end(running)
    check(folder.out, rows)


def test_a_host_killed_while_it_prepares_new_shards_costs_only_the_attempt(begin: Begin, folder: Folder) -> None:
    rows, clock = 6_000, Clock(1_000)
    running = begin(apps.counts(folder.out, rows, RATE, shards=2, operator=apps.Weighty()), period=60, clock=clock)
    moved_on(running, 5, clock)
    clock.advance(seconds=1)
    asked = threading.Thread(target=lambda: done.append(running.scale("count", shards=4)), daemon=True)
    done: list[Any] = []
    asked.start()
    controller = running._shell.controller

    def preparing() -> int | None:
        scaling = controller.scaling
        if scaling is None or scaling.phase != "preparing" or not scaling.waiting:
            return None
        link = running._shell.hosts.link(min(scaling.waiting))
        return link.process.pid if link is not None else None

    os.kill(apps.wait_until(preparing, "a host that prepares"), signal.SIGKILL)
    count_fault("kill")
    asked.join(apps.WAIT_S)
    assert done and done[0].shards == 4
    moved_on(running, 3, clock)
    clock.advance(seconds=60)
    apps.end(running)
    apps.check_counts(folder.out, rows)
    given_up = [entry for entry in folder.journal() if entry["kind"] == "scale_given_up"]
    assert [entry["again"] for entry in given_up] == [True]
    assert [e["reason"] for e in folder.journal() if e["kind"] == "recovery_started"] == ["start"]
    apps.check_recorded(folder)


def asked_for(folder: Folder, shards: int) -> str:
    """As ``perseid scale`` does, from another process than the driver's."""
    return requests.ask(Store.at(folder.root), {"scale": "count", "shards": shards})


def test_a_driver_killed_after_a_scale_goes_on_with_the_new_shards(start: Start, folder: Folder) -> None:
    rows = 7_000
    pace = ("--rate", "1500", "--rows", str(rows), "--trigger", "0.2", "--epoch-rows", "500")
    first = start("counts", *pace)
    first.wait_for_epoch(4)
    scaled = requests.wait(Store.at(folder.root), asked_for(folder, 5), apps.WAIT_S)["scaled"]
    assert (scaled["before"], scaled["shards"]) == (3, 5)
    first.wait_for_epoch(first.picture.epoch + 2)
    first.kill()
    count_fault("crash_driver")
    second = start("counts", *pace)
    second.wait_for_epoch(1)
    assert sum(len(host.shards) for host in second.picture.hosts) == 5
    second.finish()
    apps.check_counts(folder.out, rows)
    assert [e["mode"] for e in folder.journal() if e["kind"] == "recovery_started"][:1] == ["application"]
    assert apps.check_recorded(folder).beginnings == 2, "of both drivers"


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["checkpoint_decided", "shards_assigned"])
def test_a_driver_killed_in_the_midst_of_a_scale_leaves_the_wish_to_the_next(
    start: Start, folder: Folder, phase: str
) -> None:
    first = start("counts", "--rate", "1500", "--period", "60")
    first.wait_for_epoch(4)
    name = asked_for(folder, 5)
    before = folder.kinds().count(phase)
    first.wait_until(lambda: folder.kinds().count(phase) > before, phase)
    first.kill()
    count_fault("crash_driver")
    second = start("counts", "--rate", "1500", "--period", "60")
    assert requests.wait(Store.at(folder.root), name, apps.WAIT_S)["scaled"]["shards"] == 5
    second.finish()
    apps.check_counts(folder.out, ROWS_OF_DRIVER)


def test_a_restart_with_another_number_of_shards_goes_on_from_what_the_others_saved(
    begin: Begin, folder: Folder
) -> None:
    for rows, shards in ((750, 2), (1_500, 5), (2_250, 1)):
        running = begin(apps.counts(folder.out, rows, shards=shards))
        apps.end(running)
        assert len({s for h in running.progress().hosts for s in h.shards}) == shards
    apps.check_counts(folder.out, 2_250)


@pytest.mark.slow
def test_state_that_cannot_be_divided_is_named(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, HALF, operator=apps.Heavy(), shards=2))
    with pytest.raises(ScaleFailed, match=r"'count'.*field 'ballast' is a list.*split="):
        running.scale("count", 3)
    apps.end(running)
    with pytest.raises(GraphChanged, match=r"'count'.*field 'ballast' is a list.*split="):
        begin(apps.counts(folder.out, ROWS, operator=apps.Heavy(), shards=3))
    apps.end(begin(apps.counts(folder.out, ROWS, operator=apps.Heavy(), shards=2)))
    apps.check_counts(folder.out, ROWS)
