"""The paper's figures 6 and 7: answers a second and their latency, over the time of the road, against the limit of 5 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perseid.apps.linear_road.latency import LIMIT_S
from perseid.bench.road.result import RoadResult
from perseid.bench.road.traffic import Road

OURS, PALE, LIMIT = "#2a6f97", "#b8b8b8", "#c1121f"


def draw(result: RoadResult, title: str, path: Path) -> None:
    """Draw one run into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (load, latency) = pyplot.subplots(2, 1, figsize=(9, 6.5), layout="constrained", sharex=True)
    figure.suptitle(title, fontsize=10)
    draw_load(load, result)
    draw_latency(latency, result)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def draw_load(axes: Any, result: RoadResult) -> None:
    """Reports and answers a second."""
    seconds = [moment.second for moment in result.moments]
    traffic = Road(result.l, result.ramp_s, result.peak_s).traffic
    axes.plot(seconds, [traffic.rate(second) * result.l for second in seconds], color=PALE, label="reports")
    axes.plot(seconds, [moment.answers for moment in result.moments], color=OURS, label="answers")
    axes.set_title(f"L = {result.l}: reports and answers a second", fontsize=10)
    _plain(axes)


def draw_latency(axes: Any, result: RoadResult) -> None:
    """Median and 99th percentile of the answers that belong to each second."""
    seconds = [moment.second for moment in result.moments]
    axes.plot(seconds, [moment.p99_ms / 1000 for moment in result.moments], color=PALE, label="99 %")
    axes.plot(seconds, [moment.median_ms / 1000 for moment in result.moments], color=OURS, label="median")
    axes.axhline(LIMIT_S, color=LIMIT, linewidth=1, label="limit")
    axes.set_ylim(bottom=0)
    axes.set_title("seconds from the end of a report's second to its answer", fontsize=10)
    axes.set_xlabel("second of the road", fontsize=9)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.legend(fontsize=9, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
