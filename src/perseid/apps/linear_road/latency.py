"""How long after its second an answer was there, measured from what a run wrote (S7, S8 figure 7).

A report of second t can be known when that second is over; its answer is there when its epoch is committed, durably. Both are
told by the files alone, so measuring costs the run nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

LIMIT_S = 5.0


@dataclass(frozen=True)
class Latency:
    """Of the answers of a run, in seconds."""

    answers: int
    median_s: float
    p95_s: float
    p99_s: float
    worst_s: float
    within_limit: float  # share of answers within 5 s

    def __str__(self) -> str:
        return (
            f"{self.answers:,} answers: median {self.median_s:.2f} s, 95 % {self.p95_s:.2f} s, 99 % {self.p99_s:.2f} s,"
            f" worst {self.worst_s:.2f} s; {self.within_limit:.2%} within {LIMIT_S:g} s"
        )


@dataclass(frozen=True)
class Lateness:
    """Of every answer of a run: the second it belongs to, and how many seconds after it the answer was there."""

    second: npt.NDArray[Any]
    late_s: npt.NDArray[Any]

    def since(self, second: int) -> Lateness:
        """Of the answers that belong to this second or a later one."""
        later = self.second >= second
        return Lateness(self.second[later], self.late_s[later])

    def summary(self) -> Latency | None:
        """None if there are no answers."""
        if not len(self.late_s):
            return None
        middle, p95, p99 = (float(number) for number in np.percentile(self.late_s, (50, 95, 99)))
        worst, within = float(self.late_s.max()), float(np.mean(self.late_s <= LIMIT_S))
        return Latency(len(self.late_s), middle, p95, p99, worst, within)


def lateness_of(folder: Path, began_ms: int, speed: float) -> Lateness:
    """Of the answers below ``folder`` that were committed since the feed began."""
    seconds, late = [np.empty(0, np.int32)], [np.empty(0)]
    for marker in folder.glob("epoch=*/_perseid*.json"):
        committed_ms = marker.stat().st_mtime * 1000
        if committed_ms < began_ms:
            continue
        for file in marker.parent.glob("part-*.parquet"):
            second = pq.ParquetFile(file).read(columns=["time"])["time"].to_numpy()
            seconds.append(second)
            late.append((committed_ms - began_ms) / 1000 - (second + 1) / speed)
    return Lateness(np.concatenate(seconds), np.concatenate(late))


def latency_of(folder: Path, began_ms: int, speed: float) -> Latency | None:
    """Of the answers below ``folder`` that were committed since the feed began; None if there are none."""
    return lateness_of(folder, began_ms, speed).summary()
