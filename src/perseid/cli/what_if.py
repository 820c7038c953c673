"""``perseid simulate --model``: a year of a large site under each checkpoint scheme, as a table and a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from perseid.cli.figures import count, duration, size
from perseid.errors import SettingsError
from perseid.simulation import datacenter
from perseid.simulation.scenario import SCHEMES
from perseid.simulation.year import PERIOD_MS, Year, simulate_year

MODELS = ("datacenter",)
COMPARED = [name for name in SCHEMES if name != "oracle"]  # which needs a recording, and a year to come has none


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked."""

    model: str
    hosts: int | None
    scheme: str | None  # None: each
    days: int
    seed: int
    jobs: int  # processes, a scheme in each


def what_if(asked: Question, *, json_path: Path | None, plot_path: Path | None) -> None:
    """Simulate, show, write, draw."""
    if asked.model not in MODELS:
        raise SettingsError(f"no model {asked.model!r}; there is: {', '.join(MODELS)}")
    schemes = [asked.scheme] if asked.scheme is not None else COMPARED
    years = _years(schemes, asked)
    _show(years)
    if json_path is not None:
        json_path.write_text(json.dumps([year.as_dict() for year in years], indent=2) + "\n")
    if plot_path is not None:
        _draw(years, plot_path)


def _years(schemes: list[str], asked: Question) -> list[Year]:
    hosts = asked.hosts or datacenter.NODES
    one = partial(simulate_year, hosts=hosts, days=asked.days, seed=asked.seed)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    years: list[Year] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{asked.days} days of {count(hosts)} hosts", total=len(schemes))
        if asked.jobs > 1:
            with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
                for year in pool.map(one, schemes):
                    years.append(year)
                    progress.update(task, completed=len(years))
            return years
        for scheme in schemes:
            years.append(one(scheme, watch=lambda done: progress.update(task, completed=len(years) + done)))
    return years


def _show(years: list[Year]) -> None:
    console = Console(highlight=False)
    console.width = max(console.width, 30 + 26 * len(years))  # a table that wraps cannot be compared
    first = years[0]
    faults = ", ".join(f"{number} {name}" for name, number in first.faults.items())
    console.print(
        f"{first.days} days of {count(first.hosts)} hosts, a checkpoint every {duration(PERIOD_MS)}: {faults}"
    )
    table = Table(box=None, padding=(0, 2))
    table.add_column("")
    for year in years:
        table.add_column(year.scheme, justify="right")
    rows: dict[str, Callable[[Year], str]] = {
        "availability": lambda y: f"{y.availability:.4%}",
        "recoveries": lambda y: count(y.recoveries),
        "recovery, median": lambda y: duration(y.recovery_p50_ms),
        "recovery, 99 %": lambda y: duration(y.recovery_p99_ms),
        "recovery, worst": lambda y: duration(y.recovery_worst_ms),
        "rows": lambda y: count(y.rows),
        "rows replayed": lambda y: f"{count(y.replayed_rows)} ({y.replayed_rows / max(y.rows, 1):.2%})",
        "checkpoints": lambda y: count(y.checkpoints),
        "stopped for snapshots": lambda y: f"{y.stopped_share:.2%} of the time",
        "stored": lambda y: size(y.stored_bytes),
        "cost": lambda y: f"{count(y.cost)} USD",
        "simulated in": lambda y: duration(y.seconds * 1000),
    }
    for name, tell in rows.items():
        table.add_row(name, *(tell(year) for year in years))
    console.print(table)


def _draw(years: list[Year], path: Path) -> None:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise SettingsError("a picture needs matplotlib: pip install 'perseid[bench]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    names = [year.scheme for year in years]
    panels = (
        ("hours without output", [(1 - y.availability) * y.days * 24 for y in years]),
        ("rows replayed, % of all", [100 * y.replayed_rows / max(y.rows, 1) for y in years]),
        ("stopped for snapshots, % of the time", [100 * y.stopped_share for y in years]),
    )
    for axis, (title, numbers) in zip(axes, panels, strict=True):
        shown = axis.bar(names, numbers, color="#2a6f97", width=0.55)
        axis.bar_label(shown, [f"{number:.3g}" for number in numbers], fontsize=9)
        axis.margins(y=0.12)  # room for the numbers
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{years[0].days} days of {years[0].hosts:,} hosts, failures of table I", fontsize=11)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
