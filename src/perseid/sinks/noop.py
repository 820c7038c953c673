"""Epochs that go nowhere: for benchmarks, and for operators that are run for their effects."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from perseid.storage.store import Store
from perseid.vocabulary import Epoch


def noop() -> NoopSink:
    """A sink that computes every row and keeps none.

    >>> out = noop()
    """
    return NoopSink()


@dataclass(eq=False)
class NoopSink:
    """Made by `noop`."""

    kind: str = field(default="noop", init=False)

    def open(self, spark: SparkSession, store: Store) -> None:
        pass

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return False

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        df.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        pass
