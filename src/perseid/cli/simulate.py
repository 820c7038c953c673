"""``perseid simulate``: the engine in virtual time under seeded faults; and what a year at a large site would be like."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from perseid.cli.figures import bars, count, counted, duration, size
from perseid.cli.journal_text import sentence, tone
from perseid.cli.report import reporting
from perseid.errors import FaultBeyondRun, SettingsError, SimulationError
from perseid.simulation.faults import FaultPlan, from_json
from perseid.simulation.runs import Outcome, Summary, read_seed_file, simulate_seeds, write_seed_file
from perseid.simulation.scenario import Options
from perseid.standby.modes import standby_mode

STORY_LINES = 60
ROUTINE = ("checkpoint_committed", "snapshots_ordered", "snapshots_forked", "trimmed")


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many runs.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first run; the others follow.")] = 0,
    hosts: Annotated[int | None, typer.Option(min=1, help="Hosts of every run; by default drawn, 2 to 20.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of every run.")] = 200,
    scheme: Annotated[
        str | None, typer.Option(help="Checkpoint scheme, e.g. parallel or source; by default drawn.")
    ] = None,
    standby: Annotated[
        str | None, typer.Option(help="Standby of every operator: none, hybrid, active or passive; by default drawn.")
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=N", help="Fix a setting that is drawn otherwise, e.g. keep=2; repeatable."),
    ] = None,
    faults: Annotated[Path | None, typer.Option(metavar="FILE", help="A fault plan (JSON) for every run.")] = None,
    repeat: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run the seeds again that a --json FILE names as broken.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="datacenter: a year at a large site under each scheme, instead of seeds.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="With --model: how many days.")] = 365,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to run in; results are the same.")] = 1,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers here.")] = None,
    plot_path: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="With --model: draw a picture here.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Run the engine in virtual time under seeded faults, and check every row.

    A failing seed prints the command that repeats it, and its story. With [bold]--model datacenter[/bold]: what a year of a
    2,400-node site would be like under each checkpoint scheme.

    Example: [bold]perseid simulate --seeds 1000 --hosts 20[/bold]
    """
    with reporting(debug=debug):
        for path in (json_path, plot_path):
            if path is not None and not path.resolve().parent.is_dir():
                raise SettingsError(f"{path}: the folder {path.parent} does not exist; make it first")
        if model is not None:
            from perseid.cli.what_if import Question, what_if

            asked = Question(model, hosts, scheme, days, seed=first, jobs=jobs)
            what_if(asked, json_path=json_path, plot_path=plot_path)
            return
        mode = standby_mode(standby).mode if standby is not None else None
        options = Options(hosts, epochs, scheme, _plan(faults), mode, _settings(fix or []))
        numbers = list(range(first, first + seeds))
        if repeat is not None:
            numbers, options = read_seed_file(repeat)
        summary = _run(numbers, options, jobs)
        _show(summary, options, repeat or faults)
        if json_path is not None:
            write_seed_file(json_path, summary, options)
        if options.faults is not None and (late := summary.beyond()) is not None:
            ended_s = summary.virtual_ms / summary.runs / 1000
            raise FaultBeyondRun(
                f"{late}: every run was over before, on average after {ended_s:.1f} s; choose an earlier moment"
            )
    if summary.broken:
        raise typer.Exit(1)


def _plan(path: Path | None) -> FaultPlan | None:
    if path is None:
        return None
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SimulationError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, list):
        raise SimulationError(f"{path}: expected a list of faults, got {type(data).__name__}")
    return from_json(data)


def _settings(given: list[str]) -> dict[str, int]:
    found = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not number.isdigit():
            raise SettingsError(f"--set {text}: expected NAME=N, for instance keep=2")
        found[name] = int(number)
    return found


