"""``perseid chaos``: random real faults on an application, then a verdict against the same epochs without faults."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perseid.cli.figures import count, counted, duration
from perseid.cli.report import reporting
from perseid.cli.screen import Screen
from perseid.errors import SettingsError
from perseid.testing.chance import random_plan
from perseid.testing.chaos import Chaos, Outcome
from perseid.testing.faults import kind_of
from perseid.testing.plan import Plan
from perseid.testing.storage import small_filesystem

CLUSTER = "local-cluster[2,3,1024]"
ROOT_MB = 512


def chaos(
    file: Annotated[Path, typer.Argument(metavar="APP.py", help="A Python file with one App at its top level.")],
    minutes: Annotated[float, typer.Option(help="How long faults strike; less if the input ends before.")] = 1.0,
    seed: Annotated[
        int | None, typer.Option(help="Repeats a run's faults.", show_default="another one each time")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark master URL: local-cluster[…] or local[…].")] = CLUSTER,
    hosts: Annotated[int, typer.Option(min=1, help="How many hosts keep the state.")] = 2,
    spares: Annotated[int, typer.Option(min=0, help="Ready hosts that take over.")] = 1,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 2.0,
    max_rows_per_epoch: Annotated[int, typer.Option(min=1, help="Admit at most so many rows per epoch.")] = 1000,
    trigger_ms: Annotated[
        int | None, typer.Option(min=1, help="Shortest time between two epochs, so that the input lasts longer.")
    ] = None,
    app: Annotated[str | None, typer.Option(help="Which variable holds the App, if there are several.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the outcome there.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with both roots and outputs.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Strike an application with random real faults, and compare its output with a run without any.

    Hosts, executors and the driver are killed, paused, slowed and cut off from each other, snapshots corrupted, storage taken away;
    among it a second fault within the first recovery. Its own sinks are not touched. Exit code 0 only if nothing was
    lost, doubled or wrong.

    Example: [bold]perseid chaos examples/chaos.py --minutes 2 --seed 7[/bold]
    """
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="perseid-chaos-"))
    right, done = False, False
    with reporting(debug=debug), contextlib.ExitStack() as closing:
        if not 0 < minutes <= 600:
            raise SettingsError(f"--minutes: expected more than 0 and at most 600, got {minutes:g}")
        if not master.startswith("local"):
            raise SettingsError(
                f"--master {master}: faults strike processes of this machine: use local-cluster[…] or local[…]"
            )
        closing.callback(lambda: None if keep or (done and not right) else shutil.rmtree(folder, ignore_errors=True))
        disk = folder / "disk"
        small = closing.enter_context(small_filesystem(disk, ROOT_MB))
        plan = random_plan(seed, minutes * 60, cluster=master.startswith("local-cluster"), small_root=small)
        screen = Screen()
        options = {
            "master": master, "hosts": hosts, "spares": spares, "checkpoint_seconds": checkpoint_seconds,
            "max_rows_per_epoch": max_rows_per_epoch, "trigger_ms": trigger_ms,
        }  # fmt: skip
        screen.say(
            f"chaos on {file.name}, {duration(minutes * 60_000)}, seed {seed}: {counted(len(plan), 'fault')} planned",
            "bold",
        )
        say = lambda text: screen.say(text, "red" if text.startswith("epoch") else "")  # noqa: E731
        play = Chaos(file, folder, app=app, root=disk / "root", say=say, show=screen.show, **options)
        with screen.open():
            outcome = play.play(plan, minutes * 60, seed)
        right, done = outcome.right, True
        _show(screen.console, outcome, seed)
        if json_file is not None:
            json_file.write_text(json.dumps(as_data(outcome, plan, seed), indent=2) + "\n")
        if keep or not right:
            if small and (disk / "root").is_dir():  # what lies on the small filesystem goes with it
                shutil.copytree(disk / "root", folder / "root", dirs_exist_ok=True)
            print(f"everything is kept in {folder}: perseid replay {folder / ('root' if small else 'disk/root')}")
    raise typer.Exit(0 if right else 1)


def as_data(outcome: Outcome, plan: Plan, seed: int) -> dict[str, Any]:
    """The outcome for machines."""
    report, verdict = outcome.report, outcome.verdict
    return {
        "right": outcome.right,
        "problem": outcome.problem,
        "rows": verdict.rows,
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "wrong": verdict.wrong,
        "examples": list(verdict.examples[:20]),
        "sinks": {
            name: {k: v for k, v in asdict(found).items() if k != "examples"} for name, found in outcome.sinks.items()
        },
        "epochs": outcome.epochs,
        "finished": outcome.finished,
        "longest_outage_s": round(report.longest_outage_s, 3),
        "recoveries": report.recoveries,
        "starts": report.starts,
        "seconds": round(report.seconds, 1),
        "seed": seed,
        "faults": [
            {"seconds": round(s.seconds, 2), "epoch": s.epoch, "fault": kind_of(s.step.fault), "what": s.what}
            for s in report.faults
        ],
        "plan": plan.as_data(),
    }


def _show(console: Console, outcome: Outcome, seed: int) -> None:
    report, verdict = outcome.report, outcome.verdict
    kinds = Counter(kind_of(struck.step.fault) for struck in report.faults)
    table = Table(box=None, show_header=False, padding=(0, 2))
    hits = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    table.add_row("faults", count(len(report.faults)), hits)
    starts = f"{counted(report.starts, 'start')} of the driver"
    table.add_row("recoveries", count(report.recoveries), starts)
    table.add_row("longest outage", duration(report.longest_outage_s * 1000), "between two committed epochs")
    ending = "all input" if outcome.finished else "what the time allowed"
    table.add_row("epochs", count(outcome.epochs), ending)
    if outcome.problem is None:
        table.add_row("rows", count(verdict.rows), f"in {counted(len(outcome.sinks), 'sink')}, compared one by one")
        for name, number in (("lost", verdict.lost), ("doubled", verdict.doubled), ("wrong", verdict.wrong)):
            table.add_row(name, Text(count(number), "bold green" if number == 0 else "bold red"), "")
    table.columns[1].justify = "right"
    console.print()
    console.print(table)
    for example in verdict.examples[:5]:
        console.print(f"  {example}", soft_wrap=True)
    if outcome.problem is not None:
        console.print(Text(f"\nFAILED: {outcome.problem}", "bold red"), soft_wrap=True)
    elif outcome.right:
        console.print(Text("\nRIGHT: the same rows as without faults, each exactly once.", "bold green"))
    else:
        console.print(Text(f"\nWRONG: not the rows of the run without faults; repeat with --seed {seed}", "bold red"))
