"""What checkpoints cost in latency: the 95th percentile with and without, by the size of the state and by interval (figures 14, 15)."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import perseid
from perseid import every
from perseid.apps.word_frequency.graph import made_up_fragments, word_frequency
from perseid.bench.measuring import ours
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.timings import middle
from perseid.bench.scaling.reading import Arrivals, latencies_ms, percentile
from perseid.bench.scaling.sizes import OVERHEAD_RATE, STATE_SIZES, Sizes
from perseid.checkpoints import comparison

WARM_S = 5.0
INTERVAL_S = 5.0
JUDGED = "medium"


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """With and without take turns, in every round in the other order."""
    side.call(words_p95_ms, work / "warm", STATE_SIZES[JUDGED], INTERVAL_S, sizes.overhead_s)
    for number in range(sizes.overhead_rounds):
        for size in sizes.states:
            for interval_s in (None, INTERVAL_S) if number % 2 == 0 else (INTERVAL_S, None):
                _one(side, work, sizes, results, size, interval_s)
    for size in sizes.states:
        plain, saved = (results.numbers[f"overhead_{size}_{kind}_p95_ms"] for kind in ("without", "with"))
        results.number(f"overhead_{size}_percent", 100 * (saved / plain - 1), "%")


def measure_intervals(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    """The large state, by interval."""
    for interval_s in sizes.intervals_s:
        found = [
            side.call(
                words_p95_ms, work / f"interval-{interval_s}-{n}", STATE_SIZES["large"], interval_s, sizes.overhead_s
            )
            for n in range(2)
        ]
        results.sample(f"overhead_interval_{interval_s:g}_p95_ms", middle(found), unit="ms")


def _one(side: Contestant, work: Path, sizes: Sizes, results: Results, size: str, interval_s: float | None) -> None:
    p95_ms = side.call(words_p95_ms, work / "run", STATE_SIZES[size], interval_s, sizes.overhead_s)
    results.sample(f"overhead_{size}_{'with' if interval_s else 'without'}_p95_ms", p95_ms, unit="ms")


def words_p95_ms(work: Path, words: int, interval_s: float | None, seconds: float) -> float:
    """On Perseid's side: words of a vocabulary are counted; the 95th percentile of the latency of fragments, once it is warm."""
    scheme = perseid.checkpoints.parallel(every(seconds=interval_s)) if interval_s else comparison.upstream_backup()
    fragments = made_up_fragments(words=words, per_second=OVERHEAD_RATE, rate=OVERHEAD_RATE)
    running = ours.start(word_frequency(fragments, perseid.sinks.noop()), work, checkpoint=scheme)
    ours.wait_for(running, lambda p: p.epoch > 0)
    time.sleep(WARM_S)
    from_ms = time.time() * 1000
    time.sleep(seconds)
    journal = ours.end(running)
    shutil.rmtree(work, ignore_errors=True)
    return percentile(latencies_ms(journal, Arrivals.at_rate(journal, OVERHEAD_RATE), from_ms), 95)
