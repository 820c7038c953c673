"""What is wanted of scale out and recovery, by part; and what the paper says in words of what is only told here."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from perseid.bench.measuring.verdicts import Goal, figure

GOALS: Mapping[str, tuple[Goal, ...]] = {
    "live": (
        Goal("2 to 4 shards under load: input paused", "live_pause_s", "s", "at most", 1),
        Goal(
            "the same, against stop, repartition, start on Spark", "live_pause_s", "s", "at most", 0.1, "spark_pause_s"
        ),
    ),
    "recovery": (
        Goal("recovery, against upstream backup", "state_recovery_s", "s", "at most", 1 / 3, "upstream_recovery_s"),
        Goal("recovery, against source replay", "state_recovery_s", "s", "at most", 1 / 3, "source_recovery_s"),
    ),
    "parallel": (
        Goal("recovery on two hosts, against one", "parallel_recovery_s", "s", "at most", 0.7, "serial_recovery_s"),
    ),
    "road": (Goal("Linear Road: expressways, all answers right", "road_l", "", "at least", 100),),
    "overhead": (
        Goal("95th percentile of latency, medium state", "overhead_medium_percent", "%", "at most", 10, least=-10),
    ),
}

TOLD = (
    ("2 to 4 shards: longest time without output", "live_gap_s", "s", ""),
    ("the same on Spark, stopped and started", "spark_gap_s", "s", ""),
    ("Linear Road: median latency", "road_median_ms", "ms", "153 ms (L = 350 on 50 VMs)"),
    ("Linear Road: 95th percentile", "road_p95_ms", "ms", "700 ms"),
    ("Linear Road: 99th percentile", "road_p99_ms", "ms", "1,459 ms"),
    ("rising load: median latency", "rising_p50_ms", "ms", "peaks of 4 s after a scale out"),
    ("rising load: 95th percentile", "rising_p95_ms", "ms", ""),
    ("rising load: 99th percentile", "rising_p99_ms", "ms", ""),
    ("rising load: shards at the end", "rising_final_shards", "", "grows with the rate"),
    ("open loop: rows dropped", "open_dropped_percent", "%", "none, once scaled out"),
    ("open loop: shards at the end", "open_final_shards", "", "550,000 tuples/s borne (top-k)"),
    ("threshold 10 %: shards at the end", "threshold_10_shards", "", "many; high percentiles rise"),
    ("threshold 70 %: shards at the end", "threshold_70_shards", "", "50 to 70 % is best"),
    ("threshold 90 %: shards at the end", "threshold_90_shards", "", "few; latency rises again"),
    ("one shard by hand: 95th percentile", "manual_1_p95_ms", "ms", "few machines: near overload"),
    ("two shards by hand: 95th percentile", "manual_2_p95_ms", "ms", ""),
    ("scaled by itself: 95th percentile", "dynamic_p95_ms", "ms", "714 ms"),
    ("scaled by itself: shards at the end", "dynamic_shards", "", "a quarter more than the best by hand"),
    ("recovery: R+SM", "state_recovery_s", "s", "replays at most 5 s of input"),
    ("recovery: upstream backup", "upstream_recovery_s", "s", "replays 30 s"),
    ("recovery: source replay", "source_recovery_s", "s", "replays 30 s; a little faster than upstream backup"),
    ("overhead: small state", "overhead_small_percent", "%", "grows with the state"),
    ("overhead: large state", "overhead_large_percent", "%", ""),
)
"""What, its number, its unit, and the paper's words."""


def told(numbers: Mapping[str, float]) -> Table:
    """The figures that nothing is wanted of, as far as they were measured."""
    shown = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    shown.add_column("figures")
    shown.add_column("Perseid", justify="right")
    shown.add_column("paper")
    for what, name, unit, paper in TOLD:
        if name in numbers:
            shown.add_row(what, figure(numbers[name], unit) if unit else f"{numbers[name]:.0f}", paper)
    return shown
