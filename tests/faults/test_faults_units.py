"""Hosts of units that read one another's streams die: only the shards that were lost go back, and every row counts once (S4)."""

from __future__ import annotations

import os
import signal

import apps
import pytest
from apps import Begin, Folder, end

from perseid.driver.running import Running
from perseid.testing.counter import count_fault

pytestmark = pytest.mark.spark

ROWS = 3_500


def kill_homes(running: Running, shards: tuple[str, ...]) -> None:
    victims = [host.pid for host in running.progress().hosts if set(shards) & set(host.shards)]
    assert len(victims) == len(shards), "every shard has a host of its own"
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
        count_fault("kill")


@pytest.mark.parametrize(
    ("lost", "scheme", "keep_input"),
    [
        (("count/0", "rollup/0"), "parallel", False),
        pytest.param(("rollup/0",), "parallel", False, marks=pytest.mark.slow),
        *(pytest.param(("rollup/0",), s, True, marks=pytest.mark.slow) for s in ("parallel", "source", "adaptive")),
        pytest.param(("count/0", "rollup/0"), "source", False, marks=pytest.mark.slow),
    ],
)
def test_only_lost_shards_go_back(
    begin: Begin, folder: Folder, lost: tuple[str, ...], scheme: str, keep_input: bool
) -> None:
    """Without kept input the lower unit has to be fed from the answers of the upper one, and from what the checkpoint has in flight."""
    rows = 12_000
    running = begin(apps.units(folder.out, rows, rate=1_000, shards=1), scheme, period=2, keep_input=keep_input)
    apps.wait_for_checkpoint(running)
    apps.wait_for_epoch(running, running.progress().epoch + 2)
    kill_homes(running, lost)
    end(running)
    apps.check_units(folder.out, rows)
    recoveries = [e for e in folder.journal() if e["kind"] == "recovery_started"][1:]
    assert recoveries and {e["mode"] for e in recoveries} == {"shards"}
    if len(recoveries) == 1:  # else a busy machine added some
        assert set(recoveries[0]["shards"]) == set(lost)
