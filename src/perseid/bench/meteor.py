"""The checkpoint schemes of the Meteor Shower paper on its three applications: throughput, latency, checkpoints, recovery.

Every run is an application under one scheme, for a window of time with so many checkpoints in it; schemes take turns on the same rows,
with the same settings and the same sink (M9). What is told comes from the journals of the runs (``schemes.reading``).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
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
from perseid.bench.schemes.plan import FULL, LOAD, NO_CHECKPOINTS, STANDING_STILL, AppPlan, Case, plans
from perseid.bench.schemes.reading import pace, recovery, window
from perseid.checkpoint.oracle import Recording
from perseid.errors import PerseidError, SettingsError

WARM_S, QUICK_WARM_S = 30.0, 8.0
"""How long an application runs at least before it is measured: the JVM goes on compiling, and later runs must not gain by it."""
APPS = tuple(plan.app for plan in FULL)


def run(
    quick: bool, json_path: Path | None, plot_path: Path | None, app: str | None = None, storage: str = "disk"
) -> None:
    """Measure, show, and write it down."""
    if app is not None and app not in APPS:
        raise SettingsError(f"no application {app!r}; there are: {', '.join(APPS)}")
    try:
        import sklearn  # noqa: F401  is it there at all?
    except ModuleNotFoundError as error:
        raise SettingsError(f"the applications need {error.name}: pip install 'perseid[apps]'") from error
    console = Console(highlight=False)
    console.width = max(console.width, 140) if not console.is_terminal else console.width
    began = time.monotonic()
    found = Found()

    def tell(line: str) -> None:
        console.print(f"  [dim]{time.monotonic() - began:5.0f} s[/dim]  {line}")

    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-", ignore_cleanup_errors=True) as folder,
        places.storage(storage, Path(folder)) as place,
    ):
        about = {"quick": quick, "storage": place.about, **machine()}
        _measure(plans(quick, app), QUICK_WARM_S if quick else WARM_S, Path(folder), place, found, tell)
    about |= {"seconds": round(time.monotonic() - began), "load_after": round(os.getloadavg()[0], 2)}
    verdicts = judge(found.comparison)
    tables.show(console, found.comparison, verdicts)
    told = f"{title(about)}, {about['storage']}"
    console.print(f"[dim]{told}[/dim]")
    if json_path is not None:
        reached = {v.claim.what: v.reached for v in verdicts if v.reached is not None}
        average = {v.claim.what: v.average for v in verdicts}
        extra = {"reached": reached, "average": average, "failures": found.failures, **found.storage_mb_per_s}
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
    storage_mb_per_s: dict[str, float] = field(
        default_factory=dict
    )  # by JSON name; of the disk as it is nothing is known


def _measure(
    chosen: tuple[AppPlan, ...],
    warm_s: float,
    scratch: Path,
    place: places.Storage,
    found: Found,
    tell: Callable[[str], None],
) -> None:
    with Contestant("meteor", scratch) as side:
        side.call(place.join)
        side.call(ours.begin)
        side.call(place.leave)
        for plan in chosen:
            epoch_s, state_bytes = side.call(running.warm, next(iter(plan.cases())), place.folder / "warm", warm_s)
            tell(f"{plan.app} is warm; its state is {state_bytes / 1e6:.0f} MB on average")
            recorded: Recording | None = None
            for case in plan.cases():
                if plan.most_s < 0.95 * plan.needed_s(epoch_s):
                    needed = f"its state needs a window of {plan.needed_s(epoch_s):.0f} s on this machine now"
                    tell(f"[yellow]{needed}, and gets {plan.most_s:.0f} s[/yellow]")
                ran = _run(side, plan.at_pace(case, epoch_s, state_bytes), place, recorded, found, tell)
                if ran is None:
                    continue
                if case.scheme == NO_CHECKPOINTS:
                    recorded = Recording.from_journal(ran.journal)
                if case.scheme not in STANDING_STILL:
                    epoch_s = found.comparison.seen[-1].epoch_s
            for most in found.comparison.of(plan.app, "baseline", 0):
                for case in plan.loaded(most.taken_per_s):
                    _run(side, plan.at_pace(case, most.epoch_s / LOAD, state_bytes), place, None, found, tell)


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
    found.curves.add(case, ran.journal, ran.from_ms)
    tell(_line(seen))
    return ran


def _read(case: Case, ran: running.Ran) -> Seen:
    measured_ms = case.measured_s * 1000
    found = window(ran.journal, ran.from_ms, measured_ms, case.rate)
    lost = recovery(ran.journal, ran.kills_ms) if ran.kills_ms else None
    taken_per_s, epoch_s = pace(ran.journal, ran.from_ms, measured_ms)
    return Seen(case, found, lost, ran.busy_share, ran.unsynced_ms, taken_per_s, epoch_s)


def _line(seen: Seen) -> str:
    case, found = seen.case, seen.window
    name = f"{case.app} {case.scheme}{'' if case.rate is None else ', load'}"
    said = f"{name:20}{case.window_s:5.1f} s: {found.rows_per_s:9,.0f} rows/s, latency {found.latency_ms:5,.0f} ms"
    if found.checkpoints:
        said += f", {found.rounds:.0f} checkpoints: {found.bytes / 1e6:5.1f} MB in {found.checkpoint_ms:4,.0f} ms each"
    if seen.recovery is not None:
        said += f", recovery {seen.recovery.ms:5,.0f} ms"
    return said
