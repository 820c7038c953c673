"""The figure: throughput, small epochs, epochs around checkpoints, recoveries; each with the limit it is held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from perseid.bench.measuring.results import Results

matplotlib.use("Agg")
from matplotlib import pyplot

OURS, PEER, LIMIT = "#2a6f97", "#b8b8b8", "#c1121f"


def draw(results: Results, title: str, path: Path) -> None:
    """Draw what there is; a part that failed leaves its panel empty."""
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    figure.suptitle(title, fontsize=11)
    _throughput(axes[0][0], results)
    _small(axes[0][1], results)
    _checkpoints(axes[1][0], results)
    _recoveries(axes[1][1], results)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _throughput(axes: Any, results: Results) -> None:
    names = {
        "transform_with_state_in_pandas_rows_per_s": "transformWithStateInPandas",
        "transform_with_state_rows_per_s": "transformWithState",
        "native_rows_per_s": "JVM aggregate, RocksDB",
        "identity_rows_per_s": "identity job, no state",
        "perseid_rows_per_s": "Perseid",
        "perseid_combined_rows_per_s": "Perseid, combined",
    }
    _bars(axes, results, names, lambda n: f"{n / 1000:,.0f} k" if n < 1e6 else f"{n / 1e6:.2f} M")
    axes.set_xscale("log" if len(axes.patches) else "linear")
    axes.set_title("keyed count, 100,000 keys: rows/s (log scale)", fontsize=10)


def _small(axes: Any, results: Results) -> None:
    names = {
        "transform_with_state_small_batch_noop_ms": "transformWithState, no sink",
        "perseid_small_epoch_noop_ms": "Perseid, no sink",
        "transform_with_state_small_batch_ms": "transformWithState, parquet",
        "perseid_small_epoch_ms": "Perseid, parquet",
    }
    _bars(axes, results, names, lambda n: f"{n:.0f} ms")
    axes.set_title("1,000 rows from source to sink: ms", fontsize=10)


def _bars(axes: Any, results: Results, names: dict[str, str], label: Any) -> None:
    there = {name: text for name, text in names.items() if name in results.numbers}
    numbers = [results.numbers[name] for name in there]
    colours = [OURS if name.startswith("perseid") else PEER for name in there]
    bars = axes.barh(list(there.values()), numbers, color=colours, height=0.62)
    axes.bar_label(bars, [label(number) for number in numbers], padding=4, fontsize=9)
    for row, name in enumerate(there):
        axes.scatter(results.samples[name], [row] * len(results.samples[name]), s=9, color="black", zorder=3)
    axes.margins(x=0.18)
    _plain(axes)


def _checkpoints(axes: Any, results: Results) -> None:
    samples = results.samples
    axes.set_title("time from commit to commit, 300 MB of state, a checkpoint every 10 s", fontsize=10)
    if samples.get("commit_at_s"):
        axes.plot(samples["commit_at_s"], samples["commit_gap_ms"], ".-", color=OURS, linewidth=1, markersize=4)
        for number, at in enumerate(samples["checkpoint_at_s"]):
            axes.axvline(at, color=LIMIT, linewidth=1, label="checkpoint begins" if number == 0 else None)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("s", fontsize=9)
        axes.set_ylabel("ms", fontsize=9)
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    _plain(axes)


def _recoveries(axes: Any, results: Results) -> None:
    rows = (("executor_kill_recovery_s", "executor killed", 10), ("host_kill_recovery_s", "host killed", 2))
    for row, (name, _, limit) in enumerate(rows):
        axes.plot(
            [limit, limit], [row - 0.3, row + 0.3], color=LIMIT, linewidth=2, label="wanted" if row == 0 else None
        )
        if name in results.numbers:
            found = results.samples[name]
            axes.scatter(found, [row] * len(found), color=OURS, s=28, alpha=0.7, label="a kill" if row == 0 else None)
            axes.annotate(f"median {results.numbers[name]:.1f} s", (results.numbers[name], row), (0, 12),
                          textcoords="offset points", fontsize=9, ha="center")  # fmt: skip
    axes.set_yticks(range(len(rows)), [text for _, text, _ in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("s", fontsize=9)
    axes.set_title("from SIGKILL to the first new output", fontsize=10)
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
