"""What TMI inferred, and how well: modes per window against the truth (M8)."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from perseid.apps.results import Report, confusion, grid, rows_of
from perseid.apps.tmi.generate import MODES

TITLE = "Transportation mode inference"


def report(output: str | Path) -> Report:
    """From the folder that ``build`` was given as ``output``."""
    modes = rows_of(Path(output, "modes"))
    if modes is None:
        return Report(TITLE, ("No window has ended yet: nothing was inferred.",))
    shares = []
    windows = pc.unique(modes["window_ms"]).sort().to_pylist()
    for number, window in enumerate(windows, start=1):
        of_window = modes.filter(pc.equal(modes["window_ms"], window))
        phones = [pc.sum(pc.equal(of_window["mode"], mode)).as_py() for mode in MODES]
        shares.append([f"window {number}", str(of_window.num_rows), *(f"{n / of_window.num_rows:.0%}" for n in phones)])
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
