"""The figure: the live scale and Spark's restart, load over time, thresholds, ways back, intervals, overhead (figures 6 to 15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

from perseid.bench.measuring.results import Results
from perseid.bench.scaling.sizes import STATE_SIZES

matplotlib.use("Agg")
from matplotlib import pyplot

OURS, OTHER, PEER, LIMIT = "#2a6f97", "#e09f3e", "#b8b8b8", "#c1121f"
WAYS = {
    "state": ("checkpoint + input since", OURS),
    "upstream": ("upstream backup", OTHER),
    "source": ("source replay", PEER),
}


def draw(results: Results, title: str, path: Path) -> None:
    """Draw what there is: a panel for everything that was measured."""
    there = [draw for name, draw in _panels().items() if name in results.numbers] or [_outage]
    columns = min(3, len(there))
    rows = -(-len(there) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(5.2 * columns, 3.7 * rows), layout="constrained", squeeze=False
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


def _panels() -> dict[str, Callable[[Any, Results], None]]:
    """By a number that is there if the part was measured."""
    return {
        "live_gap_s": _gaps,
        "spark_gap_s": _outage,
        "state_recovery_s": _ways,
        "serial_recovery_s": _parallel,
        "overhead_medium_percent": _overhead,
        "rising_final_shards": _rising,
        "rising_p50_ms": _latency,
        "open_final_shards": _open,
        "threshold_10_shards": _thresholds,
        "dynamic_shards": _manual,
    }


def _labels(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)


def _legend(axes: Any, place: str = "best") -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc=place)


def _gaps(axes: Any, results: Results) -> None:
    _labels(
        axes,
        "rows done while the state is divided anew",
        "s (0: new shards, or the query stopped)",
        "rows since then, thousands",
    )
    for name, colour, text in (("spark", PEER, "Spark: stop, repartition, start"), ("live", OURS, "Perseid: live")):
        at, rows = results.samples.get(f"{name}_commit_at_s"), results.samples.get(f"{name}_commit_rows")
        if at and rows:
            done = sum(r for t, r in zip(at, rows, strict=True) if t <= 0)
            total, steps = -done, []
            for row in rows:
                total += row
                steps.append(total / 1000)
            axes.step(at, steps, where="post", color=colour, label=text, linewidth=1.6)
    _legend(axes, "upper left")


def _outage(axes: Any, results: Results) -> None:
    _labels(axes, f"{results.numbers.get('live_state_mb', 0):,.0f} MB of state, 2 to 4 shards", "s (log scale)", "")
    names = {
        "spark_gap_s": ("Spark:\nno output", PEER),
        "spark_pause_s": ("Spark:\ninput paused", PEER),
        "live_gap_s": ("Perseid:\nno output", OURS),
        "live_pause_s": ("Perseid:\ninput paused", OURS),
    }
    there = {name: said for name, said in names.items() if name in results.numbers}
    if there:
        numbers = [results.numbers[name] for name in there]
        bars = axes.barh([t for t, _ in there.values()], numbers, color=[c for _, c in there.values()], height=0.6)
        axes.bar_label(bars, [f"{n:.2f} s" for n in numbers], padding=4, fontsize=9)
        axes.axvline(1, color=LIMIT, linewidth=1)
        axes.set_xscale("log")
        axes.margins(x=0.3)


def _ways(axes: Any, results: Results) -> None:
    _labels(axes, "recovery of a full window, by rate (fig. 11)", "fragments/s", "s until the state is back")
    rates = [int(rate) for rate, _ in _by_number(results, "state_recovery_", "_s")]
    for number, (way, (text, colour)) in enumerate(WAYS.items()):
        places = [place + (number - 1) * 0.27 for place in range(len(rates))]
        heights = [results.numbers.get(f"{way}_recovery_{rate}_s", 0) for rate in rates]
        bars = axes.bar(places, heights, width=0.25, color=colour, label=text)
        axes.bar_label(bars, [f"{h:.1f}" for h in heights], padding=2, fontsize=8)
    axes.set_xticks(range(len(rates)), [f"{rate:,}" for rate in rates])
    if rates:
        axes.margins(y=0.35)
        _legend(axes, "upper left")


def _by_number(results: Results, stem: str, end: str) -> list[tuple[float, float]]:
    """What was measured at several rates or intervals: these, and the numbers."""
    names = {
        n: n.removeprefix(stem).removesuffix(end) for n in results.numbers if n.startswith(stem) and n.endswith(end)
    }
    return sorted((float(at), results.numbers[name]) for name, at in names.items() if at.replace(".", "", 1).isdigit())


def _rising(axes: Any, results: Results) -> None:
    _over_time(axes, results, "rising", "rising load, closed loop (fig. 6)")


def _open(axes: Any, results: Results) -> None:
    dropped = results.numbers.get("open_dropped_percent")
    said = f", {dropped:.0f} % dropped" if dropped is not None else ""
    _over_time(axes, results, "open", f"open loop{said} (fig. 8)")


def _over_time(axes: Any, results: Results, name: str, title: str) -> None:
    _labels(axes, title, "s", "rows/s")
    samples = results.samples
    if not samples.get(f"{name}_at_s"):
        return
    at = samples[f"{name}_at_s"]
    axes.plot(at, samples[f"{name}_rows_per_s"], color=OURS, linewidth=1.3, label="done")
    offered = results.numbers.get(f"{name}_offered_rows_per_s", 0.0)
    wanted = samples.get(f"{name}_input_rows_per_s", [offered] * len(at))
    axes.plot(at, wanted, color="black", linewidth=1, linestyle="--", label="offered")
    axes.set_ylim(bottom=0)
    shards = axes.twinx()
    shards.step(
        samples[f"{name}_shards_at_s"], samples[f"{name}_shards"], where="post", color=OTHER, label="shards (right)"
    )
    shards.set_ylim(0, max(samples[f"{name}_shards"]) + 1)
    shards.yaxis.get_major_locator().set_params(integer=True)
    shards.spines[["top"]].set_visible(False)
    _legend_of(axes, shards, "lower right")


def _legend_of(axes: Any, shards: Any, place: str) -> None:
    """One legend for what is read on the left and on the right."""
    both = zip(axes.get_legend_handles_labels(), shards.get_legend_handles_labels(), strict=True)
    handles, labels = (left + right for left, right in both)
    axes.legend(handles, labels, fontsize=8, frameon=False, loc=place)


def _latency(axes: Any, results: Results) -> None:
    _labels(axes, "latency under rising load (fig. 7)", "s", "ms (log scale)")
    if results.samples.get("rising_latency_at_s"):
        axes.plot(
            results.samples["rising_latency_at_s"], results.samples["rising_latency_ms"], ".", markersize=3, color=OURS
        )
        for percent, style in ((50, "-"), (95, "--"), (99, ":")):
            axes.axhline(
                results.numbers[f"rising_p{percent}_ms"],
                color="black",
                linewidth=1,
                linestyle=style,
                label=f"{percent} %",
            )
        for at in results.samples["rising_shards_at_s"][1:-1]:
            axes.axvline(at, color=OTHER, linewidth=1)
        axes.set_yscale("log")
        _legend(axes, "upper left")


def _parallel(axes: Any, results: Results) -> None:
    _labels(
        axes,
        "recovery by interval, heavy to replay (fig. 12, 13)",
        "checkpoint interval, s",
        "s until the state is back",
    )
    for name, colour, text in (("serial", PEER, "one host takes over"), ("parallel", OURS, "two share it")):
        found = _by_number(results, f"{name}_recovery_interval_", "_s")
        if found:
            axes.plot(*zip(*found, strict=True), "o-", color=colour, label=text)
            axes.set_ylim(bottom=0)
            axes.set_xlim(left=0)
    _legend(axes, "upper left")


def _thresholds(axes: Any, results: Results) -> None:
    _labels(axes, "threshold of scale out (fig. 9)", "threshold, %", "ms")
    found = sorted(
        int(n.split("_")[1]) for n in results.numbers if n.startswith("threshold_") and n.endswith("_shards")
    )
    if not found:
        return
    for percent, style in ((50, "o-"), (95, "s--")):
        values = [results.numbers[f"threshold_{t}_p{percent}_ms"] for t in found]
        axes.plot(found, values, style, color=OURS, label=f"latency, {percent} %")
    axes.set_ylim(bottom=0)
    shards = axes.twinx()
    counts = [results.numbers[f"threshold_{t}_shards"] for t in found]
    shards.bar(found, counts, width=6, color=OTHER, alpha=0.35, label="shards (right)")
    shards.set_ylim(0, max(counts) + 1)
    shards.yaxis.get_major_locator().set_params(integer=True)
    shards.spines[["top"]].set_visible(False)
    _legend_of(axes, shards, "upper right")


def _manual(axes: Any, results: Results) -> None:
    _labels(axes, "shards by hand, and by themselves (fig. 10)", "shards", "ms")
    found = sorted(int(n.split("_")[1]) for n in results.numbers if n.startswith("manual_") and n.endswith("_shards"))
    for percent, style in ((50, "o-"), (95, "s--")):
        values = [results.numbers[f"manual_{n}_p{percent}_ms"] for n in found]
        axes.plot(found, values, style, color=PEER, label=f"by hand, {percent} %")
        value = results.numbers[f"dynamic_p{percent}_ms"]
        axes.plot([results.numbers["dynamic_shards"]], [value], style[0], color=OURS, label=f"auto, {percent} %")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(axes, "upper right")


def _overhead(axes: Any, results: Results) -> None:
    _labels(axes, "95th percentile of latency by state and interval (fig. 14, 15)", "words in the state", "ms")
    groups = [
        (size, f"{size}, {STATE_SIZES[size]:,}")
        for size in STATE_SIZES
        if f"overhead_{size}_with_p95_ms" in results.numbers
    ]
    for place, (size, _) in enumerate(groups):
        for shift, kind, colour in ((-0.2, "without", PEER), (0.2, "with", OURS)):
            name = f"overhead_{size}_{kind}_p95_ms"
            text = f"{kind} checkpoints" + (" every 5 s" if kind == "with" else "")
            axes.bar(place + shift, results.numbers[name], width=0.38, color=colour, label=text if not place else None)
            axes.scatter(
                [place + shift] * len(results.samples[name]), results.samples[name], s=9, color="black", zorder=3
            )
    labels = [text.replace(", ", "\n") for _, text in groups]
    intervals = _by_number(results, "overhead_interval_", "_p95_ms")
    for place, (interval, value) in enumerate(intervals, len(groups)):
        axes.bar(place, value, width=0.38, color=OURS, alpha=0.6)
        labels.append(f"large\nevery {interval:g} s")
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    axes.margins(y=0.3)
    _legend(axes, "upper right")
