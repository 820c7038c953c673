"""Classes written for Spark, run by Spark and by Perseid: rows a second, and how long a thousand rows take.

Both sides run the same class on the same files with the same number of rows to an epoch, and write what comes of it exactly once.
They take turns, after a run of each that does not count: until then a JVM is cold. The results of the first epochs are compared: a rate
counts only if both sides say the same.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from perseid.bench.measuring import data, ours, peers, processors
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.processors import Processor
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.sizes import PROCESSOR_ROWS, SMALL_ROWS, Sizes
from perseid.bench.measuring.timings import Commit, from_journal, gaps_ms, middle, rows_per_s

KINDS: dict[str, type[Processor]] = {
    "count_row": processors.CountRows,
    "session_row": processors.SessionRows,
    "timers_row": processors.TimerRows,
    "count_pandas": processors.CountFrames,
    "session_pandas": processors.SessionFrames,
    "timers_pandas": processors.TimerFrames,
}
MOST_EPOCHS = 240
"""Input for Perseid: more than it can eat until its checkpoint."""


def measure(perseid: Contestant, spark: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    many = data.keyed(work / "many", MOST_EPOCHS, PROCESSOR_ROWS)
    few = data.keyed(work / "few", sizes.processor_batches, PROCESSOR_ROWS)
    small = data.keyed(work / "small", sizes.processor_small, SMALL_ROWS)
    results.tell("warming up")
    _both(perseid, spark, few, many, work / "warm", "count_row", sizes.processor_epochs, PROCESSOR_ROWS)
    for number in range(sizes.processor_rounds):
        for name in KINDS:
            folder = work / f"round-{number}" / name
            theirs, mine = _both(
                perseid, spark, few, many, folder / "large", name, sizes.processor_epochs, PROCESSOR_ROWS
            )
            _say(f"spark_processor_{name}_rows_per_s", theirs, results)
            _say(f"processor_{name}_rows_per_s", mine, results)
    for name in KINDS:
        folder, epochs = work / "latency" / name, sizes.processor_small
        theirs, mine = _both(perseid, spark, small, small, folder, name, epochs, SMALL_ROWS)
        discard = epochs // 2
        results.sample(f"spark_processor_{name}_small_ms", middle(batch.ms for batch in theirs[discard:]), unit="ms")
        results.sample(f"processor_{name}_small_ms", middle(gaps_ms(mine, discard)), unit="ms")
    for name in KINDS:
        for what, of in (("rows_per_s", "ratio"), ("small_ms", "latency_ratio")):
            peer = results.numbers[f"spark_processor_{name}_{what}"]
            results.number(f"processor_{name}_{of}", results.numbers[f"processor_{name}_{what}"] / peer, "x")


def _both(
    perseid: Contestant, spark: Contestant, theirs: Path, mine: Path, work: Path, name: str, epochs: int, rows: int
) -> tuple[list[Commit], list[Commit]]:
    """What Spark and then Perseid committed."""
    kind, pandas = KINDS[name], name.endswith("pandas")
    large = rows == PROCESSOR_ROWS
    wanted = len(list(theirs.iterdir())) // 2
    batches = spark.call(peers.processor, theirs, work / "spark", 2, wanted, kind, pandas=pandas)
    journal = perseid.call(ours.processor, mine, work / "ours", epochs, rows, kind, pandas=pandas, checkpoint=large)
    for number in range(len(batches)):
        expected = _written(work / "spark" / "out" / f"batch={number}")
        came = _written(work / "ours" / "out" / f"epoch={number + 1}")
        assert came == expected, f"{name}: epoch {number + 1} has {len(came):,} rows, Spark's {len(expected):,}"
    return batches, from_journal(journal)


def _written(folder: Path) -> list[tuple[int, int]]:
    """The results of one epoch."""
    tables = [pq.read_table(file, columns=["key", "n"], partitioning=None) for file in folder.glob("*.parquet")]
    return sorted((row["key"], row["n"]) for table in tables for row in table.to_pylist())


def _say(name: str, commits: list[Commit], results: Results) -> None:
    results.sample(name, rows_per_s(commits, len(commits) // 2), unit="rows/s")
