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
from perseid.bench.schemes import pool
from perseid.bench.schemes.plan import JUDGED, MOST, PROFILE_PERIODS, Case
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
    """A run: its journal, when its window began and ended, when its hosts were killed."""

    journal: list[dict[str, Any]]
    from_ms: float
    until_ms: float
    kills_ms: tuple[float, ...]
    unsynced_ms: float  # how long it took to sync again a file that a checkpoint had said is durable
    busy_share: float  # of the machine's cores


LOOK_S, LOOKS, FASTER = 10.0, 4, 1.06
QUICK_WARM_EPOCHS, QUICK_WARM_S = 20, 30.0


def warm(case: Case, work: Path) -> tuple[float, float]:
    """Let an application run before anything counts: the JVM compiles what it will use. It goes on until it becomes no faster.

    How long an epoch takes, in seconds, and how large the state is on average, in bytes.
    """
    running = _start(case, work, None)
    began = ours.wait_for(running, lambda p: p.epoch >= 2).epoch
    if case.quick:
        until = time.monotonic() + QUICK_WARM_S
        ours.wait_for(running, lambda p: p.epoch >= began + QUICK_WARM_EPOCHS or time.monotonic() > until)
    else:
        best = 0
        for _ in range(LOOKS):
            before = running.progress().rows_in
            time.sleep(LOOK_S)
            came = running.progress().rows_in - before
            if came <= FASTER * best:
                break
            best = came
        ours.wait_for(running, lambda p: p.epoch >= began + case.parts)
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    commits = from_journal(journal)
    epoch_s = middle(gaps_ms(commits, max(1, len(commits) // 2))) / 1000  # by the second half: it becomes faster
    sizes = [mb for _, mb in curve(journal)]
    return epoch_s, fmean(sizes[len(sizes) // 2 :]) * 1e6


def run(case: Case, work: Path, recording: Recording | None) -> Ran:
    """Run one case; its folder is gone afterwards."""
    running = _start(case, work, recording)
    try:
        ours.wait_for(running, lambda p: p.phase == "running" and p.epoch >= 1)
        time.sleep(case.warm_s)
        before, from_ms = psutil.cpu_times(), time.time() * 1000
        first = running.progress()
        _window(running, first, case)
        busy, until_ms = _busy(before, psutil.cpu_times()), time.time() * 1000
        root = work / "root"
        unsynced_ms = _sync_again(root)
        kills_ms = _kill_all(running, root, case) if case.kills else ()
        if case.recorded_epochs:
            ours.wait_for(running, lambda p: p.epoch >= first.epoch + case.recorded_epochs)
        return Ran(ours.end(running), from_ms, until_ms, kills_ms, unsynced_ms, busy)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _window(running: Running, first: Progress, case: Case) -> None:
    """Wait until its epochs and all but one of its checkpoints are done. A scheme that stands still for long gets a limited time.

    Under load rows come by time, whatever the machine does, so there the window is a time.
    """
    if case.rate is not None:
        time.sleep(case.measured_s)
        return
    until = time.monotonic() + MOST * case.measured_s
    wanted = min(case.checkpoints, JUDGED) - 1

    def done(seen: Progress) -> bool:
        return seen.epoch >= first.epoch + case.epochs and seen.checkpoints - first.checkpoints >= wanted

    ours.wait_for(running, lambda p: done(p) or time.monotonic() > until)


def _start(case: Case, work: Path, recording: Recording | None) -> Running:
    settings = {"checkpoint": _scheme(case, recording), "queue": case.queue}
    if case.app == pool.NAME:
        return ours.start(pool.build(), work, max_rows_per_epoch=pool.ROWS // case.parts, **settings)
    from perseid.apps.catalogue import CATALOGUE

    application = CATALOGUE[case.app]
    app = application.build(scale=case.scale, minutes=case.minutes, rate=case.rate)
    rows = application.epoch_rows(scale=case.scale, minutes=case.minutes, parts=case.parts)
    return ours.start(app, work, max_rows_per_epoch=rows, **settings)


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
    passes before the kill, as it does on average: that shows how much there is to do again. A quick run kills them at once.
    """
    kills: list[float] = []
    taken = running.progress().checkpoints
    copies = local_copies(Store.at(str(root)))
    for left in reversed(range(case.kills)):
        if not case.quick:
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
