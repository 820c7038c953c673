"""Standby: recovery, delay, traffic and detection of none, passive, active and hybrid, beside the paper's figures.

Eight operators in a chain, four units (H9). One host is stopped and goes on, as if something else took its processor. Everything runs in
one Spark session, in windows of bounded length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from perseid.bench.measuring import ours
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.reporting import Bench
from perseid.bench.measuring.results import Results
from perseid.bench.outages import costing, delaying, detecting, picture, recovering, running
from perseid.bench.outages.goals import EXACT, GOALS, told
from perseid.bench.outages.sizes import FULL, HOSTS, QUICK, SPARES, UNITS, Sizes
from perseid.errors import SettingsError

Measure = Callable[[Contestant, Path, Sizes, Results], None]

PARTS: dict[str, Measure] = {
    "recovery": recovering.measure,
    "delay": delaying.measure,
    "traffic": costing.measure,
    "shared": delaying.measure_shared,
    "large": costing.measure_large,
    "detection": detecting.measure,
}
QUICK_NAMES = ("recovery", "delay", "traffic")


def run(quick: bool, json_path: Path | None, plot_path: Path | None, part: str | None = None) -> None:
    """Measure everything, or one part; show it, and write it down."""
    if part is not None and part not in PARTS:
        raise SettingsError(f"no part {part!r}; there are: {', '.join(PARTS)}")
    sizes = QUICK if quick else FULL
    chosen = (part,) if part is not None else QUICK_NAMES if quick else tuple(PARTS)
    bench = Bench(quick)
    with bench.measuring(1 + len(chosen)) as (work, measured), Contestant("perseid", work) as side:

        def begin() -> None:
            side.call(ours.begin, hosts=HOSTS + SPARES)
            for units in (1, UNITS):
                found = side.call(running.calibrate, work / f"calibration-{units}", units, sizes.calibration_s)
                bench.results.number(f"epoch_cpu_ms_{units}", found.cpu_ms_of_epoch, "ms of processor time")
                bench.results.number(f"trigger_ms_{units}", found.trigger_ms, "ms from epoch to epoch")

        measured("starting Spark", begin)
        for name in chosen:
            measured(name, functools.partial(PARTS[name], side, work / name, sizes, bench.results))
    goals = tuple(goal for name in chosen for goal in GOALS.get(name, ()))
    bench.report((*goals, *EXACT), json_path, plot_path, picture.draw, told)
