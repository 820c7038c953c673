"""The figure: recovery and its parts, delay by failure time, traffic by rate, detection (figures 4 to 8, 12, 13)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

from perseid.bench.measuring.results import Results
from perseid.bench.outages.sizes import MODES, RATE

matplotlib.use("Agg")
from matplotlib import pyplot

COLOURS = {"none": "#b8b8b8", "passive": "#e09f3e", "active": "#7b5ea7", "hybrid": "#2a6f97"}
PARTS = {"detect": "#c1121f", "resume": "#e09f3e", "retransmit": "#2a6f97"}


def draw(results: Results, title: str, path: Path) -> None:
    """Draw what there is: a panel for everything that was measured."""
    panels: dict[str, Callable[[Any, Results], None]] = {
        "hybrid_recovery_ms": _recovery,
        "hybrid_delay_60_ms": _delay,
        "shared_delay_0_ms": _shared,
        "hybrid_traffic_ratio": _traffic,
        "heartbeat_detection_95_ratio": _detection,
    }
    there = [panel for name, panel in panels.items() if name in results.numbers]
    if not there:
        return
    columns = min(3, len(there))
    rows = -(-len(there) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(5.4 * columns, 3.9 * rows), layout="constrained", squeeze=False
    )
    figure.suptitle(title, fontsize=10 if columns > 2 else 7)
    for place in axes.flat[len(there) :]:
        place.set_axis_off()
    for panel, place in zip(there, axes.flat, strict=False):
        panel(place, results)
        place.spines[["top", "right"]].set_visible(False)
        place.tick_params(labelsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _recovery(axes: Any, results: Results) -> None:
    axes.set_title("recovery and its parts (fig. 7, 8)", fontsize=10)
    axes.set_ylabel("ms", fontsize=9)
    numbers = results.numbers
    bars = [name.removesuffix("_detect_ms") for name in numbers if name.endswith("_detect_ms")]
    for place, bar in enumerate(bars):
        bottom = 0.0
        for part, colour in PARTS.items():
            value = numbers.get(f"{bar}_{part}_ms", 0.0)
            axes.bar(place, value, bottom=bottom, color=colour, width=0.6, label=part if not place else None)
            bottom += value
    names = [bar.replace("heartbeat_", "hb ").replace("_", " ") for bar in bars]
    axes.set_xticks(range(len(bars)), names, fontsize=8, rotation=40, ha="right")
    axes.legend(fontsize=8, frameon=False)


def _delay(axes: Any, results: Results) -> None:
    _lines(axes, "delay of rows by failure time (fig. 4)", "% of the time stopped", "ms")
    for mode in MODES:
        found = _by_number(results, rf"{mode}_delay_(\d+)_ms")
        if found:
            axes.plot(*zip(*found, strict=True), "o-", color=COLOURS[mode], label=mode)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)


def _shared(axes: Any, results: Results) -> None:
    _lines(axes, "three primaries share a copy host (fig. 5)", "% of the time stopped, each", "ms")
    axes.plot(*zip(*_by_number(results, r"shared_delay_(\d+)_ms"), strict=True), "o-", color=COLOURS["hybrid"])
    axes.set_ylim(bottom=0)


def _traffic(axes: Any, results: Results) -> None:
    _lines(axes, "rows sent for one of input (fig. 6)", "rows/s", "rows")
    for mode in ("none", "hybrid", "active"):
        found = _by_number(results, rf"rate_(\d+)_{mode}_rows_per_row")
        if f"{mode}_rows_per_row" in results.numbers:
            found.append((RATE, results.numbers[f"{mode}_rows_per_row"]))
        if found:
            axes.plot(*zip(*found, strict=True), "o-", color=COLOURS[mode], label=mode)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)


def _detection(axes: Any, results: Results) -> None:
    _lines(axes, "detection and false alarms (fig. 12, 13)", "% taken from the host", "ratio")
    for name, colour in (("heartbeat", COLOURS["hybrid"]), ("benchmarking", COLOURS["passive"])):
        for what, style in (("detection", "o-"), ("false", "s:")):
            found = _by_number(results, rf"{name}_{what}_(\d+)_ratio")
            axes.plot(*zip(*found, strict=True), style, color=colour, label=f"{name}, {what}")
    axes.set_ylim(-0.03, 1.05)
    axes.legend(fontsize=8, frameon=False)


def _lines(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)


def _by_number(results: Results, pattern: str) -> list[tuple[float, float]]:
    found = ((re.fullmatch(pattern, name), value) for name, value in results.numbers.items())
    return sorted((float(match[1]), value) for match, value in found if match)
