"""How long a thousand rows take from source to sink, both sides warm, against ``transformWithState``; and whether the driver grows.

Perseid's time is the whole cycle, from commit to commit while input is always there: looking for input and writing the ledger are
in it. Spark's is the trigger's execution, which has the same in it. The last round of Perseid is a long one, before and after which
the driver's memory is read.
"""

from __future__ import annotations

from pathlib import Path

from perseid.bench.measuring import data, ours, peers
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.memory import MB
from perseid.bench.measuring.recording import recording_cost
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.sizes import Sizes
from perseid.bench.measuring.timings import from_journal, gaps_ms, middle


def measure(perseid: Contestant, spark: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    epochs, discarded = sizes.small_epochs, sizes.small_discarded
    files = data.small(work / "files", epochs)
    for number in range(sizes.small_rounds):
        folder = work / f"round-{number}"
        batches = spark.call(peers.transform_with_state, files, folder / "state", 1)
        name = "transform_with_state_small_batch_ms"
        results.sample(name, middle(b.ms for b in batches[discarded:]), unit="ms")
        if number < sizes.small_rounds - 1:
            journal, _, _ = perseid.call(ours.small, files, folder / "ours", epochs, discarded, sink="parquet")
            _say(results, journal, discarded, "")
    if sizes.extras:
        _without_sink(perseid, spark, files, work, sizes, results)
    many = data.small(work / "many", sizes.growth_epochs)
    journal, before, after = perseid.call(
        ours.small, many, work / "long", sizes.growth_epochs, sizes.growth_from, sink="parquet"
    )
    _say(results, journal, discarded, "")
    cost, epoch_ms = recording_cost(str(work / "long" / "root")), middle(gaps_ms(from_journal(journal), discarded))
    results.number("event_log_us_per_epoch", cost.us(epoch_ms), "µs")
    results.number("event_log_bytes_per_epoch", cost.bytes(epoch_ms), "bytes")
    results.number("driver_python_growth_mb", (after.python - before.python) / MB, "MB")
    results.number("driver_heap_growth_mb", (after.heap - before.heap) / MB, "MB")
    results.number("driver_growth_mb", (after.python + after.heap - before.python - before.heap) / MB, "MB")


def _without_sink(
    perseid: Contestant, spark: Contestant, files: Path, work: Path, sizes: Sizes, results: Results
) -> None:
    """Once more with sinks that throw everything away: neither side gains by how it writes files."""
    epochs, discarded = sizes.small_epochs, sizes.small_discarded
    batches = spark.call(peers.transform_with_state, files, work / "state-noop", 1, sink="noop")
    results.sample("transform_with_state_small_batch_noop_ms", middle(b.ms for b in batches[discarded:]), unit="ms")
    journal, _, _ = perseid.call(ours.small, files, work / "ours-noop", epochs, discarded, sink="noop")
    _say(results, journal, discarded, "noop_")


def _say(results: Results, journal: ours.Journal, discarded: int, sink: str) -> None:
    commits = from_journal(journal)
    results.sample(f"perseid_small_epoch_{sink}ms", middle(gaps_ms(commits, discarded)), unit="ms")
    results.sample(f"perseid_small_epoch_{sink}run_ms", middle(c.ms for c in commits[discarded:]), unit="ms")
