"""The engine against Spark's own: throughput, small epochs, checkpoints, recovery, memory.

Every comparison is of two things measured in this run on this machine, taking turns, by their medians. Perseid and its
peers run in processes of their own (``side``), on the same files (``data``), and are timed by the same functions (``timings``).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from perseid.bench.measuring import checkpoints, ours, peers, picture, recovery, small, throughput, verdicts
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.reporting import Bench, Part
from perseid.bench.measuring.sizes import FULL, QUICK


def run(quick: bool, json_path: Path | None, plot_path: Path | None) -> None:
    """Measure everything, show it, and write it down."""
    bench = Bench(quick)
    _measure(bench, quick)
    bench.report(verdicts.GOALS, json_path, plot_path, picture.draw)


def _measure(bench: Bench, quick: bool) -> None:
    sizes, results = QUICK if quick else FULL, bench.results
    with bench.measuring(6) as (work, part), ExitStack() as sides:

        def side(name: str) -> Contestant:
            return sides.enter_context(Contestant(name, work))

        perseid, spark, cluster = side("perseid"), side("spark"), side("cluster")

        def begin_cluster() -> None:
            cluster.call(ours.begin, recovery.CLUSTER)

        begins: list[Part] = [lambda: perseid.call(ours.begin), lambda: spark.call(peers.begin)]
        part("starting Spark", lambda: together(*begins, *([begin_cluster] if quick else [])))
        part("throughput", lambda: throughput.measure(perseid, spark, work / "throughput", sizes, results))
        part("small epochs", lambda: small.measure(perseid, spark, work / "small", sizes, results))
        spark.close()
        part("checkpoints", lambda: checkpoints.measure(perseid, work / "checkpoints", sizes, results))
        part("host kills", lambda: recovery.measure_hosts(perseid, work / "kills", sizes, results))
        perseid.close()

        def executors() -> None:
            if not quick:  # its JVMs would be there, if idle, while everything else is measured
                begin_cluster()
            recovery.measure_executors(cluster, work / "kills", sizes, results)

        part("executor kills", executors)


def together(*functions: Part) -> None:
    """Run all of them side by side."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for begun in [pool.submit(function) for function in functions]:
            begun.result()
