"""What BCP counted and predicted, and how well: people at stops, and how full buses were (M8)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

from perseid.apps.bcp.crowding import AHEAD
from perseid.apps.results import Report, grid, mean, rows_of, share

TITLE = "Bus capacity prediction"
NEWEST = 6


def report(output: str | Path) -> Report:
    """From the folder that ``build`` was given as ``output``."""
    counts, forecasts = rows_of(Path(output, "counts")), rows_of(Path(output, "forecasts"))
    if counts is None:
        return Report(TITLE, ("No picture was looked at yet.",))
    sentences: list[str] = []
    numbers: dict[str, float] = {"counts": float(counts.num_rows)}
    known = counts.filter(pc.is_valid(counts["truth"]))
    if known.num_rows:
        wrong = np.abs(known["counted"].to_numpy() - known["truth"].to_numpy())
        numbers |= {"count_error": mean(wrong.astype(np.float64)), "count_exact": share((wrong == 0).sum(), len(wrong))}
        sentences.append(
            f"People counted {known.num_rows:,} times: [bold]{numbers['count_exact']:.1%}[/bold] exactly right, off by"
            f" {numbers['count_error']:.2f} on average (of {mean(known['truth'].to_numpy().astype(np.float64)):.1f} who wait)."
        )
    tables = []
    past = None if forecasts is None else forecasts.filter(pc.is_valid(forecasts["actual"]))
    if forecasts is not None and past is not None and past.num_rows:
        tables += [_errors(past, numbers), _next(forecasts)]
        sentences.append(
            f"Crowding predicted {past.num_rows:,} times: off by [bold]{numbers['forecast_error']:.2f}[/bold] people on"
            f" average; to say 'as full as now' is off by {numbers['unchanged_error']:.2f}."
        )
    return Report(TITLE, tuple(sentences), tuple(tables), numbers)


def _errors(past: pa.Table, numbers: dict[str, float]) -> Table:
    actual = past["actual"].to_numpy()
    wrong, unchanged = (np.abs(past[name].to_numpy() - actual) for name in ("predicted", "unchanged"))
    numbers |= {"forecasts": float(past.num_rows), "forecast_error": mean(wrong), "unchanged_error": mean(unchanged)}
    lines = []
    for ahead in range(1, AHEAD + 1):
        of = past["ahead"].to_numpy() == ahead
        lines.append([f"{ahead} stops ahead", str(of.sum()), f"{mean(wrong[of]):.2f}", f"{mean(unchanged[of]):.2f}"])
    return grid("How far off, in people", ["", "forecasts", "predicted", "as full as now"], lines)


def _next(forecasts: pa.Table) -> Table:
    """The newest forecasts, with what came true where the bus is there already."""
    order = [("at_ms", "descending"), ("line", "ascending"), ("bus", "ascending"), ("ahead", "ascending")]
    rows = forecasts.sort_by(order).to_pylist()
    came = {(row["bus"], row["place"]): str(row["actual"]) for row in rows if row["actual"] is not None}
    lines = [
        [
            f"line {row['line']}, stop {row['place']}",
            str(row["ahead"]),
            f"{row['predicted']:.1f}",
            came.get((row["bus"], row["place"]), ""),
        ]
        for row in [row for row in rows if row["actual"] is None][:NEWEST]
    ]
    return grid("Newest forecasts", ["", "stops ahead", "on board", "came true"], lines)
