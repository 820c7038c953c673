"""How long after its second an answer was there, measured from what a run wrote (S7, S8 figure 7).

A report of second t can be known when that second is over; its answer is there when its epoch is committed, durably. Both are
told by the files alone, so measuring costs the run nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
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


def latency_of(folder: Path, began_ms: int, speed: float) -> Latency | None:
    """Of the answers below ``folder`` that were committed since the feed began; None if there are none."""
    parts = []
    for marker in folder.glob("epoch=*/_perseid.json"):
        committed_ms = marker.stat().st_mtime * 1000
        if committed_ms < began_ms:
            continue
        for file in marker.parent.glob("part-*.parquet"):
            due_ms = began_ms + (pq.ParquetFile(file).read(columns=["time"])["time"].to_numpy() + 1) * 1000 / speed
            parts.append((committed_ms - due_ms) / 1000)
    if not parts:
        return None
    seconds = np.concatenate(parts)
    middle, p95, p99 = (float(np.percentile(seconds, share)) for share in (50, 95, 99))
    return Latency(len(seconds), middle, p95, p99, float(seconds.max()), float(np.mean(seconds <= LIMIT_S)))
