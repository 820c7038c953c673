"""``perseid run``: start the application in a Python file and show its progress."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from perseid.checkpoint import schemes
from perseid.cli.live import Mode, watch
from perseid.cli.loading import load_app
from perseid.cli.report import reporting
from perseid.duration import every
from perseid.errors import SettingsError

LOCAL_HOSTS = 2
LOCAL_SPARES = 1


class Scheme(StrEnum):
    """The checkpoint schemes the command line offers."""

    adaptive = "adaptive"
    parallel = "parallel"
    source = "source"
    baseline = "baseline"


def run(
    file: Annotated[Path, typer.Argument(metavar="APP.py", help="A Python file with one App at its top level.")],
    root: Annotated[
        str | None, typer.Option(help="Checkpoint root: a folder or URI.", show_default=".perseid/<name of the app>")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master URL.", show_default="local, sized for the hosts")
    ] = None,
    hosts: Annotated[
        int | None,
        typer.Option(min=1, help="How many hosts keep the state.", show_default="2, or what --master allows"),
    ] = None,
    spares: Annotated[
        int | None,
        typer.Option(
            min=0, help="Additional hosts that take over when one is lost.", show_default="1, or what --master allows"
        ),
    ] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds from one checkpoint to the next.")] = 10.0,
    scheme: Annotated[Scheme, typer.Option(help="When and how checkpoints are taken.")] = Scheme.adaptive,
    available_now: Annotated[bool, typer.Option("--available-now", help="Stop when all input is processed.")] = False,
    close_windows: Annotated[
        bool, typer.Option("--close-windows", help="Close the last windows, too, when all input is processed.")
    ] = False,
    allow_removed: Annotated[
        list[str] | None,
        typer.Option(help="An operator, sink or source that is gone, or new, since the root was written."),
    ] = None,
    max_rows_per_epoch: Annotated[
        int | None, typer.Option(min=1, help="Rows of each source that an epoch has at most.")
    ] = None,
    app: Annotated[str | None, typer.Option(help="Which variable is the App, if there are several.")] = None,
    every_s: Annotated[
        float | None, typer.Option("--every", min=0.05, metavar="SECONDS", help="How often progress is shown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a second; errors as JSON too.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Run the application in a Python file and show its progress; Ctrl-C stops it.

    Run it again with the same root, and it continues where it was: no row is lost or counted twice.

    Example: [bold]perseid run examples/word_count.py --root words-root --hosts 2[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        application = load_app(file, app)
        if master is None:  # our own session has room for as many as we like
            hosts, spares = hosts or LOCAL_HOSTS, LOCAL_SPARES if spares is None else spares
        settings = start_settings(hosts, spares, checkpoint_seconds, scheme, available_now, max_rows_per_epoch)
        if close_windows:
            settings["close_windows_at_end"] = True
        settings["allow_removed"] = tuple(allow_removed or ())
        root = root or f".perseid/{application.name}"
        run_and_watch(application, root, master, settings, as_json=as_json, every_s=every_s)


def start_settings(
    hosts: int | None,
    spares: int | None,
    checkpoint_seconds: float,
    scheme: Scheme,
    available_now: bool,
    max_rows: int | None,
) -> dict[str, Any]:
    """The keywords of ``app.start``. Options that were not given are left to its defaults."""
    if not checkpoint_seconds > 0:
        raise SettingsError(f"--checkpoint-seconds: expected more than 0, got {checkpoint_seconds:g}")
    make = {
        Scheme.adaptive: schemes.adaptive,
        Scheme.parallel: schemes.parallel,
        Scheme.source: schemes.source,
        Scheme.baseline: schemes.baseline,
    }[scheme]
    chosen = {"hosts": hosts, "spares": spares, "max_rows_per_epoch": max_rows}
    return {
        "checkpoint": make(every(seconds=checkpoint_seconds)),
        "available_now": available_now,
        **{name: number for name, number in chosen.items() if number is not None},
    }


def run_and_watch(
    application: Any,
    root: str,
    master: str | None,
    settings: dict[str, Any],
    *,
    as_json: bool,
    every_s: float | None = None,
) -> None:
    """Start Spark and the application, and show its progress until it ends or a signal stops it."""
    console = Console()
    mode: Mode = "json" if as_json else "live" if console.is_terminal else "lines"
    every_s = every_s or {"json": 1.0, "lines": 3.0, "live": 0.25}[mode]
    _ = application.graph  # every mistake in the graph is told before Spark takes its seconds to start
    from perseid.spark.session import spark_session

    log = Path(tempfile.gettempdir(), f"perseid-{os.getpid()}.log") if mode == "live" else None
    with _waiting(console, mode, "starting Spark"), spark_errors_to(log):
        room = {name: settings[name] for name in ("hosts", "spares") if name in settings}
        spark = spark_session(master, app_name=f"perseid {application.name}", **room)
    try:
        with _waiting(console, mode, "starting the hosts"):
            running = application.start(spark, root=root, **settings)
        # After the session is there: pyspark's own handler would cancel every job, those of the hosts too.
        stop = stop_on_signals()
        last = watch(running, mode=mode, every_s=every_s, console=console, stop=stop, on_stop=running.stop)
        if mode != "json":
            ending = "stopped" if stop.is_set() else "finished"
            console.print(
                f"[bold]{last.app}[/bold] {ending} at epoch {last.epoch}; go on with the same command, "
                f"or look into it: [bold]perseid inspect {root}[/bold]" + (f"; Spark's log: {log}" if log else ""),
                highlight=False,
                soft_wrap=True,
            )
    finally:
        spark.stop()


@contextlib.contextmanager
def spark_errors_to(log: Path | None) -> Iterator[None]:
    """What is started here writes its errors to ``log`` for good: on the terminal they would tear the live view."""
    if log is None:
        yield
        return
    kept, file = os.dup(2), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def stop_on_signals() -> threading.Event:
    """Set by the first SIGINT or SIGTERM; the second one ends the process the hard way, which loses nothing either."""
    stop = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def _waiting(console: Console, mode: Mode, what: str) -> contextlib.AbstractContextManager[object]:
    """A spinner on a terminal, a line elsewhere, nothing for machines."""
    if mode == "live":
        return console.status(f"{what} …")
    if mode == "lines":
        print(f"{what} …", file=sys.stderr, flush=True)
    return contextlib.nullcontext()
