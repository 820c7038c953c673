"""The sources of a query: every micro-batch of the streaming DataFrame is one epoch, and the initial state comes with the first of them.

Invariant: the rows of an initial state are in the epoch of the first rows, as Spark has them in its first batch, and in no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from perseid.sources.stream import StreamSource
from perseid.sources.table import TableSource
from perseid.storage.store import Store
from perseid.vocabulary import Offset


@dataclass(eq=False)
class MicroBatches(StreamSource):
    """A streaming DataFrame whose micro-batches are taken one by one."""

    answered: Offset = field(default=Offset(0), init=False, repr=False)

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        self.answered = super().end(start, 1, now_ms)  # one row: a batch is taken whole
        return self.answered

    def store_all(self) -> Offset:
        """Wait until all that Spark's source has now is stored; how many batches there are then."""
        query = self._query
        if query is not None:
            query.processAllAvailable()
        return Offset(len(self._log))


@dataclass(eq=False)
class InitialState:
    """The rows of a batch DataFrame, all in one epoch: that in which the other source has its first rows.

    It is declared after the other source, which therefore is asked first.
    """

    df: DataFrame
    beside: MicroBatches
    kind: str = field(default="initial state", init=False)
    _table: TableSource = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._table = TableSource(self.df)

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._table.open(spark, folder, store)

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        return self._table.end(start, None, now_ms) if self.beside.answered else start

    def read(self, start: Offset, end: Offset) -> DataFrame:
        return self._table.read(start, end)

    def rows(self, start: Offset, end: Offset) -> int | None:
        return self._table.rows(start, end)

    def finished(self, start: Offset) -> bool:
        return self._table.finished(start) or self.beside.finished(self.beside.answered)

    def trim(self, start: Offset) -> None:
        self._table.trim(start)

    def close(self) -> None:
        self._table.close()
