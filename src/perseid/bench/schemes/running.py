"""One run on Perseid's side: an application under a scheme, warmed up, measured for a window, and then all its hosts killed.

Every scheme gets the same rows, settings and sink (none). What a checkpoint left in the page cache alone shows at the end of the window:
all its files are synced once more, and that is timed. Then they are dropped from the cache, so that a recovery reads the storage. The
worst case is the paper's: with the hosts their machines are lost, and what copies of the state lay there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

import perseid
from perseid import every
from perseid.bench.measuring import ours
from perseid.bench.measuring.sizes import SHARDS
from perseid.bench.measuring.timings import from_journal, gaps_ms, middle
from perseid.bench.schemes.plan import PROFILE_PERIODS, Case
from perseid.bench.schemes.reading import curve
from perseid.checkpoint.oracle import Recording
from perseid.checkpoint.schemes import Scheme
from perseid.checkpoints import comparison
from perseid.driver.running import Running
from perseid.engine.progress import Progress
from perseid.host.copies_folder import local_copies
from perseid.storage import layout
from perseid.storage.store import Store


@dataclass(frozen=True, slots=True)
class Ran:
    """A run: its journal, when its window began, when its hosts were killed."""

    journal: list[dict[str, Any]]
    from_ms: float
    kills_ms: tuple[float, ...]
    unsynced_ms: float  # how long it took to sync again a file that a checkpoint had said is durable
    busy_share: float  # of the machine's cores


LOOK_S, LOOKS, FASTER = 25.0, 6, 1.04


def warm(case: Case, work: Path, seconds: float) -> tuple[float, float]:
    """Let an application run before anything counts: the JVM compiles what it will use. It goes on until it becomes no faster.

    How long an epoch takes, in seconds, and how large the state is on average, in bytes.
    """
    running = _start(case, work, None)
    ours.wait_for(running, lambda p: p.epoch >= 2)
    time.sleep(seconds)
    best = 0
    for _ in range(0 if case.quick else LOOKS):
        before = running.progress().rows_in
        time.sleep(LOOK_S)
        came = running.progress().rows_in - before
        if came <= FASTER * best:
            break
        best = came
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    commits = from_journal(journal)
    epoch_s = middle(gaps_ms(commits, max(1, 2 * len(commits) // 3))) / 1000  # by the last third: it becomes faster
    sizes = [mb for _, mb in curve(journal)]
    return epoch_s, fmean(sizes[len(sizes) // 2 :]) * 1e6


def run(case: Case, work: Path, recording: Recording | None) -> Ran:
    """Run one case; its folder is gone afterwards."""
    running = _start(case, work, recording)
    try:
        ours.wait_for(running, lambda p: p.phase == "running")
        time.sleep(case.warm_s)
        before, from_ms = psutil.cpu_times(), time.time() * 1000
        time.sleep(case.measured_s)
        busy = _busy(before, psutil.cpu_times())
        root = work / "root"
        unsynced_ms = _sync_again(root)
        kills_ms = _kill_all(running, root, case) if case.kills else ()
        time.sleep(case.recorded_s)
        return Ran(ours.end(running), from_ms, kills_ms, unsynced_ms, busy)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _start(case: Case, work: Path, recording: Recording | None) -> Running:
    from perseid.apps.catalogue import CATALOGUE

    application = CATALOGUE[case.app]
    app = application.build(scale=case.scale, minutes=case.minutes, rate=case.rate)
    rows = application.epoch_rows(scale=case.scale, minutes=case.minutes, parts=case.parts)
    return ours.start(app, work, checkpoint=_scheme(case, recording), max_rows_per_epoch=rows, queue=case.queue)


def _scheme(case: Case, recording: Recording | None) -> Scheme:
    period = every(seconds=case.period_s)
    match case.scheme:
        case "baseline":
            return comparison.baseline(period)
        case "source":
            return perseid.checkpoints.source(period)
        case "adaptive":
            return perseid.checkpoints.adaptive(period, profile_periods=PROFILE_PERIODS)
        case "oracle":
            return comparison.oracle(recording, period)
        case _:
            return perseid.checkpoints.parallel(period)


def _busy(before: Any, after: Any) -> float:
    spent = {name: getattr(after, name) - getattr(before, name) for name in before._fields}
    total = sum(spent.values())
    return 1.0 - (spent["idle"] + spent.get("iowait", 0.0)) / total if total else 0.0


def _sync_again(root: Path) -> float:
    """Sync the snapshots of committed checkpoints, and drop them from the page cache; the milliseconds that took for each."""
    manifests = (root / layout.CHECKPOINTS).glob("*/manifest.json")
    files = [path for manifest in manifests for path in manifest.parent.glob("*.snapshot")]
    began = time.monotonic()
    for path in files:
        with (
            contextlib.suppress(FileNotFoundError),
            path.open("rb") as file,
        ):  # a newer checkpoint may let it go meanwhile
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return (time.monotonic() - began) * 1000 / len(files) if files else 0.0


def _kill_all(running: Running, root: Path, case: Case) -> tuple[float, ...]:
    """SIGKILL every host, the spare, too, as soon as the next checkpoint is taken; again when all are back; then wait for new output.

    Periods are no whole number of cycles, so each time the state has another height. Only the last time half a period
    passes before the kill, as it does on average: that shows how much there is to do again.
    """
    kills: list[float] = []
    taken = running.progress().checkpoints
    copies = local_copies(Store.at(str(root)))
    for left in reversed(range(case.kills)):
        ours.wait_for(running, lambda p, taken=taken: p.checkpoints > taken and _all_back(p))  # type: ignore[misc]
        time.sleep(0 if left else case.period_s / 2)
        before = ours.wait_for(running, _all_back)
        newest, taken = before.epoch, before.checkpoints
        _sync_again(root)
        if copies is not None:
            shutil.rmtree(copies, ignore_errors=True)
        kills.append(time.time() * 1000)
        for host in before.hosts:
            with contextlib.suppress(ProcessLookupError):
                os.kill(host.pid, signal.SIGKILL)
        ours.wait_for(running, lambda p, faults=before.faults: p.faults > faults)  # type: ignore[misc]
        ours.wait_for(running, lambda p: p.phase == "running")
    ours.wait_for(running, lambda p: p.epoch > newest)
    return tuple(kills)


def _all_back(progress: Progress) -> bool:
    return progress.phase == "running" and sum(host.alive for host in progress.hosts) > SHARDS