def _run(seeds: list[int], options: Options, jobs: int) -> Summary:
    summary, began = Summary(), time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("worlds", total=len(seeds))
        for outcome in simulate_seeds(seeds, options, jobs=jobs):
            summary.add(outcome)
            survived = f"worlds · {count(sum(summary.faults.values()))} faults"
            progress.update(
                task, advance=1, description=survived + (f" · {len(summary.broken)} broken" * bool(summary.broken))
            )
    summary.seconds = time.perf_counter() - began
    return summary


def _show(summary: Summary, options: Options, plan: Path | None) -> None:
    console = Console(highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    table.add_row(
        "runs",
        f"{count(summary.runs)} in {duration(summary.seconds * 1000)}, {duration(summary.virtual_ms)} of virtual time",
    )
    survived = "faults" if summary.broken else "faults survived"
    table.add_row(survived, count(sum(summary.faults.values())))
    for name, number in sorted(summary.faults.items(), key=lambda item: -item[1]):
        table.add_row("", f"{count(number):>7} {name}")
    table.add_row("rows checked", count(summary.rows))
    table.add_row("shards restored", count(summary.restores))
    shown = ", ".join(
        f"{name} {duration(summary.recovery_ms(q))}"
        for name, q in (("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("worst", 1.0))
    )
    table.add_row("recoveries", f"{count(len(summary.recoveries_ms))}: {shown}")
    table.add_row("", Text(_distribution(summary.recoveries_ms), "cyan"))
    table.add_row("rows replayed", count(summary.replayed_rows))
    table.add_row("checkpoints", f"{count(summary.checkpoints)}, {size(summary.bytes)}")
    console.print(table)
    for outcome in summary.broken[:3]:
        _tell(console, outcome, repeat_command(outcome, options, plan))
    if summary.broken:
        console.print(
            Text(f"{counted(len(summary.broken), 'run')} of {count(summary.runs)} broke a property", "bold red")
        )
    else:
        console.print(Text("no row lost, none doubled; every property held in every run", "bold green"))


def _distribution(times_ms: list[int]) -> str:
    """Recovery times as bars over a logarithmic scale from 50 ms to a minute."""
    bounds = [50 * 1.4**i for i in range(22)]
    counts = [0.0] * len(bounds)
    for ms in times_ms:
        counts[next((i for i, bound in enumerate(bounds) if ms <= bound), len(bounds) - 1)] += 1
    return f"50 ms {bars(counts, len(counts))} 1 min" if times_ms else "-"


def repeat_command(outcome: Outcome, options: Options, plan: Path | None = None) -> str:
    """The one command that shows it again; ``plan`` is the file that a plan of faults came from."""
    if options.faults is not None and plan is not None and isinstance(json.loads(plan.read_text()), dict):
        return shlex.join(["perseid", "simulate", "--repeat", str(plan)])  # a seed file, with the plan in it
    parts = ["perseid", "simulate", "--seeds", "1", "--first", str(outcome.seed), "--epochs", str(options.epochs)]
    if options.hosts is not None:
        parts += ["--hosts", str(options.hosts)]
    if options.scheme is not None:
        parts += ["--scheme", options.scheme]
    if options.standby is not None:
        parts += ["--standby", options.standby]
    for name, number in options.settings.items():
        parts += ["--set", f"{name}={number}"]
    if options.faults is not None:
        parts += ["--faults", str(plan)]
    return shlex.join(parts)


def _tell(console: Console, outcome: Outcome, command: str) -> None:
    console.print(Text(f"\nseed {outcome.seed}, after {outcome.at_ms} ms: {outcome.broken}", "bold red"))
    told = [record for record in outcome.story if record["kind"] not in ROUTINE][-STORY_LINES:]
    for record in told:
        line = Text(f"{record['at_ms'] / 1000:>9.3f} ", "cyan")
        line.append(sentence(record), tone(record))
        console.print(line, soft_wrap=True)
    console.print(Text(f"repeat: {command}", "bold"), soft_wrap=True)
