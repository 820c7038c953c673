"""``perseid app``: run one of the paper's applications and tell what it inferred, and how well (M8)."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from perseid.cli import figures
from perseid.cli.report import reporting
from perseid.cli.run import spark_errors_to, stop_on_signals
from perseid.errors import SettingsError

if TYPE_CHECKING:
    from perseid.application import App
    from perseid.apps.catalogue import Application
    from perseid.driver.running import Running

BARS = "▁▂▃▄▅▆▇█"
BARS_WIDTH = 60
POLL_S = 0.1


class Name(StrEnum):
    """The applications there are."""

    tmi = "tmi"
    bcp = "bcp"
    signalguru = "signalguru"


def app(
    name: Annotated[Name, typer.Argument(help="Which application.")],
    scale: Annotated[
        float | None, typer.Option(min=0.0001, help="Size against the paper's; 1 has its state.", show_default="small")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Length of a window (tmi) or headway (bcp).", show_default="10")
    ] = None,
    windows: Annotated[
        float | None, typer.Option(min=0.1, help="How many windows, headways or cycles.", show_default="a few")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Stop after so many seconds.")] = None,
    input_path: Annotated[
        Path | None, typer.Option("--input", metavar="PATH", exists=True, help="Your own data, see the documentation.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep results and checkpoints here.", show_default="nowhere")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the generated data.")] = 0,
    checkpoint_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds between two checkpoints.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Only the numbers, as one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Run an application of the Meteor Shower paper on this machine, and report what it inferred and how well.

    tmi: how people move, from phone positions. bcp: how full buses will be, from pictures of bus stops.
    signalguru: when traffic lights change, from pictures of windshield phones.

    Example: [bold]perseid app tmi --scale 0.02 --windows 3[/bold]

    Example: [bold]perseid app signalguru --seconds 60 --seed 7[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        console = Console(quiet=as_json)
        if output is not None and output.exists() and any(output.iterdir()):
            raise SettingsError(f"--output {output}: expected an empty or new folder, this one has something in it")
        folder = output if output is not None else Path(tempfile.mkdtemp(prefix=f"perseid-{name.value}-"))
        try:
            application = _application(name)
            settings = {
                "scale": scale or application.scale,
                "minutes": minutes or application.minutes,
                "seed": seed,
            }
            chosen = {**settings, "windows": windows or application.windows}
            if input_path is not None:
                chosen |= _own(name, input_path, folder, minutes)
            built = application.build(**chosen, output=folder / "out")
            rows = application.epoch_rows(scale=settings["scale"], minutes=settings["minutes"])
            curve = _run(built, folder / "root", rows, input_path is not None, seconds, checkpoint_seconds, console)
            _tell(application, folder / "out", curve, console, as_json)
        finally:
            if output is None:
                shutil.rmtree(folder, ignore_errors=True)


def _application(name: Name) -> Application:
    try:
        import sklearn  # noqa: F401  is it there at all?

        from perseid.apps.catalogue import CATALOGUE
    except ModuleNotFoundError as error:
        raise SettingsError(f"the applications need {error.name}: pip install 'perseid[apps]'") from error
    return CATALOGUE[name.value]


def _own(name: Name, path: Path, folder: Path, minutes: float | None) -> dict[str, Any]:
    """What ``build`` is told about the user's own data: a folder of parquet files, or a form others publish theirs in."""
    if name is Name.tmi and path.suffix == ".zip":
        from perseid.apps.tmi import traces

        traces.write_traces(path, folder / "in")
        return {"input": folder / "in", "modes": traces.MODES_OF_TRACES, "minutes": minutes or traces.WINDOW_MINUTES}
    if name is Name.signalguru and path.is_file():
        (folder / "in").mkdir(parents=True)
        shutil.copy(path, folder / "in")
        return {"events": folder / "in"}
    if not path.is_dir():
        raise SettingsError(f"--input {path}: expected a folder of parquet files")
    return {"input": path}


def _run(
    built: App, root: Path, rows: int, own: bool, seconds: float | None, checkpoint_s: float, console: Console
) -> list[int]:
    """Run to the end (or for some seconds); the size of the state after every epoch."""
    from perseid.checkpoint import schemes
    from perseid.duration import every
    from perseid.spark.session import spark_session

    root.mkdir(parents=True, exist_ok=True)
    with console.status("starting Spark …"), spark_errors_to(root.parent / "spark.log"):
        spark = spark_session(hosts=2, spares=0, app_name=f"perseid {built.name}")
    try:
        with console.status("starting the hosts …"):
            running = built.start(
                spark,
                root=str(root),
                hosts=2,
                spares=0,
                checkpoint=schemes.parallel(every(seconds=checkpoint_s)),
                available_now=own,
                max_rows_per_epoch=1 if own else rows,  # of files: one an epoch
            )
        stop = stop_on_signals()  # after the session is there, whose own handler would cancel the jobs of the hosts
        with console.status("") as status:
            return _watch(running, seconds, stop, status)
    finally:
        spark.stop()


def _watch(running: Running, seconds: float | None, stop: threading.Event, status: Status) -> list[int]:
    """Ctrl-C ends it early; what was found by then is told all the same."""
    curve: list[int] = []
    seen = 0
    end_s = None if seconds is None else time.monotonic() + seconds
    while not running.wait(POLL_S):
        now = running.progress()
        if now.epoch > seen:
            seen = now.epoch
            curve.append(now.state_bytes)
        status.update(f"epoch {now.epoch}  {figures.count(now.rows_in)} rows  state {figures.size(now.state_bytes)}")
        if stop.is_set() or (end_s is not None and time.monotonic() > end_s):
            running.stop()
            break
    return curve


def _tell(application: Application, out: Path, curve: list[int], console: Console, as_json: bool) -> None:
    report = application.report(out)
    if as_json:
        sizes = {"state_bytes_min": min(curve, default=0), "state_bytes_max": max(curve, default=0)}
        print(json.dumps({**report.numbers, **sizes, "epochs": len(curve)}))
        return
    report.show(console)
    if curve:
        low, high = figures.size(min(curve)), figures.size(max(curve))
        console.print(
            f"State over {len(curve)} epochs, {low} to {high}: {_bars(curve)}", highlight=False, soft_wrap=True
        )


def _bars(curve: list[int]) -> str:
    """The curve as little bars, the newest part of it."""
    highest = max(*curve, 1)
    return "".join(BARS[min(len(BARS) - 1, value * len(BARS) // highest)] for value in curve[-BARS_WIDTH:])
