"""Rows a second of a keyed count over 100,000 keys, a million rows to an epoch, against Spark's three ways.

Sides take turns within a round, so that whatever else the machine does meets all of them. A side that has just begun a round is
cold (its Python workers start, its state is empty), and a JVM gets faster for a while: the first half of every round is discarded, and a
full run begins with a round that does not count.
"""

from __future__ import annotations

from pathlib import Path

from perseid.bench.measuring import data, ours, peers
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.sizes import Sizes
from perseid.bench.measuring.timings import Commit, from_journal, rows_per_s

MOST_EPOCHS = 120
"""Input for Perseid: more than it can eat until its checkpoint."""


def measure(perseid: Contestant, spark: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    many, few = data.big(work / "many", MOST_EPOCHS), data.big(work / "few", sizes.batches)
    slices = data.sliced(work / "slices", sizes.state_batches)
    if sizes.rounds > 1:
        results.tell("warming up")
        _round(perseid, spark, many, few, None, work / "warm", sizes, Results(lambda _: None))
    for number in range(sizes.rounds):
        _round(perseid, spark, many, few, slices, work / f"round-{number}", sizes, results)
    if sizes.extras:
        commits = spark.call(peers.transform_with_state_in_pandas, slices, work / "pandas", 2)
        _say("transform_with_state_in_pandas_rows_per_s", commits, results)


def _round(
    perseid: Contestant,
    spark: Contestant,
    many: Path,
    few: Path,
    slices: Path | None,
    work: Path,
    sizes: Sizes,
    results: Results,
) -> None:
    combined = [("perseid_combined_rows_per_s", True)] if sizes.extras else []
    for name, combine in [*combined, ("perseid_rows_per_s", False)]:
        journal = perseid.call(ours.count, many, work / name, sizes.epochs, combine=combine)
        _say(name, from_journal(journal), results)
    _say("native_rows_per_s", spark.call(peers.native, few, work / "native"), results)
    if slices is not None:
        commits = spark.call(peers.transform_with_state, slices, work / "state", 2)
        _say("transform_with_state_rows_per_s", commits, results)
    _say("identity_rows_per_s", spark.call(peers.identity, few, sizes.batches), results)


def _say(name: str, commits: list[Commit], results: Results) -> None:
    results.sample(name, rows_per_s(commits, len(commits) // 2), unit="rows/s")
