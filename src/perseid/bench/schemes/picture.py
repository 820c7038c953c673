"""The paper's figures: 12 and 13 (throughput, latency; also under load), 14 (checkpoint time), 15 (latency during one), 16 (recovery), and
the curve of the state with the moments that ``adaptive`` and the oracle chose (5, 10, 11). A column of panels for each application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perseid.bench.schemes.comparing import LOAD_LATENCIES, Comparison, recovered
from perseid.bench.schemes.plan import JUDGED, LOADED, SCHEMES, Case
from perseid.bench.schemes.reading import NOBODYS, PARTS, RECOVERY_PARTS, Entry, checkpoints, curve

COLOURS = {
    "baseline": "#8d99ae",
    "source": "#e9c46a",
    "parallel": "#76a5c4",
    "adaptive": "#1d5f8a",
    "oracle": "#c1121f",
}
SHADES = ("#cfd8dc", "#f4a261", "#1d5f8a", "#6d597a", "#84a98c")


@dataclass(frozen=True, slots=True)
class Curve:
    """The state of one run over time, in seconds of its window and MB, and what checkpoints saved and when."""

    sizes: tuple[tuple[float, float], ...]
    saved: tuple[tuple[float, float], ...]
    epochs: tuple[tuple[float, float], ...]  # latency in ms
    spans: tuple[tuple[float, float], ...]  # of checkpoints


@dataclass(slots=True)
class Curves:
    """Those of the last round with the judged number of checkpoints."""

    of: dict[tuple[str, str], Curve] = field(default_factory=dict)

    def add(self, case: Case, journal: Sequence[Entry], from_ms: float, until_ms: float) -> None:
        if case.checkpoints != JUDGED or case.rate is not None:
            return

        def at(ms: float) -> float:
            return (ms - from_ms) / 1000

        taken = [c for c in checkpoints(journal) if from_ms <= c.decided_ms < until_ms and c.reason not in NOBODYS]
        commits = [e for e in journal if e["kind"] == "epoch_committed" and from_ms <= e["at_ms"] < until_ms]
        self.of[case.app, case.scheme] = Curve(
            tuple((at(ms), mb) for ms, mb in curve(journal) if from_ms <= ms < until_ms),
            tuple((at(c.writing[0]), c.bytes / 1e6) for c in taken),
            tuple((at(e["at_ms"]), float(e["ms"])) for e in commits),
            tuple((at(c.decided_ms), at(c.committed_ms)) for c in taken),
        )


def draw(comparison: Comparison, curves: Curves, title: str, path: Path) -> None:
    """Draw what there is."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    apps = comparison.apps
    figure, panels = pyplot.subplots(7, len(apps), figsize=(5.6 * len(apps), 22), layout="constrained", squeeze=False)
    figure.suptitle(title.replace(", ", ",\n", 1) if len(apps) == 1 else title, fontsize=10)
    for column, app in enumerate(apps):
        state, throughput, latency, load, checkpoint, during, recovery = (row[column] for row in panels)
        _by_count(throughput, comparison, app, "throughput (1: baseline, none)", lambda s: s.window.rows_per_s)
        _by_count(latency, comparison, app, "latency of epochs (1: baseline, none)", lambda s: s.window.latency_ms)
        _under_load(load, comparison, app)
        _checkpoint_parts(checkpoint, comparison, app)
        _latency(during, curves, app)
        _recovery_parts(recovery, comparison, app)
        _state(state, curves, app)
        for row in panels:
            row[column].set_title(f"{app}: {row[column].get_title()}", fontsize=10)
            row[column].spines[["top", "right"]].set_visible(False)
            row[column].tick_params(labelsize=9)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _legend(axes: Any) -> None:
    """Below, where it hides nothing."""
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5, columnspacing=1.0
        )


