"""A host is killed: back from a checkpoint and the input since (R+SM), or from the input of the whole window (S4; figures 11 to 13).

*Upstream backup* keeps the input of the counter and applies all of it again; *source replay* keeps nothing, and the sources send all of it
again through the splitter. The window is full when the host dies. Recovery is over when the state is what it was. *Serial* and *parallel*
compare one shard that takes over with two that share it, on an operator that is heavy to replay.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import perseid
from perseid import App, every
from perseid.apps.word_frequency.graph import made_up_fragments, word_frequency
from perseid.bench.measuring import ours
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.scaling.applications import likeness
from perseid.bench.scaling.reading import pace, replayed_rows, restored_ms
from perseid.bench.scaling.sizes import RECOVERY_WORDS, Sizes
from perseid.checkpoint.schemes import Scheme
from perseid.checkpoints import comparison
from perseid.driver.running import Running

WAYS = ("state", "upstream", "source")
"""R+SM, upstream backup, source replay."""
MIDDLE, LATE = 0.5, 0.9
"""Of the interval has passed since the last checkpoint when the host dies: on average, and near the worst."""
SPARES = 2
WARM_S = 3.0
KEPT_PACE = 0.95


@dataclass(frozen=True, slots=True)
class Lost:
    """What one kill cost."""

    restored_s: float
    replayed_s: float  # of input, by its rows
    pace: float  # the share of the input that was done when the host died: below 1 there was less to make good


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """The three ways, by rate."""
    for rate in sizes.rates:
        judged = rate == sizes.rates[-1]
        for number in range(sizes.rounds if judged else 1):
            for way in WAYS:
                lost = side.call(
                    count_words, work / f"{way}-{rate}-{number}", way, rate, sizes.window_s, sizes.interval_s
                )
                _say(f"{way}_recovery_{rate}_s", lost, results)
                if judged:
                    results.sample(f"{way}_recovery_s", lost.restored_s, unit="s")


def measure_parallel(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """Serial and parallel, by checkpoint interval."""
    for interval_s in sizes.replay_s:
        judged = interval_s == sizes.replay_s[-1]
        for number in range(sizes.replay_rounds if judged else 1):
            for name, ways in (("serial", 1), ("parallel", 2)):
                folder = work / f"{name}-{interval_s:g}-{number}"
                lost = side.call(compare_texts, folder, sizes.replay_rate, interval_s, ways)
                _say(f"{name}_recovery_interval_{interval_s:g}_s", lost, results)
                if judged:
                    results.sample(f"{name}_recovery_s", lost.restored_s, unit="s")


def _say(name: str, lost: Lost, results: Results) -> None:
    results.sample(name, lost.restored_s, unit=f"s ({lost.replayed_s:.1f} s of input applied again)")
    results.sample(f"{name.removesuffix('_s')}_replayed_s", lost.replayed_s, unit="s")
    if lost.pace < KEPT_PACE:
        results.tell(f"[yellow]it was behind its input: {lost.pace:.0%} of it was done[/yellow]")
    results.sample(f"{name.removesuffix('_s')}_pace", lost.pace, unit="of the input done")


def count_words(work: Path, way: str, rate: int, window_s: float, interval_s: float) -> Lost:
    """On Perseid's side: words are counted until the window is full; then the host of the counter dies."""
    fragments = made_up_fragments(words=RECOVERY_WORDS, per_second=rate, rate=rate)
    app = word_frequency(fragments, perseid.sinks.noop(), window=every(seconds=window_s), shards=1)
    schemes = {
        "state": perseid.checkpoints.parallel(every(seconds=interval_s)),
        "upstream": comparison.upstream_backup(),
        "source": comparison.source_replay(),
    }
    running = _start(app, work, schemes[way])
    began = time.monotonic()
    if way == "state":
        full = began + window_s - interval_s
        return _killed(running, work, lambda: time.monotonic() >= full, MIDDLE * interval_s, rate)
    time.sleep(window_s)
    return _kill(running, work, rate)


def compare_texts(work: Path, rate: int, interval_s: float, ways: int) -> Lost:
    """On Perseid's side: texts are compared until there is a checkpoint, and until just before the next one."""
    scheme = perseid.checkpoints.parallel(every(seconds=interval_s))
    running = _start(likeness(rate=rate), work, scheme, parallel_recovery=ways)
    began = time.monotonic()
    return _killed(running, work, lambda: time.monotonic() - began >= WARM_S, LATE * interval_s, rate)


def _start(app: App, work: Path, scheme: Scheme, **more: object) -> Running:
    running = ours.start(app, work, checkpoint=scheme, hosts=1, spares=SPARES, **more)
    ours.wait_for(running, lambda p: p.epoch > 0 and p.spares >= SPARES)
    return running


def _killed(running: Running, work: Path, ready: Callable[[], bool], pause_s: float, rate: int) -> Lost:
    """Kill so long after a checkpoint, the first one when all is ready."""
    ours.wait_for(running, lambda _: ready())
    checkpoints = running.progress().checkpoints
    ours.wait_for(running, lambda p: p.checkpoints > checkpoints)
    time.sleep(pause_s)
    return _kill(running, work, rate)


def _kill(running: Running, work: Path, rate: int) -> Lost:
    before = running.progress()
    killed_ms = time.time() * 1000
    os.kill(next(host.pid for host in before.hosts if host.shards), signal.SIGKILL)
    ours.wait_for(running, lambda p: p.faults > before.faults)
    ours.wait_for(running, lambda p: p.phase == "running" and p.epoch > before.epoch)
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    replayed = replayed_rows(journal, killed_ms)
    return Lost(restored_ms(journal, killed_ms) / 1000, replayed / rate, pace(journal, rate, killed_ms))
