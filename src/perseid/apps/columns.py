"""Whole columns in a Spark transform: a function of Arrow batches, applied by ``mapInArrow``.

The function must be deterministic, row by row or batch by batch: Spark may cut the same rows into other batches when it
computes a lost stage again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Mapped:
    """A transform: ``function`` over slices of at most ``rows`` rows, so that pictures never fill the memory."""

    function: Callable[[pa.RecordBatch], pa.RecordBatch]
    schema: str
    rows: int = 65_536

    def __call__(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(self._batches, self.schema)

    def _batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, self.rows):
                yield self.function(batch.slice(start, self.rows))
