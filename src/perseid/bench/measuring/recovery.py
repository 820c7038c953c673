"""How long it takes from a SIGKILL to the first new output: of a host with 100 MB of state, and of an executor of a ``local-cluster``.

The application takes 20,000 rows a second and checkpoints every 10 s. Kills come at different times after a checkpoint, so that between
nothing and nearly 10 s of input has to be replayed. New output is an epoch committed to the sink after the recovery.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from perseid.bench.measuring import applications, ours
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.memory import MB
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.sizes import SHARDS, Sizes
from perseid.bench.measuring.timings import Recovery, recoveries
from perseid.storage import layout

HOST_STATE_BYTES = 100 * MB
ROWS_PER_S = 20_000
PAUSES_S = (4.0, 1.0, 2.3, 4.9, 1.7, 3.1, 3.7)
CLUSTER = "local-cluster[2,4,1024]"


def measure_hosts(perseid: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Begins with nothing."""
    found = perseid.call(run, work, sizes.host_kills, executors=False)
    _say("host", found, results)


def measure_executors(cluster: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Goes on from where the hosts were killed, if there is such a root."""
    found = cluster.call(run, work, sizes.executor_kills, executors=True)
    _say("executor", found, results)


def _say(what: str, found: list[Recovery], results: Results) -> None:
    for one in found:
        results.sample(f"{what}_kill_recovery_s", one.seconds, unit=f"s ({one.replayed_epochs} epochs replayed)")


def run(work: Path, kills: int, *, executors: bool) -> list[Recovery]:
    """On Perseid's side: kill, wait for new output and for the pool to be full again, and once more."""
    resumed = (work / "root" / layout.APP).exists()
    app = applications.newest(work / "out", state_bytes=HOST_STATE_BYTES * SHARDS, rate=ROWS_PER_S)
    running = ours.start(app, work)
    ours.wait_for(running, lambda p: p.epoch > 0 and (p.checkpoints > 0 or resumed))
    kill: Callable[[int], None] = _kill_executor if executors else _kill
    killed_ms = []
    for number in range(kills):
        before = ours.wait_for(running, lambda p: p.phase == "running" and p.spares > 0)
        time.sleep(PAUSES_S[number % len(PAUSES_S)])
        holders = [host for host in running.progress().hosts if host.shards]
        killed_ms.append(time.time() * 1000)
        kill(holders[number % len(holders)].pid)
        ours.wait_for(running, lambda p, faults=before.faults: p.faults > faults)  # type: ignore[misc]
        lost = ours.wait_for(running, lambda p: p.phase == "running")
        ours.wait_for(running, lambda p, epoch=lost.epoch: p.epoch > epoch + 1)  # type: ignore[misc]
    return recoveries(ours.end(running), killed_ms)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _kill_executor(pid: int) -> None:
    """The JVM whose Python worker this host is."""
    for parent in psutil.Process(pid).parents():
        if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
            parent.kill()
            return
    raise AssertionError(f"host {pid} does not run in an executor of its own")