def _by_count(axes: Any, comparison: Comparison, app: str, title: str, number: Callable[[Any], float]) -> None:
    """Figures 12 and 13."""
    one = comparison.middle(app, "baseline", 0, number)
    counts = sorted({s.case.checkpoints for s in comparison.seen if s.case.app == app})
    for scheme in SCHEMES:
        points = [(c, n / one) for c in counts if one and (n := comparison.middle(app, scheme, c, number)) is not None]
        if points:
            axes.plot(
                *zip(*points, strict=True), "o-", color=COLOURS[scheme], label=scheme, linewidth=1.6, markersize=4
            )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("checkpoints in a window", fontsize=9)
    axes.set_title(title, fontsize=10)
    _legend(axes)


def _stacked(axes: Any, names: Sequence[str], parts: dict[str, list[float]]) -> None:
    left = [0.0] * len(names)
    for shade, (part, values) in zip(SHADES, parts.items(), strict=False):
        axes.barh(names, values, left=left, color=shade, label=part, height=0.62)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.invert_yaxis()
    _legend(axes)


def _under_load(axes: Any, comparison: Comparison, app: str) -> None:
    """Figure 13, where rows do not wait to come until they are wanted."""
    means, tails = (
        {scheme: ms for scheme in LOADED if (ms := comparison.loaded(app, scheme, number)) is not None}
        for number in LOAD_LATENCIES.values()
    )
    axes.barh(list(means), list(means.values()), color=[COLOURS[scheme] for scheme in means], height=0.62)
    axes.scatter(list(tails.values()), list(tails), marker="|", s=300, color="black", label="99 % of rows stay below")
    axes.invert_yaxis()
    _legend(axes)
    axes.set_title("latency of a row under load, ms", fontsize=10)


def _checkpoint_parts(axes: Any, comparison: Comparison, app: str) -> None:
    """Figure 14."""
    there = [s for s in (*SCHEMES, "oracle") if comparison.of(app, s, JUDGED)]
    parts = {
        part: [comparison.judged(app, s, lambda seen, part=part: seen.window.part_ms(part)) or 0.0 for s in there]  # type: ignore[misc]
        for part in PARTS
    }
    sizes = [comparison.judged(app, s, lambda seen: seen.window.bytes / 1e6) or 0.0 for s in there]
    _stacked(axes, [f"{s}\n{mb:.1f} MB" for s, mb in zip(there, sizes, strict=True)], parts)
    axes.set_title("checkpoint time, ms, and what it writes", fontsize=10)


def _latency(axes: Any, curves: Curves, app: str) -> None:
    """Figure 15."""
    for scheme in ("source", "parallel", "adaptive"):
        found = curves.of.get((app, scheme))
        if found is None or not found.epochs:
            continue
        axes.plot(*zip(*found.epochs, strict=True), "-", color=COLOURS[scheme], linewidth=1.2, label=scheme)
        for begin, end in found.spans:
            axes.axvspan(begin, end, color=COLOURS[scheme], alpha=0.18, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("s", fontsize=9)
    axes.set_title("latency of epochs, ms (shaded: a checkpoint)")
    _legend(axes)


def _recovery_parts(axes: Any, comparison: Comparison, app: str) -> None:
    """Figure 16."""
    there = [s for s in (*SCHEMES, "oracle") if any(seen.recovery for seen in comparison.of(app, s, JUDGED))]

    def of(scheme: str, part: str) -> float:
        return comparison.judged(app, scheme, recovered(lambda r: r.parts_ms[part])) or 0.0

    parts = {part: [of(scheme, part) for scheme in there] for part in RECOVERY_PARTS}
    if there:
        _stacked(axes, there, parts)
    axes.set_title("recovery, all hosts killed, ms", fontsize=10)


def _state(axes: Any, curves: Curves, app: str) -> None:
    """Figures 5, 10 and 11."""
    for scheme in ("parallel", "adaptive", "oracle"):
        found = curves.of.get((app, scheme))
        if found is None or not found.sizes:
            continue
        times, sizes = zip(*found.sizes, strict=True)
        if scheme == "adaptive":
            axes.plot(times, sizes, "-", color="#777777", linewidth=1)
        if found.saved:
            axes.scatter(*zip(*found.saved, strict=True), s=46, color=COLOURS[scheme], label=scheme, zorder=3)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("s", fontsize=9)
    axes.set_title("state under adaptive, MB, and what was saved")
    _legend(axes)
