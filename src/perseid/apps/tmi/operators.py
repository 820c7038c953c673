"""The stateful operators of transportation mode inference: Pair, k-means and the shares of the modes (M8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.apps.growing import Growing
from perseid.apps.tmi.clustering import modes_of, travel_of
from perseid.apps.tmi.generate import MODES
from perseid.operators.operator import Operator
from perseid.state.fields import state
from perseid.state.timers import Timer

PAIR_OUTPUT = "phone long, at_ms long, x double, y double, speed float, turn float, truth int"
MODES_OUTPUT = "pool int, window_ms long, phone long, mode string, speed float, reports int, truth string"
SHARES_OUTPUT = "pool int, window_ms long, mode string, phones long, share double, change double"
FASTEST_M_S = 70.0

RECORD = np.dtype(
    [("phone", "i8"), ("at_ms", "i8"), ("x", "f8"), ("y", "f8"), ("speed", "f4"), ("turn", "f4"), ("stop_m", "f4"), ("truth", "i4")]
)  # fmt: skip
LAST = np.dtype([("phone", "i8"), ("at_ms", "i8"), ("x", "f8"), ("y", "f8"), ("speed", "f8")])


def _nobody() -> NDArray[Any]:
    return np.empty(0, LAST)


def records(pools: dict[int, Growing]) -> int:
    """How many records all pools hold: the length of the k-means operator's state (M5a)."""
    return sum(map(len, pools.values()))


class Pair(Operator):
    """Pairs every position of a phone with the one before: speed and change of speed. Knows each phone's last place."""

    ordered = False
    last: NDArray[Any] = state(default_factory=_nobody)  # sorted by phone

    def process(self, rows: pa.Table) -> pa.Table | None:
        if not rows.num_rows:
            return None
        came = np.empty(rows.num_rows, LAST)
        for name in ("phone", "at_ms", "x", "y"):
            came[name] = rows[name].to_numpy()
        came["speed"] = np.nan
        order = np.lexsort((came["at_ms"], came["phone"]))
        came = came[order]
        truth = rows["truth"].fill_null(-1).to_numpy()[order]
        first = np.r_[True, came["phone"][1:] != came["phone"][:-1]]
        before = np.r_[came[:1], came[:-1]]
        known = np.searchsorted(self.last["phone"], came["phone"][first])
        found = known < len(self.last)
        found[found] = self.last["phone"][known[found]] == came["phone"][first][found]
        places = np.flatnonzero(first)
        before[places[found]] = self.last[known[found]]
        seconds = (came["at_ms"] - before["at_ms"]) / 1000.0
        paired = np.ones(len(came), bool)
        paired[places[~found]] = False
        paired &= seconds > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            came["speed"] = np.hypot(came["x"] - before["x"], came["y"] - before["y"]) / seconds
        speed_before = np.r_[np.nan, came["speed"][:-1]]
        speed_before[places[found]] = self.last["speed"][known[found]]
        turn = np.nan_to_num((came["speed"] - speed_before).astype(np.float32), posinf=0.0, neginf=0.0)
        self._remember(came, first, known, found)
        kept = paired & (came["speed"] < FASTEST_M_S)  # faster: the phone was switched off, or a base station erred
        columns = {name: came[name][kept] for name in ("phone", "at_ms", "x", "y")}
        speeds = {"speed": came["speed"][kept].astype(np.float32), "turn": turn[kept]}
        return pa.table({**columns, **speeds, "truth": truth[kept]})

    def _remember(self, came: NDArray[Any], first: NDArray[Any], known: NDArray[Any], found: NDArray[Any]) -> None:
        newest = came[np.r_[np.flatnonzero(first)[1:] - 1, len(came) - 1]]
        self.last[known[found]] = newest[found]
        if not found.all():
            self.last = np.insert(self.last, known[~found], newest[~found])


class KMeansModes(Operator):
    """Keeps the records of a window in a pool, clusters them when it ends, and drops them (the paper's k-means)."""

    ordered = False
    pools: dict[int, Growing] = state(default_factory=dict, length=records, element_size=RECORD.itemsize)

    def __init__(self, window_ms: int, modes: Sequence[str] = MODES, seed: int = 0) -> None:
        self.window_ms, self.modes, self.seed = window_ms, tuple(modes), seed

    def process(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        came = np.empty(rows.num_rows, RECORD)
        for name in RECORD.names or ():
            came[name] = rows[name].to_numpy()
        pool_of = rows["pool"].to_numpy()
        for pool in np.unique(pool_of).tolist():
            kept = self.pools.setdefault(pool, Growing(RECORD))
            mine = came[pool_of == pool]
            kept.append(mine)
            for window in np.unique(mine["at_ms"] // self.window_ms).tolist():
                self.context.timers.at_event_time(pool, (window + 1) * self.window_ms)

    def on_timer(self, timers: Sequence[Timer]) -> pa.Table | None:
        found = [self._close(timer.key, timer.at_ms) for timer in timers]
        tables = [table for table in found if table is not None]
        return pa.concat_tables(tables) if tables else None

    def _close(self, pool: Any, end_ms: int) -> pa.Table | None:
        rows = self.pools[pool].rows
        ended = rows["at_ms"] < end_ms
        window = rows[ended]
        rest = Growing(RECORD)
        rest.append(rows[~ended])
        self.pools[pool] = rest
        # The sort makes the result independent of the order in which rows came.
        travels = travel_of(window[np.lexsort((window["at_ms"], window["phone"]))])
        if not len(travels):
            return None
        inferred = modes_of(travels, self.modes, self.seed)
        truth = [MODES[code] if code >= 0 else None for code in travels["truth"].tolist()]
        return pa.table(
            {
                "pool": pa.array(np.full(len(travels), pool), pa.int32()),
                "window_ms": np.full(len(travels), end_ms - self.window_ms),
                "phone": travels["phone"],
                "mode": pa.array([self.modes[mode] for mode in inferred.tolist()], pa.string()),
                "speed": travels["mean"].astype(np.float32),
                "reports": travels["reports"].astype(np.int32),
                "truth": pa.array(truth, pa.string()),
            }
        )


class ModeShares(Operator):
    """What share of a pool's phones moves how, window by window, and how that changed."""

    ordered = False
    shares: dict[int, dict[str, float]] = state(default_factory=dict)  # of the window before, by pool

    def process(self, rows: pa.Table) -> pa.Table | None:
        if not rows.num_rows:
            return None
        counts = rows.group_by(["pool", "window_ms", "mode"], use_threads=False).aggregate([([], "count_all")])
        by_window: dict[tuple[int, int], dict[str, int]] = {}
        for row in counts.to_pylist():
            by_window.setdefault((row["window_ms"], row["pool"]), {})[row["mode"]] = row["count_all"]
        lines = []
        for (window_ms, pool), phones in sorted(by_window.items()):
            total = sum(phones.values())
            before = self.shares.get(pool, {})
            now = {mode: count / total for mode, count in sorted(phones.items())}
            for mode, share in now.items():
                lines.append((pool, window_ms, mode, phones[mode], share, share - before.get(mode, share)))
            self.shares[pool] = now
        names = ("pool", "window_ms", "mode", "phones", "share", "change")
        return pa.table(dict(zip(names, map(list, zip(*lines, strict=True)), strict=True)))
