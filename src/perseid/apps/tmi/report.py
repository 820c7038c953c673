"""What TMI inferred, and how well: modes per window against the truth (M8)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perseid.apps.results import Report, confusion, grid, rows_of
from perseid.apps.tmi.generate import MODES

TITLE = "Transportation mode inference"


def report(output: str | Path) -> Report:
    """From the folder that ``build`` was given as ``output``."""
    modes = rows_of(Path(output, "modes"))
    if modes is None:
        return Report(TITLE, ("No window has ended yet: nothing was inferred.",))
    windows = pc.unique(modes["window_ms"]).sort().to_pylist()
    shares = [_shares(number, modes.filter(pc.equal(modes["window_ms"], at))) for number, at in enumerate(windows, 1)]
    most = max(int(line[1]) for line in shares)
    shares = [line for line in shares if int(line[1]) * 10 >= most]  # windows of a few phones tell little
    tables = [grid("How people move", ["", "phones", *MODES], shares[-8:])]
    numbers = {"windows": float(len(windows)), "inferred": float(modes.num_rows)}
    sentences = [f"{modes.num_rows:,} modes inferred in {len(windows)} windows."]
    labelled = modes.filter(pc.is_valid(modes["truth"]))
    if labelled.num_rows:
        table, right = confusion(
            "Truth against k-means", labelled["truth"].to_pylist(), labelled["mode"].to_pylist(), MODES
        )
        tables.append(table)
        numbers["accuracy"] = right
        sentences.append(
            f"[bold]{right:.1%}[/bold] of {labelled.num_rows:,} labelled ones are right; no label was used."
        )
    return Report(TITLE, tuple(sentences), tuple(tables), numbers)


def _shares(number: int, window: pa.Table) -> list[str]:
    """One window as a line: how many phones, and what share of them moved how."""
    phones = [pc.sum(pc.equal(window["mode"], mode)).as_py() for mode in MODES]
    return [f"window {number}", str(window.num_rows), *(f"{count / window.num_rows:.0%}" for count in phones)]
