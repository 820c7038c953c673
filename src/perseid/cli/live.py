"""The live view of a running application: a table on a terminal, plain lines elsewhere, JSON lines for machines."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perseid.cli import figures
from perseid.engine.progress import HostStatus, Progress, StandbyStatus
from perseid.errors import PerseidError

Mode = Literal["live", "lines", "json"]

PHASE_STYLES = {
    "starting": "cyan",
    "running": "green",
    "recovering": "bold yellow",
    "stopping": "cyan",
    "stopped": "dim",
    "failed": "bold red",
}
BARS_WIDTH = 36
LABEL_WIDTH = 11


class Watched(Protocol):
    """What the view needs of a running application."""

    def progress(self) -> Progress: ...
    def wait(self, timeout_s: float | None = None) -> bool: ...


class View:
    """Turns pictures of an application into something to look at; remembers the rates it has seen."""

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=BARS_WIDTH)
        self._last_rate_s = float("-inf")

    def render(self, progress: Progress, now_s: float) -> RenderableType:
        """The whole picture. A bar is added at most twice a second."""
        if now_s - self._last_rate_s >= 0.5:
            self._rates.append(progress.rows_per_s)
            self._last_rate_s = now_s
        numbers = Table.grid(padding=(0, 2))
        for _ in range(3):
            numbers.add_column(style="dim", min_width=LABEL_WIDTH)
            numbers.add_column(min_width=10)
        numbers.add_row(
            "epoch", figures.count(progress.epoch), "rows in", figures.count(progress.rows_in),
            "state", figures.size(progress.state_bytes),
        )  # fmt: skip
        numbers.add_row(
            "epoch time", figures.duration(progress.epoch_ms), "rows out", figures.count(progress.rows_out),
            "faults", Text(str(progress.faults), "yellow" if progress.faults else ""),
        )  # fmt: skip
        aside = progress.dead_letters + progress.malformed_lines
        if progress.late_rows or aside:
            numbers.add_row(
                "late rows", figures.count(progress.late_rows),
                "dead letters", Text(figures.count(aside), "yellow" if aside else ""),
                "", "",
            )  # fmt: skip
        rate = Text.assemble(
            (figures.bars(list(self._rates), BARS_WIDTH), "green"),
            (f"  {figures.count(progress.rows_per_s)} rows/s", "bold"),
        )
        lines: list[RenderableType] = [rate, numbers, _checkpoints(progress)]
        if progress.checkpoint_error:
            lines.append(_labelled("", progress.checkpoint_error, "bold red"))
        if progress.dead_letter_error:
            lines.append(_labelled("put aside", progress.dead_letter_error, "yellow"))
        lines.append(_hosts(progress))
        if progress.standby:
            lines.append(_standby(progress))
        if len(progress.units) > 1:
            at = ", ".join(f"{unit} at epoch {epoch}" for unit, epoch in progress.units.items())
            lines.append(_labelled("units", at))
        if progress.trouble:
            lines.append(_labelled("trouble", progress.trouble, "yellow"))
        if progress.last_event:
            lines.append(_labelled("last event", progress.last_event))
        title = Text.assemble(
            (progress.app, "bold not dim"),
            " ",
            (progress.phase, f"not dim {PHASE_STYLES.get(progress.phase, '')}"),
            (" with trouble" if progress.trouble else "", "not dim bold yellow"),
        )
        return Panel(Group(*lines), title=title, title_align="left", border_style="dim", padding=(0, 1))


def line(progress: Progress) -> str:
    """The picture in one line."""
    alive = sum(host.alive for host in progress.hosts)
    parts = [
        f"{progress.app} {progress.phase}",
        f"epoch {figures.count(progress.epoch)}",
        f"{figures.count(progress.rows_per_s)} rows/s",
        f"in {figures.count(progress.rows_in)}",
        f"out {figures.count(progress.rows_out)}",
        f"epoch time {figures.duration(progress.epoch_ms)}",
        f"state {figures.size(progress.state_bytes)}",
        f"checkpoints {progress.checkpoints}",
        f"hosts {alive}/{len(progress.hosts)}",
        f"faults {progress.faults}",
    ]
    if progress.standby:
        copies = sum(one.lag is not None for one in progress.standby)
        parts.append(f"copies {copies}/{len(progress.standby)}, switches {progress.switches}")
    if progress.trouble:
        parts.append(f"trouble: {progress.trouble}")
    if progress.dead_letters or progress.dead_letter_error:
        parts.append(f"dead letters {figures.count(progress.dead_letters)} ({progress.dead_letter_error})")
    if progress.checkpoint_error:
        parts.append(progress.checkpoint_error)
    if progress.last_event not in (*parts, ""):
        parts.append(progress.last_event)
    return " · ".join(parts)


def watch(
    running: Watched,
    *,
    mode: Mode,
    every_s: float,
    console: Console,
    stop: threading.Event,
    on_stop: Callable[[], None],
) -> Progress:
    """Show ``running`` until it ends or ``stop`` is set, then once more; the last picture.

    ``on_stop`` is called once when ``stop`` is set, in a thread, and must end the application. A failed one raises. If nobody
    reads any more (``| head``), the application is stopped, too, and then ``BrokenPipeError`` is raised.
    """
    view = View()
    gone = threading.Event()

    def show(progress: Progress) -> None:
        try:
            if not gone.is_set():
                _print(progress, mode, console)
        except (BrokenPipeError, SystemExit):  # the second is what rich makes of the first
            gone.set()
            stop.set()

    if mode != "live":
        _every(running, every_s, stop, on_stop, show)
        if gone.is_set():
            raise BrokenPipeError
    else:
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            _every(running, every_s, stop, on_stop, lambda p: live.update(view.render(p, time.monotonic())))
    return running.progress()


def _every(
    running: Watched,
    every_s: float,
    stop: threading.Event,
    on_stop: Callable[[], None],
    show: Callable[[Progress], None],
) -> None:
    """Show once per ``every_s`` until the end; the last picture is shown even when the application failed."""
    shown_s = float("-inf")
    stopping = threading.Thread(target=_quietly, args=(on_stop,), name="stopping", daemon=True)
    try:
        while not running.wait(timeout_s=min(every_s, 0.25)):
            if stop.is_set() and stopping.ident is None:
                stopping.start()  # it takes its time: the view goes on meanwhile
            if time.monotonic() - shown_s >= every_s:
                shown_s = time.monotonic()
                show(running.progress())
    finally:
        show(running.progress())


def _quietly(on_stop: Callable[[], None]) -> None:
    """What went wrong with the application is told by ``wait``."""
    with contextlib.suppress(PerseidError):
        on_stop()


def _print(progress: Progress, mode: Mode, console: Console) -> None:
    if mode == "json":
        print(json.dumps(progress.as_dict()), flush=True)
    else:
        console.print(line(progress), highlight=False, soft_wrap=True)


def _labelled(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{label:<{LABEL_WIDTH}}  ", "dim"), (text, style))


def _checkpoints(progress: Progress) -> RenderableType:
    last = progress.last_checkpoint
    if last is None:
        return _labelled("checkpoints", "none yet", "dim")
    what = f"{last.id} at epoch {last.epoch}, {figures.size(last.bytes)}"
    if last.duration_ms is None:
        return _labelled("checkpoints", f"none since the start; it began from {what}")
    took = figures.duration(last.duration_ms)
    return _labelled("checkpoints", f"{progress.checkpoints} since the start; last: {what} in {took}")


def _hosts(progress: Progress) -> RenderableType:
    if not progress.hosts:
        return _labelled("hosts", "none yet", "dim")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in ("host", "pid", "", "state", "shards"):
        width = LABEL_WIDTH if column == "host" else None
        table.add_column(column, justify="right" if column == "state" else "left", min_width=width)
    for host in progress.hosts:
        table.add_row(str(host.host), str(host.pid), *_host_cells(host))
    return table


def _host_cells(host: HostStatus) -> tuple[Text, str, str]:
    alive = Text("● alive", "green") if host.alive else Text("✗ lost", "bold red")
    return alive, figures.size(host.state_bytes), " ".join(host.shards) or "spare"


PAIR_STYLES = {"guarded": "green", "deploying": "cyan", "switched": "bold yellow", "returning": "yellow"}
"""By phase; all others are red: nobody stands in."""


def _standby(progress: Progress) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in ("standby", "primary", "copy", "", "behind", "shards"):
        table.add_column(column, min_width=LABEL_WIDTH if column == "standby" else None)
    for one in progress.standby:
        copy = "none" if one.copy is None else str(one.copy)
        lag = "" if one.lag is None else f"{one.lag} epoch{'' if one.lag == 1 else 's'}"
        table.add_row(one.mode, str(one.primary), copy, _phase(one), lag, " ".join(one.shards))
    why = f"; last: {progress.last_switch}" if progress.last_switch else ""
    told = f"{progress.switches} to a copy, {progress.roll_backs} back{why}"
    return Group(table, _labelled("switches", told))


def _phase(one: StandbyStatus) -> Text:
    said = f"host {one.copy} answers" if one.answering == one.copy is not None else one.phase
    return Text(said, PAIR_STYLES.get(one.phase, "bold red"))
