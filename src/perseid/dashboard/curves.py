"""Numbers over time, one row for each epoch, kept small and shown with as many points as a screen has.

Invariant: rows are in the order of time; a range is answered with at most the wanted number of points, and no sum changes by that.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perseid.errors import PerseidError

Floats = npt.NDArray[np.float64]

COLUMNS = (
    "at_ms", "epoch", "ms", "admission", "waiting", "spark", "hosts", "sink",
    "rows_in", "rows_out", "state", "late", "backlog", "lag_ms", "rows_wait",
)  # fmt: skip
SOURCE_COLUMNS = ("at_ms", "rows", "rows_wait")
OPERATOR_COLUMNS = ("at_ms", "rows_in", "rows_out", "state", "busy_ms")
WINDOW = 30
"""Epochs that a percentile looks back over, where every epoch has a point of its own."""


class Rows:
    """A table that only grows, eight bytes a number."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._flat = array("d")

    def __len__(self) -> int:
        return len(self._flat) // len(self.columns)

    def add(self, *values: float) -> None:
        if len(values) != len(self.columns):
            raise PerseidError(f"expected {len(self.columns)} numbers, got {len(values)}")
        self._flat.extend(values)

    def last(self, column: str) -> float | None:
        """The newest number of a column."""
        return self._flat[self.columns.index(column) - len(self.columns)] if self._flat else None

    def tail(self, count: int) -> list[tuple[float, ...]]:
        """The newest rows, oldest first."""
        width = len(self.columns)
        values = self._flat[-count * width :]
        return [tuple(values[at : at + width]) for at in range(0, len(values), width)]

    def between(self, from_ms: float | None, to_ms: float | None) -> dict[str, Floats]:
        """A copy of the rows of a time, by column. The first column is the time."""
        table = np.frombuffer(self._flat, dtype=np.float64).reshape(-1, len(self.columns)) if self._flat else None
        if table is None:
            return {name: np.empty(0) for name in self.columns}
        at_ms = table[:, 0]
        first = 0 if from_ms is None else int(np.searchsorted(at_ms, from_ms, "left"))
        end = len(at_ms) if to_ms is None else int(np.searchsorted(at_ms, to_ms, "right"))
        return {name: table[first:end, number].copy() for number, name in enumerate(self.columns)}


def epochs(rows: dict[str, Floats], points: int) -> dict[str, list[Any]]:
    """Epochs as curves: latency in percentiles, its parts and counts. Counts are per second."""
    at_ms, total = rows["at_ms"], rows["ms"] + rows["admission"]
    if not len(at_ms):
        return {}
    if len(at_ms) <= points:
        starts = np.arange(len(at_ms))
        low, mid, high = _looking_back(total)
    else:
        starts = _starts(at_ms, points)
        low, mid, high = _percentiles(total, starts)
    ends = np.append(starts[1:], len(at_ms)) - 1
    before = np.concatenate([[at_ms[0] - max(rows["ms"][0], 1.0)], at_ms[ends[:-1]]])
    seconds = np.maximum((at_ms[ends] - before) / 1000, 0.001)
    counts = np.append(starts[1:], len(at_ms)) - starts
    parts = {name: np.add.reduceat(rows[name], starts) / counts for name in COLUMNS[3:8]}
    return {
        "t": _list(at_ms[ends] / 1000, 3),
        "epoch": _list(rows["epoch"][ends], 0),
        "p50": _list(low), "p95": _list(mid), "p99": _list(high),
        **{name: _list(values) for name, values in parts.items()},
        "rows_in": _list(np.add.reduceat(rows["rows_in"], starts) / seconds),
        "rows_out": _list(np.add.reduceat(rows["rows_out"], starts) / seconds),
        "late": _list(np.add.reduceat(rows["late"], starts)),
        "state": _list(rows["state"][ends], 0),
        "backlog": _list(np.maximum.reduceat(rows["backlog"], starts)),
        "lag_ms": _list(rows["lag_ms"][ends]),
        "rows_wait": _list(np.fmax.reduceat(rows["rows_wait"], starts), 0),
    }  # fmt: skip


def state(rows: dict[str, Floats], points: int) -> dict[str, list[Any]]:
    """The state of one operator: its largest and smallest of each point both stay visible."""
    at_ms, size = rows["at_ms"], rows["state"]
    if len(at_ms) > points:
        starts = _starts(at_ms, points // 2)
        ends = np.append(starts[1:], len(at_ms))
        picks = [
            at
            for first, end in zip(starts, ends, strict=True)
            for at in sorted({first + int(size[first:end].argmin()), first + int(size[first:end].argmax())})
        ]
        at_ms, size = at_ms[picks], size[picks]
    return {"t": _list(at_ms / 1000, 3), "bytes": _list(size, 0)}


def summary(rows: dict[str, Floats]) -> dict[str, float | None]:
    """Numbers of the whole range."""
    total = rows["ms"] + rows["admission"]
    if not len(total):
        return {"epochs": 0, "p50": None, "p95": None, "p99": None, "rows_in": 0, "rows_out": 0, "late": 0}
    low, mid, high = np.percentile(total, [50, 95, 99])
    return {
        "epochs": len(total), "p50": round(low, 1), "p95": round(mid, 1), "p99": round(high, 1),
        "rows_in": int(rows["rows_in"].sum()), "rows_out": int(rows["rows_out"].sum()), "late": int(rows["late"].sum()),
        **{name: round(float(rows[name].mean()), 1) for name in COLUMNS[3:8]},
    }  # fmt: skip


def _starts(at_ms: Floats, points: int) -> npt.NDArray[np.intp]:
    """Where each stretch of equal time begins; stretches without an epoch are left out."""
    first, last = at_ms[0], at_ms[-1]
    stretch = np.minimum(((at_ms - first) / max(last - first, 1.0) * points).astype(np.intp), points - 1)
    return np.flatnonzero(np.diff(stretch, prepend=-1))


def _percentiles(values: Floats, starts: npt.NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    ends = np.append(starts[1:], len(values))
    found = np.array([np.percentile(values[a:b], [50, 95, 99]) for a, b in zip(starts, ends, strict=True)])
    return found[:, 0], found[:, 1], found[:, 2]


def _looking_back(values: Floats) -> tuple[Floats, Floats, Floats]:
    padded = np.concatenate([np.full(WINDOW - 1, np.nan), values])
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)
    low, mid, high = np.nanpercentile(windows, [50, 95, 99], axis=1)
    return low, mid, high


def _list(values: Floats, digits: int = 1) -> list[Any]:
    """For JSON, which has no NaN."""
    return [None if value != value else value for value in np.round(values, digits).tolist()]
