"""The applications of the Meteor Shower paper under bursts that kill every host: their results are those of a run without (M6, M8).

Each run is struck three times: at a random moment, while a checkpoint is being written, and again while it recovers from that. What its
sinks hold in the end is compared, epoch by epoch and row by row, with what a run of the same rows without any fault wrote.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apps
import pytest
from apps import Begin, Folder, end

from perseid.driver.running import Running
from perseid.engine.progress import HostStatus
from perseid.testing import kill
from perseid.testing.processes import is_alive

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SIZES: dict[str, dict[str, float]] = {
    "tmi": {"scale": 0.002, "minutes": 1.0, "windows": 3},
    "bcp": {"scale": 0.008, "minutes": 5.0, "windows": 3},
    "signalguru": {"scale": 0.002, "minutes": 1.0, "windows": 3},
}
Rows = dict[int, list[str]]


def start(begin: Begin, name: str, out: Path, scheme: str, **more: Any) -> Running:
    from perseid.apps.catalogue import CATALOGUE

    application, size = CATALOGUE[name], SIZES[name]
    rows = application.epoch_rows(scale=size["scale"], minutes=size["minutes"])
    return begin(application.build(**size, output=out), scheme, max_rows_per_epoch=rows, **more)


def written(out: Path) -> dict[str, Rows]:
    """What every sink holds: its rows by epoch, in no order."""
    return {
        sink.name: {epoch: sorted(map(repr, rows)) for epoch, rows in apps.epochs_of(sink).items() if rows}
        for sink in sorted(out.iterdir())
    }


@pytest.fixture(scope="module")
def faultless() -> dict[str, dict[str, Rows]]:
    """What each application writes without faults, once known."""
    return {}


@pytest.fixture
def expected(faultless: dict[str, dict[str, Rows]], begin: Begin, tmp_path: Path) -> Callable[[str], dict[str, Rows]]:
    def of(name: str) -> dict[str, Rows]:
        if name not in faultless:
            end(start(begin, name, tmp_path / "calm", "parallel", period=600, root=str(tmp_path / "calm-root")))
            faultless[name] = written(tmp_path / "calm")
        return faultless[name]

    return of


@pytest.mark.parametrize("scheme", ["baseline", "source", "parallel", "adaptive"])
@pytest.mark.parametrize("name", SIZES)
def test_bursts_that_kill_every_host_change_no_result(
    begin: Begin, folder: Folder, expected: Callable[[str], dict[str, Rows]], name: str, scheme: str
) -> None:
    wanted = expected(name)
    assert all(wanted.values()), "every sink has something to lose"
    running = start(begin, name, Path(folder.out), scheme, period=1.0)
    apps.wait_for_epoch(running, random.Random(f"{name} {scheme}").randint(2, 8))
    kill(running, host="all")
    apps.wait_until(lambda: running.progress().faults and running.progress().phase == "running", "the first recovery")
    apps.wait_until(lambda: _being_written(folder.root), "a checkpoint")
    struck = {host.pid for host in running.progress().hosts}
    kill(running, host="all")
    apps.wait_until(lambda: any(_new(host, struck) for host in running.progress().hosts), "a new host")
    kill(running, host="all")
    end(running)
    assert "recovery_finished" in folder.kinds()
    assert written(Path(folder.out)) == wanted


def _new(host: HostStatus, struck: set[int]) -> bool:
    """Was it started after the others had been killed, and lives?"""
    return host.pid not in struck and host.alive and is_alive(host.pid)


def _being_written(root: str) -> bool:
    """Is there a checkpoint without its manifest?"""
    return any(not (path / "manifest.json").exists() for path in Path(root, "checkpoints").glob("[0-9]*"))
