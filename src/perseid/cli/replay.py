"""``perseid replay``: what happened, told from the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from perseid.cli.figures import count, counted
from perseid.cli.journal_text import Record, sentence, tone
from perseid.cli.report import reporting
from perseid.cli.rerun import show_at, verify
from perseid.cli.roots import existing_root
from perseid.errors import RootError, SettingsError
from perseid.storage.journal import JournalReader

ROUTINE = (
    "epoch_admitted", "epoch_committed", "snapshots_ordered", "snapshots_forked", "snapshot_awaited", "snapshot_written",
    "inflight_saved", "trimmed", "checkpoint_started", "backed_up", "host_load",
)  # fmt: skip
"""Kinds that come by the thousand; without ``--all`` a run of them is told in one line."""


def replay(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root: a folder or URI.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="Only records of this kind, e.g. host_lost; may be given several times.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every epoch instead of summing them up.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more happens, until Ctrl-C.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--verify", help="Run the controller over all recorded events: it must command the same as it did."
        ),
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="What the controller knew then: 12:31:05, 2026-11-18T12:31:05, or +12.5s since the beginning.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The records themselves, one JSON object a line.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Show what happened, from the journal: starts, losses, recoveries, checkpoints, epochs. Or run it again.

    Example: [bold]perseid replay words-root --kind host_lost --kind recovery_finished[/bold]

    Would the controller decide the same again? [bold]perseid replay words-root --verify[/bold]

    What did the controller know then? [bold]perseid replay words-root --at 12:31:05[/bold]
    """
    if check or at is not None:
        with reporting(debug=debug, as_json=as_json):
            if kind or everything or follow or (check and at is not None):
                raise SettingsError("--verify and --at stand alone: with --json at most")
            store = existing_root(root)
            if at is not None:
                show_at(root, store, at, as_json=as_json)
                return
            same = verify(root, store, as_json=as_json)
        if not same:
            raise typer.Exit(1)
        return
    with reporting(debug=debug, as_json=as_json):
        store = existing_root(root)
        reader = JournalReader(store)
        records = list(reader.new())
        wanted = set(kind or ())
        unknown = wanted - {str(record.get("kind")) for record in records}
        if unknown and not follow:
            there = sorted({str(record.get("kind")) for record in records})
            raise RootError(
                f"{root}: no record of kind {', '.join(sorted(unknown))}; there is: {', '.join(there) or '-'}"
            )
        if not records and not follow:
            raise RootError(f"{root}: the journal is empty: no application has run here yet")
        teller = _Teller(as_json=as_json, everything=everything or bool(wanted))
        teller.tell([record for record in records if not wanted or record.get("kind") in wanted])
        if follow:
            try:
                for more in _follow(reader):
                    teller.tell([record for record in more if not wanted or record.get("kind") in wanted])
            except KeyboardInterrupt:
                return


def _follow(reader: JournalReader) -> Iterator[Sequence[Record]]:
    """New records, twice a second."""
    while True:
        time.sleep(0.5)
        if records := list(reader.new()):
            yield records


class _Teller:
    """Prints records with the time since the first one."""

    def __init__(self, *, as_json: bool, everything: bool) -> None:
        self._as_json = as_json
        self._everything = everything
        self._origin_ms: int | None = None
        self._console = Console(highlight=False)

    def tell(self, records: Sequence[Record]) -> None:
        if self._as_json:
            for record in records:
                print(json.dumps(record), flush=True)
            return
        if self._everything:
            for record in records:
                self._line(record, sentence(record), tone(record))
            return
        for routine, run in groupby(records, key=lambda record: record.get("kind") in ROUTINE):
            if not routine:
                for record in run:
                    self._line(record, sentence(record), tone(record))
            elif (told := _summed_up(several := list(run))) is not None:
                self._line(several[-1], told, "dim")

    def _line(self, record: Record, told: str, style: str) -> None:
        at_ms = int(record.get("at_ms", 0))
        if self._origin_ms is None:
            self._origin_ms = at_ms
            started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
            self._console.print(Text(f"times are since {started}", "dim"))
        line = Text(f"{_since(at_ms - self._origin_ms):>10}  ", "cyan")
        line.append(told, style)
        self._console.print(line, soft_wrap=True)


def _summed_up(records: Sequence[Record]) -> str | None:
    """``epochs 3 to 41 committed: 39 epochs, 1,200 rows in, 800 out``; ``None`` when no epoch was committed."""
    committed = [record for record in records if record.get("kind") == "epoch_committed"]
    if not committed:
        return None
    if len(committed) == 1:
        return sentence(committed[0])
    rows_in, rows_out = (sum(int(record.get(name) or 0) for record in committed) for name in ("rows_in", "rows_out"))
    first, last = committed[0].get("epoch"), committed[-1].get("epoch")
    return f"epochs {first} to {last} committed: {counted(rows_in, 'row')} in, {count(rows_out)} out"


def _since(ms: int) -> str:
    """``+83.25 s`` → ``1:23.25``; always with hundredths, so that lines compare."""
    hours, rest = divmod(max(ms, 0), 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds = f"{rest / 1000:05.2f}"
    return f"{hours}:{minutes:02d}:{seconds}" if hours else f"{minutes}:{seconds}"
