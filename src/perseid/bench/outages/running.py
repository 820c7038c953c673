"""A chain that runs: who is primary, what its journal says, and in the end whether every row came out once.

These functions run on Perseid's side (``measuring.contestant``).
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

import perseid
from perseid import Duration, every
from perseid.bench.measuring import ours
from perseid.bench.outages.chain import chain, check
from perseid.bench.outages.sizes import HOSTS, LOAD, RATE, SPARES, UNITS
from perseid.bench.scaling.reading import Arrivals, Entry
from perseid.engine.progress import HostStatus, StandbyStatus
from perseid.standby.modes import Standby

PATIENCE_S = 60.0
POLL_S = 0.005
WARM_S = 2.0

_triggers: dict[int, Duration] = {}  # by units of the chain: at which it takes ``LOAD`` of this machine


@dataclass(slots=True)
class Verdict:
    """What came out of a run, besides its times."""

    lost: int = 0
    doubled: int = 0
    pace: float = 1.0  # the share of the input that was done


class Chain:
    """One run, on a root of its own."""

    def __init__(
        self,
        work: Path,
        standby: Mapping[int, Standby],
        *,
        rate: float = RATE,
        units: int = UNITS,
        spares: int = SPARES,
        **more: Any,
    ) -> None:
        self.work, self.rate, self.units, self.standby = work, rate, units, standby
        self.verdict = Verdict()
        self.journal: list[dict[str, Any]] = []
        app = chain(work, rate, standby, units=units, **more)
        checkpoint = perseid.checkpoints.parallel(every(seconds=10))
        self.running = ours.start(
            app, work, hosts=min(units, HOSTS), spares=spares, trigger=_triggers.get(units), checkpoint=checkpoint
        )

    def __enter__(self) -> Self:
        try:
            self.until(lambda: self.running.progress().epoch >= 3, "the first epochs")
            self.guarded()
            time.sleep(WARM_S)
        except BaseException:
            self.running.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.journal = ours.end(self.running)
        done = [e for e in self.journal if e["kind"] == "epoch_committed"]
        self.verdict.lost, self.verdict.doubled = check(self.work, sum(e["rows_in"] for e in done))
        began, ended = done[0]["at_ms"], done[-1]["at_ms"]
        self.verdict.pace = sum(e["rows_in"] for e in done[1:]) * 1000 / (ended - began) / self.rate
        shutil.rmtree(self.work, ignore_errors=True)

    # -- who is who -----------------------------------------------------------------------------------------------

    def pair(self, unit: int) -> StandbyStatus | None:
        """Of the first operator of a unit."""
        return next((one for one in self.running.progress().standby if f"first-{unit}/0" in one.shards), None)

    def host_of(self, unit: int) -> HostStatus | None:
        """The primary, whoever answers; without standby, the host that has the shard."""
        seen, one = self.running.progress(), self.pair(unit)
        if one is not None:
            return next((host for host in seen.hosts if host.host == one.primary), None)
        return next((host for host in seen.hosts if f"first-{unit}/0" in host.shards), None)

    def victim(self, unit: int) -> Callable[[], int | None]:
        """The process to strike."""

        def pid() -> int | None:
            host = self.host_of(unit)
            return host.pid if host is not None and host.alive else None

        return pid

    def guarded(self) -> None:
        """Until every pair that is wanted has its copy."""
        units = [unit for unit, mode in self.standby.items() if mode.guards]

        def all_guarded() -> bool:
            pairs = [self.pair(unit) for unit in units]
            return all(one is not None and one.phase == "guarded" for one in pairs)

        self.until(all_guarded, "copies")

    def caught_up(self) -> None:
        """Until all that has come by now is done: an epoch takes all there is."""
        now = self.running.progress().epoch
        self.until(lambda: self.running.progress().epoch >= now + 3, "three more epochs")

    def until(self, reached: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        until = time.monotonic() + patience_s
        while not reached():
            assert not self.running.wait(0.02), f"the application ended before {what}"
            assert time.monotonic() < until, f"waited {patience_s:.0f} s for {what}: {self.running.progress()}"

    def told(self, kind: str, after_ms: float = 0.0, before_ms: float = float("inf")) -> list[Entry]:
        """Notices of a kind, once it has ended."""
        return [e for e in self.journal if e["kind"] == kind and after_ms <= e["at_ms"] < before_ms]

    # -- times ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watching(self, unit: int) -> Iterator[list[tuple[float, int]]]:
        """When the unit finished which epoch, in wall ms, as it happens."""
        seen: list[tuple[float, int]] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(POLL_S):
                epoch = self.running.progress().units.get(f"unit-{unit}", 0)
                if not seen or epoch > seen[-1][1]:
                    seen.append((time.time() * 1000, epoch))

        thread = threading.Thread(target=watch, name="bench-watch", daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            thread.join()

    def delay_ms(self, from_ms: float, to_ms: float) -> float:
        """Of the rows that came within this time: the mean from their coming to the commit of their epoch."""
        return mean_delay_ms(self.journal, Arrivals.at_rate(self.journal, self.rate), from_ms, to_ms)


def mean_delay_ms(entries: list[dict[str, Any]], arrivals: Arrivals, from_ms: float, to_ms: float) -> float:
    """By epoch: the rows of one come evenly, and are done together."""
    total = rows = 0.0
    seen = 0
    first_ms, last_ms = arrivals.at_ms
    ms_of_row = (last_ms - first_ms) / arrivals.rows[1]
    for entry in entries:
        if entry["kind"] != "epoch_committed":
            continue
        began, ended = first_ms + seen * ms_of_row, first_ms + (seen + entry["rows_in"]) * ms_of_row
        seen += entry["rows_in"]
        low, high = max(began, from_ms), min(ended, to_ms)
        if high > low:
            rows += (high - low) / ms_of_row
            total += (high - low) / ms_of_row * (entry["at_ms"] - (low + high) / 2)
    assert rows, "no row came in the time that is measured"
    return total / rows


@dataclass(slots=True)
class Calibrated:
    """How a chain is run so that it leaves room on the machine."""

    cpu_ms_of_epoch: float
    trigger_ms: int


def calibrate(work: Path, units: int, seconds: float) -> Calibrated:
    """From here on an epoch begins so rarely that a chain of so many units takes ``LOAD`` of all cores."""
    _triggers.pop(units, None)
    with Chain(work, {}, units=units) as one:
        time.sleep(seconds)  # Spark's code is compiled
        first, cpu_s = one.running.progress().epoch, _cpu_s()
        time.sleep(seconds)
        epochs = one.running.progress().epoch - first
        cpu_s = _cpu_s() - cpu_s
    assert epochs, "no epoch was committed"
    cores = psutil.cpu_count() or 1
    ms = max(50, round(1000 * cpu_s / epochs / (LOAD * cores)))
    _triggers[units] = every(milliseconds=ms)
    return Calibrated(1000 * cpu_s / epochs, ms)


def _cpu_s() -> float:
    """Of this process and all it has started."""
    me, total = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total
