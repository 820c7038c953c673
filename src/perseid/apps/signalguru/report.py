"""What SignalGuru saw and predicted, and how well: colours by vote, and the times of the next change (M8)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from perseid.apps.results import Report, confusion, grid, mean, rows_of
from perseid.apps.signalguru.generate import COLOURS, GREEN, RED

TITLE = "SignalGuru"


def report(output: str | Path) -> Report:
    """From the folder that ``build`` was given as ``output``."""
    colours, predictions = rows_of(Path(output, "colours")), rows_of(Path(output, "predictions"))
    sentences: list[str] = []
    numbers: dict[str, float] = {}
    tables = []
    known = None if colours is None else colours.filter(pc.is_valid(colours["truth"]))
    if known is not None and known.num_rows:
        truth, voted = ([COLOURS[code] for code in known[name].to_pylist()] for name in ("truth", "colour"))
        table, numbers["colour_accuracy"] = confusion("Truth against votes", truth, voted, COLOURS)
        tables.append(table)
        sentences.append(
            f"[bold]{numbers['colour_accuracy']:.1%}[/bold] of {known.num_rows:,} voted colours are right."
        )
    past = None if predictions is None else predictions.filter(pc.is_valid(predictions["actual_ms"]))
    if past is None or not past.num_rows:
        sentences.append("No predicted change has come yet.")
        return Report(TITLE, tuple(sentences), tuple(tables), numbers)
    actual = past["actual_ms"].to_numpy()
    wrong, usual = (np.abs(past[name].to_numpy() - actual) / 1000.0 for name in ("predicted_ms", "usual_ms"))
    machine = pc.equal(past["model"], "svm").to_numpy()
    numbers |= {"predictions": float(machine.sum()), "mean_error_s": mean(wrong[~machine])}
    if not machine.any():
        sentences.append(
            f"{past.num_rows:,} changes predicted by their mean, off by {numbers['mean_error_s']:.2f} s on average: an SVM"
            " needs more cycles to learn from."
        )
        return Report(TITLE, tuple(sentences), tuple(tables), numbers)
    lines = []
    for code in (RED, GREEN):
        of = machine & (past["colour"].to_numpy() == code)
        middle = [f"{float(np.median(errors[of])):.1f} s" if of.any() else "" for errors in (wrong, usual)]
        means = [f"{mean(wrong[of]):.1f} s", f"{mean(usual[of]):.1f} s"]
        lines.append([f"end of {COLOURS[code]}", str(of.sum()), means[0], means[1], *middle])
    header = ["", "predicted", "SVM, mean error", "as usual", "SVM, median", "as usual"]
    tables.append(grid("How far off", header, lines))
    numbers |= {"svm_error_s": mean(wrong[machine]), "usual_error_s": mean(usual[machine])}
    sentences.append(
        f"{past.num_rows:,} changes predicted, {machine.sum():,} of them by a fitted SVM: off by"
        f" [bold]{numbers['svm_error_s']:.2f} s[/bold] on average; to say 'as long as usual' is off by"
        f" {numbers['usual_error_s']:.2f} s."
    )
    return Report(TITLE, tuple(sentences), tuple(tables), numbers)
