"""The checkpoint schemes of the Meteor Shower paper on its three applications: throughput, latency, checkpoints, recovery.

Every run is an application under one scheme, for a window of so many epochs with so many checkpoints in it; all schemes get the same rows,
settings and sink (M9). What is told comes from the journals of the runs (``schemes.reading``).

A benchmark has a time to keep. A run that no longer fits is left out, and the output says so.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from perseid.bench.measuring import ours
from perseid.bench.measuring.contestant import Contestant, SideFailed
from perseid.bench.measuring.machine import machine
from perseid.bench.measuring.reporting import title
from perseid.bench.schemes import picture, running, tables
from perseid.bench.schemes import storage as places
from perseid.bench.schemes.comparing import Comparison, Seen, judge
from perseid.bench.schemes.plan import AROUND_S, FULL, LOAD, NO_CHECKPOINTS, STANDING_STILL, AppPlan, Case, plans
from perseid.bench.schemes.reading import pace, recovery, window
from perseid.checkpoint.oracle import Recording
from perseid.errors import PerseidError, SettingsError

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for three minutes spends most of a slow machine on compiling; like this it needs half as much."""
APPS = tuple(plan.app for plan in FULL)


def run(
    quick: bool, json_path: Path | None, plot_path: Path | None, app: str | None = None, storage: str = "disk"
) -> None:
    """Measure, show, and write it down."""
    if app is not None and app not in APPS:
        raise SettingsError(f"no application {app!r}; there are: {', '.join(APPS)}")
    try:
        if not quick or app is not None:  # the application of the quick run needs none of it
            import sklearn  # noqa: F401  is it there at all?
    except ModuleNotFoundError as error:
        raise SettingsError(f"the applications need {error.name}: pip install 'perseid[apps]'") from error
    console = Console(highlight=False)
    console.width = max(console.width, 170) if not console.is_terminal else console.width
    began = time.monotonic()
    found = Found()

    def tell(line: str) -> None:
        console.print(f"  [dim]{time.monotonic() - began:5.0f} s[/dim]  {line}")

    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-", ignore_cleanup_errors=True) as folder,
        places.storage(storage, Path(folder)) as place,
    ):
        if quick:
            os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JVM)
        about = {"quick": quick, "storage": place.about, **machine()}
        _measure(plans(quick, app), Path(folder), place, found, tell)
    about |= {"seconds": round(time.monotonic() - began), "load_after": round(os.getloadavg()[0], 2)}
    verdicts = judge(found.comparison)
    if quick:
        tables.brief(console, found.comparison)
    else:
        tables.show(console, found.comparison, verdicts)
    for name, why in found.left_out.items():
        console.print(f"[yellow]not shown: {name}: {why}[/yellow]")
    told = f"{title(about)}, {about['storage']}"
    console.print(f"[dim]{told}[/dim]")
    if json_path is not None:
        reached = {v.claim.what: v.reached for v in verdicts if v.reached is not None}
        average = {v.claim.what: v.average for v in verdicts}
        extra = {
            "reached": reached,
            "average": average,
            "failures": found.failures,
            "left_out": found.left_out,
            **found.storage_mb_per_s,
        }
        json_path.write_text(json.dumps({**found.comparison.numbers(), **about, **extra}, indent=2) + "\n")
    plot_path = plot_path or (json_path.with_suffix(".png") if json_path is not None else None)
    if plot_path is not None:
        picture.draw(found.comparison, found.curves, told, plot_path)
        console.print(f"[dim]figure: {plot_path}[/dim]")
    if found.failures:
        raise PerseidError(
            "these runs could not be measured:\n" + "\n".join(f"{c}: {e}" for c, e in found.failures.items())
        )


@dataclass(slots=True)
class Found:
    """What the runs gave, and those that gave nothing."""

    comparison: Comparison = field(default_factory=Comparison)
    curves: picture.Curves = field(default_factory=picture.Curves)
    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # what this machine had no time for
    storage_mb_per_s: dict[str, float] = field(
        default_factory=dict
    )  # by JSON name; of the disk as it is nothing is known


