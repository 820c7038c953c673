"""The applications Perseid runs here, written as a user would write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import perseid
from perseid import App, Operator, state
from perseid.bench.measuring.processors import Processor
from perseid.bench.measuring.sizes import KEY_SQL, KEYS, PROCESSOR_SCHEMA, SCHEMA, SHARDS

OUTPUT = "key long, n long"


def _no_numbers() -> np.ndarray:
    return np.empty(0, np.int64)


class Count(Operator):
    """How often every key was seen. Works on whole columns: sorted keys and their counts beside them."""

    ordered = False
    keys: np.ndarray = state(default_factory=_no_numbers)
    counts: np.ndarray = state(default_factory=_no_numbers)

    def process(self, rows: pa.Table) -> pa.Table:
        seen, times = self._seen(rows)
        new = np.setdiff1d(seen, self.keys)
        if new.size:
            places = np.searchsorted(self.keys, new)
            self.keys, self.counts = np.insert(self.keys, places, new), np.insert(self.counts, places, 0)
        places = np.searchsorted(self.keys, seen)
        self.counts[places] += times
        return pa.table({"key": seen, "n": self.counts[places]})

    def _seen(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """The keys of these rows, each once, and how often each was there."""
        table = rows.group_by("key", use_threads=False).aggregate([([], "count_all")])
        return table["key"].to_numpy(), table["count_all"].to_numpy()


class CombinedCount(Count):
    """The same on rows that Spark has added up already: every key comes once, with its number."""

    def _seen(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        return rows["key"].to_numpy(), rows["n"].to_numpy()


class Newest(Operator):
    """The newest values of every key in a big array, a ring for each: state of a known size of which every epoch changes much."""

    ordered = False
    values: np.ndarray | None = state(default=None)
    rows: int = state(default=0)

    def __init__(self, bytes_per_shard: int) -> None:
        self.width = bytes_per_shard // (8 * KEYS // SHARDS)

    def process(self, rows: pa.Table) -> pa.Table:
        if self.values is None:  # random numbers, so that every page is there and none like another
            self.values = np.random.default_rng(self.context.shard.index).random(KEYS // SHARDS * self.width)
        rings = rows["key"].to_numpy() % (KEYS // SHARDS)
        self.values[rings * self.width + self.context.epoch % self.width] = rows["value"].to_numpy()
        self.rows += rows.num_rows
        return pa.table({"key": [self.context.shard.index], "n": [self.rows]})


def count(folder: Path, out: Path, *, combine: bool, sink: str = "parquet") -> App:
    """A keyed count over parquet files, to parquet files, exactly once (or to nowhere)."""
    app = App("count")
    rows = app.source("rows", perseid.sources.files(folder, schema=SCHEMA))
    operator, partial = (CombinedCount(), {"n": "count(*)"}) if combine else (Count(), None)
    counts = rows.stateful("count", operator, key="key", shards=SHARDS, output=OUTPUT, combine=partial)
    counts.sink("out", perseid.sinks.parquet(out) if sink == "parquet" else perseid.sinks.noop())
    return app


def processor(folder: Path, out: Path, kind: type[Processor], *, pandas: bool) -> App:
    """A class written for Spark, over parquet files, to parquet files, exactly once."""
    app = App("processor")
    rows = app.source("rows", perseid.sources.files(folder, schema=PROCESSOR_SCHEMA))
    operator = perseid.spark_processor(kind(), time_mode=kind.time_mode, pandas=pandas)
    results = rows.stateful("processor", operator, key="key", shards=SHARDS, output=OUTPUT)
    results.sink("out", perseid.sinks.parquet(out))
    return app


def newest(out: Path, *, state_bytes: int, rate: float | None) -> App:
    """An application with ``state_bytes`` of state in all."""
    app = App("newest")
    columns = {"key": KEY_SQL, "value": "cast(id as double)"}
    rows = app.source("rows", perseid.sources.generator(columns, rate=rate))
    found = rows.stateful("newest", Newest(state_bytes // SHARDS), key="key", shards=SHARDS, output=OUTPUT)
    found.sink("out", perseid.sinks.parquet(out))
    return app
