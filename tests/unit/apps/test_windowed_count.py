"""Counts per window of event time, as top-k and word frequency use them (S7)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from perseid import Context, every
from perseid.apps.windowed_count import WindowedCount
from perseid.state.operator_state import fresh, run_epoch
from perseid.vocabulary import Epoch


def epoch(number: int, rows: list[tuple[str, int]], watermark_ms: int | None) -> tuple[pa.Table, Context]:
    at = pa.array([ms for _, ms in rows], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    table = pa.table({"key": pa.array([key for key, _ in rows], pa.string()), "at": at})
    return table, Context(Epoch(number), 0, watermark_ms)


def told(operator: WindowedCount, rows: list[tuple[str, int]], watermark_ms: int | None) -> list[tuple[int, str, int]]:
    table, context = epoch(1, rows, watermark_ms)
    answer = run_epoch(operator, {"rows": table}, context)
    assert answer is not None
    starts = answer["window"].cast(pa.int64()).to_pylist()
    return [
        (s // 1000, k, n) for s, k, n in zip(starts, answer["key"].to_pylist(), answer["n"].to_pylist(), strict=True)
    ]


def test_a_window_is_told_once_when_the_watermark_has_passed_it() -> None:
    operator = fresh(WindowedCount(every(seconds=30)))
    assert told(operator, [("a", 0), ("a", 29_999), ("b", 30_000)], None) == []
    assert told(operator, [("a", 31_000), ("a", 5)], 29_999) == []
    assert told(operator, [("b", 61_000)], 30_000) == [(0, "a", 3)]
    assert told(operator, [], 45_000) == []
    assert told(operator, [], 95_000) == [(30_000, "a", 1), (30_000, "b", 1), (60_000, "b", 1)]
    assert operator.counts == {}


def test_the_best_of_the_shards_hold_the_best_of_all() -> None:
    random = np.random.default_rng(1)
    rows = [
        (f"k{int(key)}", int(ms))
        for key, ms in zip(random.zipf(1.5, 3_000) % 50, random.integers(0, 90_000, 3_000), strict=True)
    ]
    shards = [fresh(WindowedCount(every(seconds=30), top=5)) for _ in range(3)]
    parts = [
        line
        for n, shard in enumerate(shards)
        for line in told(shard, [r for r in rows if int(r[0][1:]) % 3 == n], 90_000)
    ]
    assert len(parts) <= 3 * 5 * 3
    for start in (0, 30_000, 60_000):
        counts = Counter(key for key, ms in rows if start <= ms < start + 30_000)
        best = sorted(((-n, key) for key, n in counts.items()))[:5]
        assert sorted((-n, key) for window, key, n in parts if window == start)[:5] == best
