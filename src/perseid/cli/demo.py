"""``perseid demo``: a word count that loses a host, then everything, and still counts right."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perseid.cli.demo_process import Application
from perseid.cli.demo_text import Output, Verdict, Writer, verdict
from perseid.cli.figures import count, counted
from perseid.cli.report import reporting
from perseid.cli.screen import Screen
from perseid.engine.progress import Progress
from perseid.errors import ApplicationFailed

START_LIMIT_S = 120.0
RECOVERY_LIMIT_S = 60.0
DRAIN_LIMIT_S = 90.0
STOP_LIMIT_S = 30.0
WATCH_S = 6.0
"""How long each act is shown before the next thing happens."""
DEAD_S = 2.0
"""How long everything stays dead."""


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the generated text.")] = 7,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with input, output and checkpoints.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Count words, kill a host, then everything, and compare with an independent count.

    Takes a good minute. Exit code 0 only if nothing was lost or doubled.

    Example: [bold]perseid demo --keep[/bold]
    """
    folder = Path(tempfile.mkdtemp(prefix="perseid-demo-"))
    right = False
    with reporting(debug=debug):
        try:
            right = _Demo(folder, seed).play()
        finally:
            if keep or not right:
                print(f"everything is kept in {folder}: perseid replay {folder / 'root'}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(0 if right else 1)


class _Demo:
    """The play in four acts."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        for name in ("in", "out"):
            (folder / name).mkdir()
        self._writer = Writer(folder / "in", seed)
        self._output = Output(folder / "out")
        self._screen = Screen()

    def play(self) -> bool:
        with self._screen.open():
            self._writer.start()
            self._screen.say("text files come into a folder, five a second; an independent count runs along")
            application = self._start("starting the word count on Spark: 2 hosts, 4 shards, a checkpoint every 4 s")
            try:
                self._until(application, _settled, START_LIMIT_S, "the first checkpoint")
                self._screen.say("it runs, and has committed its first checkpoint")
                self._watch(application)
                self._kill_a_host(application)
                self._watch(application)
                before = self._kill_everything(application)
                application = self._start("the same command again; the text has not stopped meanwhile")
                self._until(
                    application, lambda p: p.phase == "running" and p.epoch > before, START_LIMIT_S, "new epochs"
                )
                self._screen.say(f"it went on from its checkpoint, and is at epoch {_epoch(application)}", "green")
                self._watch(application)
                self._drain(application)
                self._screen.say("stopping it")
                if not application.stop(STOP_LIMIT_S):
                    self._screen.say(f"it did not stop cleanly within {STOP_LIMIT_S:.0f} s", "yellow")
                self._screen.show(application.progress())
            finally:
                application.kill()
        result = verdict(self._writer.counts, self._output.table())
        _show_verdict(self._screen.console, result, self._writer.lines, len(self._writer.counts))
        return result.right

    def _start(self, why: str) -> Application:
        self._screen.say(why)
        return Application(self._folder, self._log)

    @property
    def _log(self) -> Path:
        return self._folder / "spark.log"

    def _kill_a_host(self, application: Application) -> None:
        picture = application.progress()
        assert picture is not None
        victim = next(host for host in picture.hosts if host.alive and host.shards)
        os.kill(victim.pid, signal.SIGKILL)
        killed_s = time.monotonic()
        self._screen.say(
            f"KILLED host {victim.host} (pid {victim.pid}) with SIGKILL, {', '.join(victim.shards)} with it",
            "bold red",
        )

        def recovered(p: Progress) -> bool:
            return p.faults > picture.faults and p.phase == "running" and p.epoch > picture.epoch + 1

        self._until(application, recovered, RECOVERY_LIMIT_S, "new epochs after the loss of a host")
        self._screen.say(f"new epochs again {time.monotonic() - killed_s:.1f} s after the kill", "green")

    def _kill_everything(self, application: Application) -> int:
        """Driver, JVM, hosts, all at once; the epoch it had reached."""
        picture = application.progress()
        assert picture is not None
        dead = application.kill()
        self._screen.say(
            f"KILLED EVERYTHING at epoch {picture.epoch}: {counted(dead, 'process', 'processes')}, the driver and all",
            "bold red",
        )
        hosts = tuple(replace(host, alive=False) for host in picture.hosts)
        self._screen.show(replace(picture, phase="failed", rows_per_s=0.0, hosts=hosts, last_event="all killed"))
        time.sleep(DEAD_S)
        return picture.epoch

    def _drain(self, application: Application) -> None:
        self._writer.finish()
        expected = sum(self._writer.counts.values())
        self._screen.say(f"no more text: {count(expected)} words were written; waiting until all are counted")
        deadline_s = time.monotonic() + DRAIN_LIMIT_S
        while time.monotonic() < deadline_s and self._output.words_counted() < expected:
            self._watch(application, 0.5)

    def _watch(self, application: Application, for_s: float = WATCH_S) -> None:
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s:
            self._look(application)

    def _until(self, application: Application, reached: Callable[[Progress], bool], limit_s: float, what: str) -> None:
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            picture = self._look(application)
            if picture is not None and reached(picture):
                return
        raise ApplicationFailed(f"the demo waited {limit_s:.0f} s for {what} in vain{self._tail()}")

    def _look(self, application: Application) -> Progress | None:
        time.sleep(0.1)
        picture = application.progress()
        self._screen.show(picture)
        if application.exit_code() is not None:
            why = application.error or "no reason given"
            raise ApplicationFailed(f"the application ended by itself: {why}{self._tail()}")
        return picture

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-15:] if self._log.exists() else []
        return "\nthe end of its log:\n" + "\n".join(f"  {text}" for text in lines) if lines else ""


def _settled(picture: Progress) -> bool:
    return picture.phase == "running" and picture.last_checkpoint is not None and picture.epoch >= 5


def _epoch(application: Application) -> int:
    picture = application.progress()
    return picture.epoch if picture is not None else 0


def _show_verdict(console: Console, result: Verdict, lines: int, words: int) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_row("rows in", count(result.rows_in), f"words in {count(lines)} lines, {count(words)} of them different")
    table.add_row("rows out", count(result.rows_out), "updates (word, added, n) in the parquet output")
    for name, number in (("lost", result.lost), ("doubled", result.doubled)):
        table.add_row(name, Text(count(number), "bold green" if number == 0 else "bold red"), "")
    table.columns[1].justify = "right"
    console.print()
    console.print(table)
    if result.right:
        said = Text(f"\nRIGHT: every word counted exactly once; {counted(0, 'row')} lost, 0 doubled.", "bold green")
    else:
        some = ", ".join(result.wrong_words[:5])
        said = Text(f"\nWRONG: {counted(len(result.wrong_words), 'word')}, for instance {some}", "bold red")
    console.print(said)
