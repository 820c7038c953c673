"""What is wanted of standby, by part; and what the paper says of it and of what is only told."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from perseid.bench.measuring.verdicts import Goal, figure

GOALS: Mapping[str, tuple[Goal, ...]] = {
    "recovery": (
        Goal("hybrid recovers, against passive", "hybrid_recovery_ms", "ms", "at most", 0.2, "passive_recovery_ms"),
        Goal("hybrid: from a stop to the next output", "hybrid_next_output_ms", "ms", "at most", 300),
    ),
    "traffic": (
        Goal("traffic of hybrid, against none", "hybrid_traffic_ratio", "x", "at most", 1.1),
        Goal("false switches, primaries at work", "false_switches", "", "at most", 0),
    ),
    "delay": (Goal("delay at 60 % failure time, against active", "hybrid_delay_ratio", "x", "at most", 1.5),),
    "shared": (Goal("three share a copy host: more delay at 20 %", "shared_delay_percent", "%", "at most", 25),),
}
EXACT = (
    Goal("rows lost", "lost_rows", "", "at most", 0),
    Goal("rows doubled", "doubled_rows", "", "at most", 0),
)

TOLD = (
    ("hybrid: detect", "hybrid_detect_ms", "ms", "a third of passive's; 144 ms"),
    ("hybrid: retransmit and reprocess", "hybrid_retransmit_ms", "ms", "104 ms"),
    ("passive: detect", "passive_detect_ms", "ms", "3 heartbeats"),
    ("passive: deploy", "passive_resume_ms", "ms", "465 ms (hybrid resumes in 113 ms)"),
    ("passive: retransmit and reprocess", "passive_retransmit_ms", "ms", "240 ms"),
    ("passive: from a stop to the next output", "passive_next_output_ms", "ms", ""),
    ("active: from a stop to the next output", "active_next_output_ms", "ms", "as if nothing had been"),
    ("an epoch without a stop, hybrid", "hybrid_usual_epoch_ms", "ms", ""),
    ("hybrid in a chain of four units", "chain_hybrid_recovery_ms", "ms", ""),
    ("roll-back", "rollback_ms", "ms", "grows with the rate, under 1 s"),
    ("traffic of active, against none", "active_traffic_ratio", "x", "about 4 x; here 2 x by design"),
    ("delay, no failure, hybrid", "hybrid_delay_0_ms", "ms", ""),
    ("delay at 60 %, none", "none_delay_60_ms", "ms", "grows with failure time"),
    ("delay at 60 %, passive", "passive_delay_60_ms", "ms", "higher than none's"),
    ("delay at 60 %, active", "active_delay_60_ms", "ms", "about 90 ms, flat"),
    ("delay at 60 %, hybrid", "hybrid_delay_60_ms", "ms", "flat, a little over active's"),
    ("refresh of a state of 50 MB", "large_state_refresh_ms", "ms", "not measured"),
    ("heartbeats notice, 95 % taken", "heartbeat_detection_95_ratio", "", "near 1"),
    ("heartbeats: false alarms, 95 % taken", "heartbeat_false_95_ratio", "", "near 0"),
    ("heartbeats: time to notice", "heartbeat_detection_ms", "ms", "144 ms"),
    ("benchmarking notices, 95 % taken", "benchmarking_detection_95_ratio", "", "1 from 60 % on"),
    ("benchmarking: false alarms, 95 % taken", "benchmarking_false_95_ratio", "", "over 0.15"),
    ("benchmarking: time to notice", "benchmarking_detection_ms", "ms", "132 ms"),
    ("share of the input that was done, worst run", "pace", "", "1"),
    ("load of the machine without failures", "quiet_load_percent", "%", "60 %"),
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
            shown.add_row(what, figure(numbers[name], unit), paper)
    return shown
