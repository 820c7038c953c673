"""Epochs in the memory of the driver: for tests, notebooks and demonstrations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from perseid.storage.store import Store
from perseid.vocabulary import Epoch


def memory() -> MemorySink:
    """A sink that keeps all rows in the driver; ask the object for them. A new process begins empty.

    >>> out = memory()
    >>> out.rows()  # after a run: [{'word': 'a', 'n': 1}, …]
    []
    """
    return MemorySink()


@dataclass(eq=False)
class MemorySink:
    """Made by `memory`."""

    kind: str = field(default="memory", init=False)
    _epochs: dict[Epoch, tuple[str, pa.Table]] = field(default_factory=dict, init=False, repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of the epochs."""
        return [row for epoch in self.epochs() for row in self._epochs[epoch][1].to_pylist()]

    def table(self) -> pa.Table:
        """All rows as one Arrow table, in the order of the epochs; a table without columns if nothing was written."""
        tables = [self._epochs[epoch][1] for epoch in self.epochs()]
        return pa.concat_tables(tables) if tables else pa.table({})

    def epochs(self) -> list[Epoch]:
        """The epochs that are there, in order."""
        return sorted(self._epochs)

    def open(self, spark: SparkSession, store: Store) -> None:
        pass

    def holds(self, epoch: Epoch, digest: str) -> bool:
        held = self._epochs.get(epoch)
        return held is not None and held[0] == digest

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        self._epochs[epoch] = (digest, df.toArrow())

    def close(self) -> None:
        pass
