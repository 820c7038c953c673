"""Scale out and recovery by state management, against Spark, upstream backup and source replay; and what it costs.

Every comparison is of two things measured in this run on this machine (S8). Parts can be run alone. Perseid runs in one process, Spark's
own engine in another, as in the benchmark of the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from perseid.bench.engine import together
from perseid.bench.measuring import ours, peers
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.reporting import Bench
from perseid.bench.measuring.results import Results
from perseid.bench.scaling import live, load, overhead, picture, road, ways_back
from perseid.bench.scaling.goals import GOALS, told
from perseid.bench.scaling.sizes import FULL, HOSTS, QUICK, Sizes
from perseid.errors import SettingsError

Measure = Callable[[Contestant, Path, Sizes, Results], None]

PARTS: dict[str, Measure] = {
    "recovery": ways_back.measure,
    "parallel": ways_back.measure_parallel,
    "overhead": overhead.measure,
    "intervals": overhead.measure_intervals,
    "rising": load.measure_rising,
    "open": load.measure_open,
    "thresholds": load.measure_thresholds,
    "manual": load.measure_manual,
    "road": road.measure,
}
"""All that Perseid does alone; ``live`` needs Spark's own engine, too."""
NAMES = ("live", *PARTS)
TIMEOUT_S = 1_800.0
"""Of one call: to judge the answers of a hundred expressways takes its time."""
QUICK_NAMES = ("live", "recovery", "parallel", "overhead")
"""Those that have a goal and do not take minutes by their nature, as a road does."""


def run(quick: bool, json_path: Path | None, plot_path: Path | None, part: str | None = None) -> None:
    """Measure everything, or one part; show it, and write it down."""
    if part is not None and part not in NAMES:
        raise SettingsError(f"no part {part!r}; there are: {', '.join(NAMES)}")
    chosen = (part,) if part is not None else QUICK_NAMES if quick else NAMES
    bench = Bench(quick)
    _measure(bench, QUICK if quick else FULL, chosen)
    goals = tuple(goal for name in chosen for goal in GOALS.get(name, ()))
    bench.report(goals, json_path, plot_path, picture.draw, told)


def _measure(bench: Bench, sizes: Sizes, chosen: tuple[str, ...]) -> None:
    with bench.measuring(1 + len(chosen)) as (work, part), ExitStack() as sides:
        perseid = sides.enter_context(Contestant("perseid", work, timeout_s=TIMEOUT_S))
        spark = sides.enter_context(Contestant("spark", work)) if "live" in chosen else None

        def begin() -> None:
            starts: list[Callable[[], None]] = [lambda: perseid.call(ours.begin, hosts=HOSTS)]
            if spark is not None:
                starts.append(lambda: spark.call(peers.begin))
            together(*starts)

        part("starting Spark", begin)
        if spark is not None:
            part("live", lambda: live.measure(perseid, spark, work / "live", sizes, bench.results))
            spark.close()
        for name, measure in PARTS.items():
            if name in chosen:
                part(name, functools.partial(measure, perseid, work / name, sizes, bench.results))
