"""What was wanted and what was reached: one line for each promise, judged by the numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

Relation = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A number of ours against a limit: its ratio to the peer's number if there is a peer, else itself.

    A number below ``least`` cannot be: then the machine was too unquiet to tell, and nothing is reached.
    """

    what: str
    ours: str
    unit: str
    relation: Relation
    limit: float
    peer: str | None = None
    least: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and what came of it; ``None`` where a number is missing because its part failed."""

    goal: Goal
    ours: float | None
    peer: float | None
    judged: float | None
    noise: bool
    reached: bool


def _processor_goals(api: str) -> Iterator[Goal]:
    """What is wanted of classes written for Spark, with rows or with pandas frames."""
    for kind, what in (("count", "count"), ("session", "session in a list"), ("timers", "timers")):
        ours, peer = (f"{of}processor_{kind}_{api}" for of in ("", "spark_"))
        yield Goal(f"{what}, {api}", f"{ours}_rows_per_s", "rows/s", "at least", 10, f"{peer}_rows_per_s")
        yield Goal(f"{what}, {api}: 1,000 rows", f"{ours}_small_ms", "ms", "at most", 1 / 3, f"{peer}_small_ms")


GOALS: Mapping[str, tuple[Goal, ...]] = {
    "throughput": (
        Goal("keyed count, against transformWithState", "perseid_rows_per_s", "rows/s", "at least", 30, "transform_with_state_rows_per_s"),
        Goal("keyed count, against the JVM aggregate", "perseid_rows_per_s", "rows/s", "at least", 1.5, "native_rows_per_s"),
        Goal("keyed count, against the identity job", "perseid_rows_per_s", "rows/s", "at least", 0.75, "identity_rows_per_s"),
    ),
    "small": (
        Goal("1,000 rows, against transformWithState", "perseid_small_epoch_ms", "ms", "at most", 1, "transform_with_state_small_batch_ms"),
        Goal("growth of the driver", "driver_growth_mb", "MB", "at most", 10),
    ),
    "processors": tuple(goal for api in ("row", "pandas") for goal in _processor_goals(api)),
    "checkpoints": (
        Goal("throughput lost to checkpoints of 300 MB", "checkpoint_cost_percent", "%", "at most", 5, least=-5),
        Goal("longest stall by a checkpoint", "longest_stall_ms", "ms", "at most", 100),
        Goal("memory of a host, per byte of its state", "host_bytes_per_state_byte", "bytes", "at most", 1.3),
    ),
    "hosts": (Goal("host with 100 MB killed, to new output", "host_kill_recovery_s", "s", "at most", 2),),
    "executors": (Goal("executor killed, to new output", "executor_kill_recovery_s", "s", "at most", 10),),
}  # fmt: skip
"""By part of the benchmark."""


def judge(numbers: Mapping[str, float], goals: tuple[Goal, ...]) -> list[Verdict]:
    """A verdict on every goal."""
    return [_verdict(goal, numbers) for goal in goals]


def _verdict(goal: Goal, numbers: Mapping[str, float]) -> Verdict:
    ours = numbers.get(goal.ours)
    peer = numbers.get(goal.peer) if goal.peer is not None else None
    judged = ours
    if goal.peer is not None:
        judged = ours / peer if ours is not None and peer else None
    reached = judged is not None and (judged >= goal.limit if goal.relation == "at least" else judged <= goal.limit)
    noise = judged is not None and goal.least is not None and judged < goal.least
    return Verdict(goal, ours, peer, judged, noise, reached and not noise)


def table(verdicts: list[Verdict]) -> Table:
    """The verdicts for a terminal."""
    shown = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    shown.add_column("what")
    for column in ("Perseid", "peer", "ratio", "wanted"):
        shown.add_column(column, justify="right")
    shown.add_column("reached")
    for verdict in verdicts:
        goal = verdict.goal
        ratio = f"{verdict.judged:.2f} x" if goal.peer is not None and verdict.judged is not None else ""
        sign = "≥" if goal.relation == "at least" else "≤"
        shown.add_row(
            goal.what,
            figure(verdict.ours, goal.unit),
            figure(verdict.peer, goal.unit) if goal.peer is not None else "",
            ratio,
            f"{sign} {goal.limit:.3g} x" if goal.peer is not None else f"{sign} {goal.limit:g} {goal.unit}",
            _reached(verdict),
        )
    return shown


def _reached(verdict: Verdict) -> Text:
    if verdict.noise:
        return Text("no telling: noise", "yellow")
    return Text("yes", "green") if verdict.reached else Text("no", "bold red")


def figure(number: float | None, unit: str) -> str:
    """``1234567.8, "rows/s"`` → ``1,234,568 rows/s``; small numbers keep two places."""
    if number is None:
        return "not measured"
    return f"{number:,.0f} {unit}" if abs(number) >= 100 else f"{number:.2f} {unit}"
