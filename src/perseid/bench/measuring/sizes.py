"""How much is measured: the numbers of a full and of a quick run. A quick run has all parts and fewer repetitions."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = 100_000
ROWS_PER_EPOCH = 1_000_000
SMALL_ROWS = 1_000
SHARDS = 2
CHECKPOINT_S = 10
SCHEMA = "key long"
PROCESSOR_ROWS = 100_000
PROCESSOR_KEYS = 10_000
PROCESSOR_SCHEMA = "key long, value long"
KEY_SQL = f"(id * 2654435761) % {KEYS}"
"""The key of row ``id``: every key once in 100,000 rows, in no order that helps anybody."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """One run's repetitions."""

    rounds: int  # of everything that is interleaved with a peer
    epochs: int  # of Perseid in one round of the count, at least: the one that is judged lasts until it has had a checkpoint
    batches: int  # of the JVM aggregate and of the identity job
    state_batches: int  # of transformWithState, a tenth of the rows each
    small_epochs: int
    small_discarded: int
    small_rounds: int
    extras: bool  # measure what no goal asks for, too: with combining, without sinks, transformWithStateInPandas
    processor_rounds: int
    processor_epochs: int  # of Perseid in one round, at least
    processor_batches: int  # of Spark
    processor_small: int  # epochs and batches of a thousand rows
    growth_epochs: int
    growth_from: int  # the driver's memory is first read after this many
    checkpoint_pairs: int  # checkpoints that are compared with the time around them
    host_kills: int
    executor_kills: int


FULL = Sizes(
    rounds=3,
    epochs=24,
    batches=8,
    state_batches=6,
    small_epochs=60,
    small_discarded=20,
    small_rounds=3,
    extras=True,
    processor_rounds=2,
    processor_epochs=24,
    processor_batches=4,
    processor_small=30,
    growth_epochs=1_000,
    growth_from=200,
    checkpoint_pairs=18,
    host_kills=7,
    executor_kills=3,
)
QUICK = Sizes(
    rounds=1,
    epochs=6,
    batches=3,
    state_batches=2,
    small_epochs=12,
    small_discarded=5,
    small_rounds=1,
    extras=False,
    processor_rounds=1,
    processor_epochs=16,
    processor_batches=2,
    processor_small=16,
    growth_epochs=50,
    growth_from=25,
    checkpoint_pairs=1,
    host_kills=1,
    executor_kills=1,
)
