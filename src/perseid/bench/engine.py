"""The engine against Spark's own: throughput, small epochs, checkpoints, recovery, memory.

Every comparison is of two things measured in this run on this machine, taking turns, by their medians (issue 2). Perseid and its
peers run in processes of their own (``side``), on the same files (``data``), and are timed by the same functions (``timings``).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from perseid.bench.measuring import checkpoints, ours, peers, picture, recovery, small, throughput, verdicts
from perseid.bench.measuring.machine import machine
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.side import Side, SideFailed
from perseid.bench.measuring.sizes import FULL, QUICK
from perseid.errors import PerseidError

Part = Callable[[], None]


def run(quick: bool, json_path: Path | None, plot_path: Path | None) -> None:
    """Measure everything, show it, and write it down."""
    console = Console(highlight=False)
    console.width = max(console.width, 120) if not console.is_terminal else console.width
    began = time.monotonic()
    about = {"quick": quick, **machine()}
    results = Results(lambda line: console.print(f"  [dim]{time.monotonic() - began:5.0f} s[/dim]  {line}"))
    with tempfile.TemporaryDirectory(prefix="perseid-bench-", ignore_cleanup_errors=True) as folder:
        _measure(quick, Path(folder), results, console)
    about |= {"seconds": round(time.monotonic() - began), "load_after": round(os.getloadavg()[0], 2)}
    found = verdicts.judge(results.numbers)
    console.print(verdicts.table(found))
    console.print(f"[dim]{title(about)}[/dim]")
    if json_path is not None:
        reached = {v.goal.what: v.reached for v in found}
        extra = {"reached": reached, "samples": results.samples, "failures": results.failures}
        json_path.write_text(json.dumps({**results.numbers, **about, **extra}, indent=2) + "\n")
    plot_path = plot_path or (json_path.with_suffix(".png") if json_path is not None else None)
    if plot_path is not None:
        picture.draw(results, title(about), plot_path)
        console.print(f"[dim]figure: {plot_path}[/dim]")
    if results.failures:
        raise PerseidError(
            "these parts could not be measured:\n" + "\n".join(f"{p}: {e}" for p, e in results.failures.items())
        )


def title(about: dict[str, object]) -> str:
    """Where the numbers come from, in a line."""
    kind = "quick run, few repetitions" if about["quick"] else "full run"
    return (
        f"perseid {about['perseid']}, Spark {about['pyspark']}, {about['cores']} cores ({about['cpu']}), "
        f"{str(about['date'])[:10]}, {kind}, load before it {about['load_before']}"
    )


def _measure(quick: bool, work: Path, results: Results, console: Console) -> None:
    sizes = QUICK if quick else FULL
    with _steps(console, 6) as step, ExitStack() as sides:

        def side(name: str) -> Side:
            return sides.enter_context(Side(name, work))

        def part(name: str, measure: Part) -> None:
            step(name)
            try:
                measure()
            except (SideFailed, AssertionError) as error:
                results.failures[name] = str(error) or type(error).__name__
                results.tell(f"[red]{name}: not measured[/red]")

        perseid, spark, cluster = side("perseid"), side("spark"), side("cluster")

        def begin_cluster() -> None:
            cluster.call(ours.begin, recovery.CLUSTER)

        begins: list[Part] = [lambda: perseid.call(ours.begin), lambda: spark.call(peers.begin)]
        part("starting Spark", lambda: _together(*begins, *([begin_cluster] if quick else [])))
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


def _together(*functions: Part) -> None:
    with ThreadPoolExecutor(len(functions)) as pool:
        for begun in [pool.submit(function) for function in functions]:
            begun.result()


@contextmanager
def _steps(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """A bar that says what is being measured."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        done = -1

        def step(name: str) -> None:
            nonlocal done
            done += 1
            progress.update(task, description=name, completed=done)

        yield step
