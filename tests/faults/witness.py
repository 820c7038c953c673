"""An operator that tells all it sees, and a source whose slices are given row by row: for tests of what Spark makes of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from perseid import KeyedOperator, state
from perseid.storage.store import Store
from perseid.vocabulary import Offset

SCHEMA = "key long, value long, at long"
OUTPUT = "what string, key long, n long, value long"
LAST_KEY = 99  # comes last, and brings event time to its end
Row = tuple[int, int, int]  # key, value, event time


class Witness(KeyedOperator):
    """Counts the rows and values of every key; each key rings once by either clock. It tells the first column of its key."""

    n: int = state(default=0)
    value: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> Iterator[Mapping[str, Any]]:
        if self.n == 0 and key != LAST_KEY:
            self.context.timers.at_processing_time(key, self.context.time_ms + 1)
            if self.context.timers.has_event_time:
                self.context.timers.at_event_time(key, min(rows["at"].to_pylist()))
        self.n += rows.num_rows
        self.value += sum(rows["value"].to_pylist())
        yield {"what": "rows", "key": _first(key), "n": self.n, "value": self.value}

    def on_key_timer(self, key: Any, timer: Any) -> Iterator[Mapping[str, Any]]:
        yield {"what": timer.kind, "key": _first(key), "n": 0, "value": 0}


def _first(key: Any) -> int:
    return int(key[0]) if isinstance(key, tuple) else int(key)


class Passed(KeyedOperator):
    """Hands rows on, and counts them."""

    seen: int = state(default=0)

    def process_key(self, key: int, rows: pa.Table) -> pa.Table:
        self.seen += rows.num_rows
        return rows


class Pairs(KeyedOperator):
    """Counts the rows of two inputs in an epoch."""

    seen: int = state(default=0)

    def process_key(self, key: int, left: pa.Table, right: pa.Table) -> Iterator[Mapping[str, Any]]:
        self.seen += left.num_rows + right.num_rows
        yield {"key": key, "n": self.seen}


class Slices:
    """A source of given slices, one in each epoch. Spark knows what is in them, above all that nothing is."""

    kind = "slices"

    def __init__(self, slices: Sequence[Sequence[Row]]) -> None:
        self._slices = slices

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark = spark

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        return Offset(min(start + 1, len(self._slices)))

    def read(self, start: Offset, end: Offset) -> DataFrame:
        rows = [row for given in self._slices[start:end] for row in given]
        df = self._spark.createDataFrame(rows, SCHEMA)
        return df if rows else df.limit(0)

    def rows(self, start: Offset, end: Offset) -> int | None:
        return None

    def finished(self, start: Offset) -> bool:
        return start >= len(self._slices)

    def trim(self, start: Offset) -> None:
        pass

    def close(self) -> None:
        pass
