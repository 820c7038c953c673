"""How a running application looks in a notebook: a table that redraws, and what an interrupted cell says.

IPython is not needed: where there is none, a line is printed from time to time.

Invariant: an interrupt ends the watching and nothing else.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Protocol

from perseid.engine.progress import Progress

INTERRUPTED = "Only the cell was interrupted: the application goes on. stop() ends it, watch() shows it again."
STOPPING = "Interrupted: the application is stopping; interrupt once more to end it at once."
STOPPED = "The application was stopped: what was admitted is finished, and saved by a checkpoint."
_LINE_S = 10.0  # between two printed lines, where nothing can be redrawn
_CELL = 'style="text-align:left;padding:2px 12px 2px 0"'


class Watched(Protocol):
    """What can be watched: an application, or a query."""

    def progress(self) -> Progress: ...
    def wait(self, timeout_s: float | None = None) -> bool: ...


class Redrawn:
    """One output of a cell, drawn again and again."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._printed_s: float | None = None

    def show(self, progress: Progress, root: str, *, last: bool = False) -> None:
        """Draw it in the place of what was drawn before."""
        display = _display()
        if display is None:
            now_s = time.monotonic()
            if last or self._printed_s is None or now_s - self._printed_s >= _LINE_S:
                self._printed_s = now_s
                print(progress_line(progress), flush=True)
            return
        drawn = {"text/plain": progress_line(progress), "text/html": progress_table(progress, root)}
        if self._handle is None:
            self._handle = display(drawn, raw=True, display_id=True)
        else:
            self._handle.update(drawn, raw=True)


def watch(running: Watched, root: str, every_s: float) -> None:
    """Show it until it ends, or until the cell is interrupted. Raises what ``wait`` raises."""
    drawn = Redrawn()
    try:
        drawn.show(running.progress(), root)
        while not running.wait(every_s):
            drawn.show(running.progress(), root)
    except KeyboardInterrupt:
        drawn.show(running.progress(), root, last=True)
        print(INTERRUPTED, flush=True)
    except BaseException:
        drawn.show(running.progress(), root, last=True)
        raise
    else:
        drawn.show(running.progress(), root, last=True)


def progress_line(progress: Progress) -> str:
    """In one line, for ``repr``."""
    parts = [f"{name} {value}" if name else value for name, value in _facts(progress)]
    return f"{progress.app} {progress.phase}: {', '.join(parts)}"


def progress_table(progress: Progress, root: str) -> str:
    """As HTML. Names and errors may be anything, and are escaped."""
    rows = [("root", root), *_facts(progress)]
    last = progress.last_checkpoint
    if last is not None:
        rows.append(("last checkpoint", f"{last.id} at epoch {last.epoch:,}, {_size(last.bytes)}"))
    rows += [(f"host {host.host}", _host(host)) for host in progress.hosts]
    for name, said in (
        ("trouble", progress.trouble),
        ("checkpoint failed", progress.checkpoint_error),
        ("dead letters", progress.dead_letter_error),
        ("last event", progress.last_event),
    ):
        if said:
            rows.append((name, said))
    cells = "".join(
        f"<tr><th {_CELL}>{html.escape(name)}</th><td {_CELL}>{html.escape(value)}</td></tr>" for name, value in rows
    )
    title = f"<b>{html.escape(progress.app)}</b> {html.escape(progress.phase)}"
    return f"<table><caption {_CELL}>{title}</caption>{cells}</table>"


def _facts(progress: Progress) -> list[tuple[str, str]]:
    alive = sum(host.alive for host in progress.hosts)
    return [
        ("epoch", f"{progress.epoch:,} ({progress.epoch_ms:,.0f} ms)"),
        ("rows in", f"{progress.rows_in:,} ({progress.rows_per_s:,.0f}/s)"),
        ("rows out", f"{progress.rows_out:,}"),
        ("state", _size(progress.state_bytes)),
        ("hosts", f"{alive} of {len(progress.hosts)}"),
        ("faults", str(progress.faults)),
    ]


def _host(host: Any) -> str:
    return f"{'alive' if host.alive else 'lost'}, {_size(host.state_bytes)}, {' '.join(host.shards) or 'spare'}"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


def _display() -> Any:
    """IPython's ``display`` where this runs in IPython."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return None
    from IPython.display import display

    return display
