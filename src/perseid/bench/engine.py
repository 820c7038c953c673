"""The engine against Spark's own: throughput, small epochs, checkpoints, recovery, memory.

Every comparison is of two things measured in this run on this machine, taking turns, by their medians. Perseid and its
peers run in processes of their own (``side``), on the same files (``data``), and are timed by the same functions (``timings``).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from perseid.bench.measuring import checkpoints, ours, peers, picture, processing, recovery, small, throughput, verdicts
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.reporting import Bench, Part
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.sizes import FULL, QUICK, Sizes
from perseid.errors import SettingsError

Measure = Callable[[Contestant, Path, Sizes, Results], None]

AGAINST_SPARK: dict[str, Callable[[Contestant, Contestant, Path, Sizes, Results], None]] = {
    "throughput": throughput.measure,
    "small": small.measure,
    "processors": processing.measure,
}
NAMES = tuple(verdicts.GOALS)


def run(quick: bool, json_path: Path | None, plot_path: Path | None, part: str | None = None) -> None:
    """Measure everything, or one part; show it, and write it down."""
    if part is not None and part not in NAMES:
        raise SettingsError(f"no part {part!r}; there are: {', '.join(NAMES)}")
    chosen = NAMES if part is None else (part,)
    bench = Bench(quick)
    _measure(bench, quick, chosen)
    goals = tuple(goal for name in chosen for goal in verdicts.GOALS[name])
    bench.report(goals, json_path, plot_path, picture.draw)


def _measure(bench: Bench, quick: bool, chosen: tuple[str, ...]) -> None:
    sizes, results = QUICK if quick else FULL, bench.results
    with bench.measuring(1 + len(chosen)) as (work, part), ExitStack() as sides:

        def side(name: str) -> Contestant:
            return sides.enter_context(Contestant(name, work))

        perseid, spark, cluster = side("perseid"), side("spark"), side("cluster")

        def begin_cluster() -> None:
            cluster.call(ours.begin, recovery.CLUSTER)

        def executors() -> None:
            perseid.close()
            if not quick:  # its JVMs would be there, if idle, while everything else is measured
                begin_cluster()
            recovery.measure_executors(cluster, work / "kills", sizes, results)

        def alone(name: str, measure: Measure, folder: str) -> None:
            if name in chosen:
                spark.close()
                part(name, lambda: measure(perseid, work / folder, sizes, results))

        begins: list[Part] = []
        if chosen != ("executors",):
            begins.append(lambda: perseid.call(ours.begin))
        if AGAINST_SPARK.keys() & set(chosen):
            begins.append(lambda: spark.call(peers.begin))
        if "executors" in chosen and quick:
            begins.append(begin_cluster)
        if begins:
            part("starting Spark", lambda: together(*begins))
        for name, against in AGAINST_SPARK.items():
            if name in chosen:
                part(name, partial(against, perseid, spark, work / name, sizes, results))
        alone("checkpoints", checkpoints.measure, "checkpoints")
        alone("hosts", recovery.measure_hosts, "kills")
        if "executors" in chosen:
            part("executors", executors)


def together(*functions: Part) -> None:
    """Run all of them side by side."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for begun in [pool.submit(function) for function in functions]:
            begun.result()