def _measure(
    chosen: tuple[AppPlan, ...], scratch: Path, place: places.Storage, found: Found, tell: Callable[[str], None]
) -> None:
    began = time.monotonic()
    with Contestant("meteor", scratch) as side:
        side.call(place.join)
        side.call(ours.begin)
        side.call(place.leave)
        for number, plan in enumerate(chosen, 1):
            until = began + sum(p.budget_s for p in chosen[:number])
            epoch_s, state_bytes = side.call(running.warm, next(plan.cases()), place.folder / "warm")
            fitted = plan.fitted(epoch_s)
            smaller = fitted.scale / plan.scale
            if not plan.quick:  # fewer epochs have more rows each
                epoch_s *= smaller * plan.parts[0] / fitted.parts[0]
            tell(
                f"{plan.app} is warm: {epoch_s:.2f} s an epoch, {fitted.parts[0]} epochs a cycle of its state,"
                f" which is {state_bytes * smaller / 1e6:.0f} MB on average"
            )
            needed_s, all_s = fitted.expected_s(epoch_s, AROUND_S)
            tell(
                f"its runs take about {all_s:.0f} s, those without which nothing can be compared {needed_s:.0f} s;"
                f" {max(0.0, until - time.monotonic()):.0f} s are left"
            )
            _Runs(side, fitted, place, found, tell, until, epoch_s, state_bytes * smaller).go()


@dataclass(slots=True)
class _Runs:
    """The runs of one application, one after the other, until its time is over."""

    side: Contestant
    plan: AppPlan
    place: places.Storage
    found: Found
    tell: Callable[[str], None]
    until: float
    epoch_s: float  # of the last run that stood still for nothing
    state_bytes: float
    around_s: float = AROUND_S  # what starting, coming back and stopping took in the last run
    recorded: Recording | None = None

    def go(self) -> None:
        self._all(self.plan.cases())
        for most in self.found.comparison.of(self.plan.app, "baseline", 0):
            self._all(self.plan.loaded(most.taken_per_s), most.epoch_s / LOAD)
        self._all(self.plan.often())

    def _all(self, cases: Iterable[Case], epoch_s: float | None = None) -> None:
        for unfitted in cases:
            case = self.plan.at_pace(unfitted, epoch_s or self.epoch_s, self.state_bytes)
            now = time.monotonic()
            if not self.plan.needed(case) and now + case.expected_s + self.around_s > self.until:
                self.found.left_out[case.name] = (
                    f"it needs {case.expected_s + self.around_s:.0f} s on this machine now, and there were"
                    f" {max(0.0, self.until - now):.0f} s left"
                )
                continue
            ran = _run(self.side, case, self.place, self.recorded, self.found, self.tell)
            if ran is None:
                continue
            self.around_s = max(0.0, time.monotonic() - now - case.expected_s)
            if case.scheme == NO_CHECKPOINTS:
                self.recorded = Recording.from_journal(ran.journal)
            if case.scheme not in STANDING_STILL and epoch_s is None:
                self.epoch_s = self.found.comparison.seen[-1].epoch_s


def _run(
    side: Contestant,
    case: Case,
    place: places.Storage,
    recorded: Recording | None,
    found: Found,
    tell: Callable[[str], None],
) -> running.Ran | None:
    if place.limit(case.storage_bytes_per_s):
        found.storage_mb_per_s[f"{case.name}_storage_mb_per_s"] = round(case.storage_bytes_per_s / 1e6, 1)
    try:
        ran = side.call(running.run, case, place.folder / case.name, recorded)
        seen = _read(case, ran)
    except (SideFailed, AssertionError) as error:
        found.failures[case.name] = str(error) or type(error).__name__
        tell(f"[red]{case.name}: not measured[/red]")
        return None
    found.comparison.seen.append(seen)
    found.curves.add(case, ran.journal, ran.from_ms, ran.until_ms)
    tell(_line(seen))
    return ran


def _read(case: Case, ran: running.Ran) -> Seen:
    measured_ms = ran.until_ms - ran.from_ms
    found = window(ran.journal, ran.from_ms, measured_ms, case.rate)
    lost = recovery(ran.journal, ran.kills_ms) if ran.kills_ms else None
    taken_per_s, epoch_s = pace(ran.journal, ran.from_ms, measured_ms)
    epochs = round(measured_ms / 1000 / epoch_s)
    return Seen(case, found, lost, ran.busy_share, ran.unsynced_ms, taken_per_s, epoch_s, measured_ms / 1000, epochs)


def _line(seen: Seen) -> str:
    case, found = seen.case, seen.window
    name = f"{case.app} {case.scheme}{'' if case.rate is None else ', load'}"
    said = f"{name:20}{seen.window_s:5.1f} s, {seen.epochs:3} epochs: {found.rows_per_s:9,.0f} rows/s, latency {found.latency_ms:5,.0f} ms"
    if found.checkpoints:
        said += f", {found.rounds:.0f} checkpoints: {found.bytes / 1e6:5.1f} MB in {found.checkpoint_ms:4,.0f} ms each"
    if seen.recovery is not None:
        said += f", recovery {seen.recovery.ms:5,.0f} ms"
    return said
